package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"shoal"
	"shoal/internal/runfile"
)

// part is one table: a model, and who trains it.
type part struct {
	model     model
	processes int // of both sides; 0 compares peers with peers
}

// model is what is trained.
type model struct {
	name   string
	run    func(text string) *shoal.RunFile // text is a file to read
	kind   string                           // its name in models.py
	config map[string]int                   // its keys there
	steps  int                              // of a turn, after the first one
}

var (
	gpt = model{name: "GPT 6 x 384", run: gptRun, kind: "gpt", steps: 2,
		config: map[string]int{"vocab": 256, "context": 256, "dim": 384, "depth": 6, "heads": 6}}
	vit = model{name: "ViT 12 x 192", run: vitRun, kind: "vit", steps: 10,
		config: map[string]int{"image": 28, "patch": 7, "channels": 1, "dim": 192, "depth": 12, "heads": 3, "classes": 10}}
)

// sizes are the numbers of peers that are compared with the first of them.
var sizes = []int{1, 2, 4}

// inBlocks is how many parameters the transformer blocks have: their matrices of 12 squares of the width, biases and norms.
func (m model) inBlocks() int64 {
	d, depth := int64(m.config["dim"]), int64(m.config["depth"])
	return depth * (12*d*d + 13*d)
}

// parts are all tables, in the order of the page.
func parts() []part {
	return []part{{gpt, 0}, {gpt, 2}, {gpt, 4}, {vit, 2}, {vit, 4}}
}

func (p part) name() string {
	if p.processes == 0 {
		return p.model.name + ", one peer and several"
	}
	return fmt.Sprintf("%s, %d processes", p.model.name, p.processes)
}

// run is the run file. Each of the most processes has one microbatch, as theirs have; two have two.
func (p part) run(text string) *shoal.RunFile {
	r := p.model.run(text)
	r.Train.Microbatch = r.Train.Batch / slices.Max(sizes)
	return r
}

func (p part) contains(text string) bool { return strings.Contains(p.name(), text) }

// gptRun trains on 16 x 256 tokens a step, vitRun on 64 images. Nobody keeps copies for others, as PyTorch's processes don't.
func gptRun(text string) *shoal.RunFile {
	r := baseRun("gpt", 16)
	r.Model = runfile.Model{Type: "gpt", Vocab: 256, Context: 256, Dim: 384, Depth: 6, Heads: 6}
	r.Data = runfile.Data{Source: "text", Path: text}
	return r
}

func vitRun(string) *shoal.RunFile {
	r := baseRun("vit", 64)
	r.Model.Dim, r.Model.Heads = 192, 3
	return r
}

func baseRun(name string, batch int) *shoal.RunFile {
	r := runfile.Default()
	r.Name, r.Data.Eval, r.Wire.Packing = name, 0, "off"
	r.Train.Batch, r.Train.Warmup, r.Train.LR, r.Train.Schedule = batch, 0, 1e-4, "constant"
	r.Mesh.Backups, r.Mesh.AuditEvery = 0, 0
	return &r
}

// contender is who takes turns.
type contender struct {
	*side
	turn  func(ctx context.Context, steps int) (turn, error)
	close func() error // nil for nothing
}

// measure gives every side its turns.
func (p part) measure(ctx context.Context, c *config) (r *result, err error) {
	text, remove, err := textFile()
	if err != nil {
		return nil, err
	}
	defer remove()
	o := &ours{config: c, run: p.run(text)}
	o.result = &result{Batch: o.run.Train.Batch, Steps: p.model.steps}
	prepare := p.peers
	if p.processes > 0 {
		prepare = p.frameworks
	}
	all, err := prepare(ctx, o)
	defer func() { err = errors.Join(err, closeAll(all)) }()
	if err != nil {
		return nil, err
	}
	for _, x := range all {
		o.result.Sides = append(o.result.Sides, x.side)
	}
	return o.result, p.rounds(ctx, c, all)
}

// peers prepares ours alone. What is there is returned with an error, too, and must be closed.
func (p part) peers(ctx context.Context, o *ours) (all []contender, err error) {
	for _, n := range sizes {
		x, err := o.contender(ctx, n)
		if err != nil {
			return all, err
		}
		all = append(all, x)
	}
	return all, nil
}

// frameworks prepares ours, and after it theirs, as peers does.
func (p part) frameworks(ctx context.Context, o *ours) (all []contender, err error) {
	x, err := o.contender(ctx, p.processes)
	if err != nil {
		return nil, err
	}
	if x.Packed, err = o.packed(ctx, p.processes, p.model.steps); err != nil {
		return nil, err
	}
	if o.result.Bare, err = o.bare(ctx); err != nil {
		return nil, err
	}
	all = append(all, x)
	for _, w := range ways {
		x, err := p.theirs(ctx, o.config, w, o.result)
		if err != nil {
			return all, err
		}
		all = append(all, x)
	}
	return all, nil
}

func closeAll(all []contender) (err error) {
	for _, x := range all {
		if x.close != nil {
			err = errors.Join(err, x.close())
		}
	}
	return err
}

// rounds has the sides take turns. Every other round they come in the opposite order.
func (p part) rounds(ctx context.Context, c *config, all []contender) error {
	all = slices.Clone(all)
	for i := range c.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d:", i+1, c.rounds)
		for _, x := range all {
			t, err := x.turn(ctx, p.model.steps)
			if err != nil {
				return fmt.Errorf("%s: %w", x.Name, err)
			}
			x.add(t)
			fmt.Fprintf(os.Stderr, " %s %.0f ms", x.Name, 1e3*t.seconds)
		}
		fmt.Fprintln(os.Stderr)
		slices.Reverse(all)
	}
	return nil
}

// textFile is a text that is long enough for a run.
func textFile() (path string, remove func(), err error) {
	text, err := os.ReadFile("examples/harbour.txt")
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "shoal-benchmesh-")
	if err != nil {
		return "", nil, err
	}
	path = dir + "/text"
	if err := os.WriteFile(path, slices.Concat(slices.Repeat([][]byte{text}, 20)...), 0o600); err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	return path, func() { os.RemoveAll(dir) }, nil
}
