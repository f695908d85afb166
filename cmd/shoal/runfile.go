package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"shoal"
	"shoal/internal/runfile"
)

func (a *app) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "init",
		Short:   "Print a run file with a comment on every key",
		Example: "  shoal init > run.yaml",
		Args:    takes(0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := a.stdout.Write(runfile.Marshal(runfile.Default()))
			return err
		},
	}
}

// readRunFile reads the run file at path, "-" being stdin.
func (a *app) readRunFile(path string) (*shoal.RunFile, error) {
	in := a.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, wrongInput{fmt.Errorf("run file: %w", err)}
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, runfile.MaxBytes+1))
	if err != nil {
		return nil, wrongInput{fmt.Errorf("run file %s: %w", path, err)}
	}
	run, err := runfile.Parse(text)
	if err != nil {
		return nil, wrongInput{fmt.Errorf("%s: %w", path, err)}
	}
	if files := run.Data.Path; files != "" && path != "-" && !filepath.IsAbs(files) {
		run.Data.Path = filepath.Join(filepath.Dir(path), files)
	}
	return &run, nil
}

// overrides are flags that stand for keys of the run file.
type overrides struct {
	set []func(*shoal.RunFile) // one for each flag that was given
	cmd *cobra.Command
}

// override adds a flag that sets a key of the run file.
func override[T any](o *overrides, name, help string, register func(name string, zero T, help string) *T, set func(*shoal.RunFile, T)) {
	var zero T
	value := register(name, zero, help)
	o.set = append(o.set, func(r *shoal.RunFile) {
		if o.cmd.Flags().Changed(name) {
			set(r, *value)
		}
	})
}

// overrideData adds the flag that sets data.source and, after a colon, data.path.
func overrideData(o *overrides) {
	override(o, "data", "data.`source` of the run file, with the path of its files: digits, mnist:DIR, text:FILE or tokens:FILE",
		o.cmd.Flags().String, func(r *shoal.RunFile, v string) {
			source, path, _ := strings.Cut(v, ":")
			r.SetSource(source)
			r.Data.Path = path
		})
}

func addOverrides(cmd *cobra.Command) *overrides {
	o, f := &overrides{cmd: cmd}, cmd.Flags()
	overrideData(o)
	override(o, "model", "model.`type` of the run file: vit or gpt", f.String, func(r *shoal.RunFile, v string) { r.SetModel(v) })
	override(o, "steps", "train.steps of the run file; a longer train.warmup is cut to it", f.Int, func(r *shoal.RunFile, v int) {
		r.Train.Steps, r.Train.Warmup = v, min(r.Train.Warmup, v)
	})
	override(o, "batch", "train.batch of the run file; a larger train.microbatch is cut to it", f.Int, func(r *shoal.RunFile, v int) {
		r.Train.Batch, r.Train.Microbatch = v, min(r.Train.Microbatch, v)
	})
	override(o, "seed", "train.seed of the run file", f.Uint64, func(r *shoal.RunFile, v uint64) { r.Train.Seed = v })
	override(o, "strategy", "mesh.`strategy` of the run file: fsdp, zero2, zero1 or ddp", f.String, func(r *shoal.RunFile, v string) { r.Mesh.Strategy = v })
	override(o, "reshard", "mesh.reshard of the run file: `true` or false", f.Bool, func(r *shoal.RunFile, v bool) { r.Mesh.Reshard = v })
	f.Lookup("reshard").NoOptDefVal = "" // a value is needed
	override(o, "recompute", "mesh.`recompute` of the run file: auto, always or never", f.String, func(r *shoal.RunFile, v string) { r.Mesh.Recompute = v })
	override(o, "packing", "wire.`packing` of the run file: auto, on or off", f.String, func(r *shoal.RunFile, v string) { r.Wire.Packing = v })
	override(o, "checkpoint-every", "checkpoint.every of the run file: `steps` from one checkpoint to the next", f.Int, func(r *shoal.RunFile, v int) { r.Checkpoint.Every = v })
	return o
}

// apply changes r as the flags say. An error is the run file's own.
func (o *overrides) apply(r *shoal.RunFile) error {
	for _, set := range o.set {
		set(r)
	}
	if r.Model.Type == runfile.Custom || r.Data.Source == runfile.Custom {
		return wrongInput{errors.New("custom stands for the model and the data of a Go program: start the run by that program, as examples/ownmodel does")}
	}
	if err := r.Validate(); err != nil {
		return wrongInput{err}
	}
	return nil
}
