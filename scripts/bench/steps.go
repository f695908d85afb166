package main

import (
	"fmt"
	"time"

	"shoal/kernel/cpu"
	"shoal/model"
	"shoal/model/gpt"
	"shoal/model/vit"
	"shoal/scripts/internal/trainer"
)

// stepMatch is a whole training step: forward, backward, AdamW.
type stepMatch struct {
	match
	kind       string // "vit" or "gpt"
	config     map[string]int
	batch      int
	eager      float64 // how many times as fast as PyTorch eager we are to be
	threads    int
	parameters int
	missing    string // what the other side lacks, and why
	device     *clocked
	trainer    *trainer.Trainer
	busy       time.Duration // in the steps that were measured
}

// steps are the models that are trained. PyTorch's are of the same keys, see models.py.
func steps(threads int) []*stepMatch {
	image := func(dim, heads int) map[string]int {
		return map[string]int{"image": 28, "patch": 7, "channels": 1, "dim": dim, "depth": 12, "heads": heads, "classes": 10}
	}
	text := map[string]int{"vocab": 256, "context": 256, "dim": 384, "depth": 6, "heads": 6}
	return []*stepMatch{
		{match: match{name: "ViT", shape: "12 x 64"}, kind: "vit", config: image(64, 4), batch: 64, eager: 1.3, threads: threads},
		{match: match{name: "ViT", shape: "12 x 192"}, kind: "vit", config: image(192, 3), batch: 64, eager: 1.3, threads: threads},
		{match: match{name: "GPT", shape: "6 x 384"}, kind: "gpt", config: text, batch: 16, eager: 1.15, threads: threads},
	}
}

// model is ours, and how many values its labels have.
func (s *stepMatch) model() (model.Model, int, error) {
	c := s.config
	if s.kind == "gpt" {
		m, err := gpt.New(gpt.Config{Vocab: c["vocab"], Context: c["context"], Dim: c["dim"], Depth: c["depth"], Heads: c["heads"]})
		return m, c["vocab"], err
	}
	m, err := vit.New(vit.Config{Image: c["image"], Patch: c["patch"], Channels: c["channels"], Dim: c["dim"], Depth: c["depth"],
		Heads: c["heads"], Classes: c["classes"]})
	return m, c["classes"], err
}

// prepare has both sides ready for the match. Their models must have as many parameters as ours.
func (s *stepMatch) prepare(t *torch) error {
	m, classes, err := s.model()
	if err != nil {
		return err
	}
	for _, u := range m.Units() {
		for _, p := range u.Params {
			s.parameters += p.Len()
		}
	}
	dev, err := cpu.New(cpu.Config{Threads: s.threads})
	if err != nil {
		return err
	}
	s.device = &clocked{Device: dev}
	if s.trainer, err = trainer.New(m, trainer.NewSamples(m.Sample(), s.batch, classes), s.device); err != nil {
		return err
	}
	s.device.products, s.device.attention = 0, 0
	s.ours = &side{name: "shoal", turn: s.turn}
	theirs, sides, err := t.make(request{Ask: "step", Model: s.kind, Config: s.config, Batch: s.batch, WeightDecay: trainer.Hyper.WeightDecay,
		AdamW: map[string]any{"lr": trainer.Hyper.LR, "betas": []float64{trainer.Hyper.Beta1, trainer.Hyper.Beta2}, "eps": trainer.Hyper.Eps}})
	if err != nil {
		return err
	}
	if theirs.Parameters != s.parameters {
		return fmt.Errorf("%s %s: PyTorch's model has %d parameters, ours %d", s.name, s.shape, theirs.Parameters, s.parameters)
	}
	s.theirs, s.missing = sides, theirs.Missing
	return nil
}

func (s *stepMatch) turn(d time.Duration) (float64, error) {
	start := time.Now()
	defer since(&s.busy, start)
	return s.trainer.Turn(d)
}

// share is how much of our time went into products, and into attention, whose own products count there.
func (s *stepMatch) share() (products, attention float64) {
	d := s.device
	return d.products.Seconds() / s.busy.Seconds(), d.attention.Seconds() / s.busy.Seconds()
}
