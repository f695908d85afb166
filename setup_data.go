package shoal

import (
	"context"
	"fmt"
	"strings"

	"shoal/internal/data"
	"shoal/internal/dataserve"
)

// openData makes the samples that the run file names: they are drawn, or lie in files on this machine, or come from others
// by fetch.
func (t *task) openData(ctx context.Context, cfg Config, fetch openFetcher) (err error) {
	m, d := t.run.Model, t.run.Data
	if !d.Files() {
		if cfg.Files != "" {
			return fmt.Errorf("this run's data.source is %s: it needs no files, but %.100q was given", d.Source, cfg.Files)
		}
		return t.drawDigits()
	}
	fetched := fetch != nil && cfg.Files == ""
	if fetched {
		err = t.fetchFiles(ctx, fetch)
	} else {
		err = t.openFiles(ctx, cfg)
	}
	if err != nil {
		return err
	}
	from := t.chunks
	if fetched {
		from = t.fetched
	}
	train, held, err := data.Open(ctx, t.manifest, from, data.Shape{Image: m.Image, Classes: m.Classes,
		Context: m.Context, Vocab: m.Vocab, Width: d.Width, Eval: d.Eval})
	if err != nil {
		return err
	}
	t.data = train
	if held != nil {
		t.eval = held
	}
	if fetched { // whoever has the files has checked them, and each sample is checked when it is read
		return nil
	}
	if err := train.Check(); err != nil || held == nil {
		return err
	}
	return held.Check()
}

// openFiles opens the run's files on this machine.
func (t *task) openFiles(ctx context.Context, cfg Config) error {
	path, err := t.filesPath(cfg)
	if err != nil {
		return err
	}
	files, err := data.OpenLocal(ctx, t.run.Data.Source, path)
	if err != nil {
		return err
	}
	t.chunks, t.manifest = files, files.Manifest()
	return nil
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
	if t.manifest == nil {
		return nil
	}
	return &t.manifest.Identity
}

// close gives the data's files back. Nobody may read samples any more.
func (t *task) close() {
	if t == nil {
		return
	}
	switch c := t.chunks.(type) {
	case *data.Local:
		c.Close()
	case *dataserve.Fetcher:
		c.Close()
	}
}
