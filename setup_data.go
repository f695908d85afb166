package shoal

import (
	"context"
	"fmt"
	"strings"

	"shoal/internal/data"
)

// openData makes the samples that the run file names: they are drawn, or lie in files on this machine.
func (t *task) openData(ctx context.Context, cfg Config) (err error) {
	m, d := t.run.Model, t.run.Data
	if !d.Files() {
		if cfg.Files != "" {
			return fmt.Errorf("this run's data.source is %s: it needs no files, but %.100q was given", d.Source, cfg.Files)
		}
		return t.drawDigits()
	}
	path, err := t.filesPath(cfg)
	if err != nil {
		return err
	}
	if t.files, err = data.OpenLocal(ctx, d.Source, path); err != nil {
		return err
	}
	train, held, err := data.Open(ctx, t.files.Manifest(), t.files, data.Shape{Image: m.Image, Classes: m.Classes,
		Context: m.Context, Vocab: m.Vocab, Width: d.Width, Eval: d.Eval})
	if err != nil {
		return err
	}
	t.data = train
	if err := train.Check(); err != nil || held == nil {
		return err
	}
	t.eval = held
	return held.Check()
}

func (t *task) drawDigits() (err error) {
	d, image := t.run.Data, t.run.Model.Image
	if t.data, err = data.NewDigits(data.DigitsConfig{Seed: d.Seed, Image: image, Count: d.Samples}); err != nil {
		return err
	}
	if d.Eval > 0 {
		t.eval, err = data.NewDigits(data.DigitsConfig{Seed: d.Seed, Image: image, Count: d.Eval, First: data.HeldOut})
	}
	return err
}

// filesPath is where the run's files are on this machine.
func (t *task) filesPath(cfg Config) (string, error) {
	source := t.run.Data.Source
	place := "FILE"
	if source == "mnist" {
		place = "DIR"
	}
	if cfg.Files == "" {
		if t.run.Data.Path == "" {
			return "", fmt.Errorf("this run learns from files: say where they are on this machine, --data %s:%s", source, place)
		}
		return t.run.Data.Path, nil
	}
	kind, path, _ := strings.Cut(cfg.Files, ":")
	if kind != source || path == "" {
		return "", fmt.Errorf("this run's data are %s:%s, not %.100q", source, place, cfg.Files)
	}
	return path, nil
}

// identity says which files the run learns from; nil if there are none.
func (t *task) identity() *data.Identity {
	if t.files == nil {
		return nil
	}
	return &t.files.Manifest().Identity
}

// close gives the data's files back. Nobody may read samples any more.
func (t *task) close() {
	if t != nil && t.files != nil {
		t.files.Close()
	}
}
