package testnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"shoal"
	"shoal/internal/report"
	"shoal/internal/runfile"
)

// ErrTimeout is wrapped by the error of a run that took longer than Config.Timeout.
var ErrTimeout = errors.New("took too long")

// Run starts the peers, has the faults of cfg happen, waits until the run is done, and returns the report of the first
// peer that is still there, once all agree on its state hash. If all went well but for the files in Config.Out, or a fault
// that could not happen, there is both a report and an error. If one process fails that was not meant to, or ctx is
// cancelled, all others are ended; none is left when Run returns.
func Run(ctx context.Context, cfg Config) (*shoal.Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if text := cfg.warning(); text != "" && cfg.OnNotice != nil {
		cfg.OnNotice(text)
	}
	return launch(ctx, cfg, func(ctx context.Context, n *network) error {
		for _, f := range cfg.Faults {
			n.plan(f)
		}
		if err := n.begin(ctx); err != nil {
			return err
		}
		return n.pump(ctx, func() bool { return false })
	})
}

// launch prepares a network for drive, which begins it and sees it through, and returns its report.
func launch(ctx context.Context, cfg Config, drive func(context.Context, *network) error) (r *shoal.Report, err error) {
	if cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cfg.Timeout, fmt.Errorf("testnet: %w: stopped after %v", ErrTimeout, cfg.Timeout))
		defer cancel()
	}
	if cfg.Out != "" {
		undo, err := report.MakeFolder(cfg.Out)
		if err != nil {
			return nil, &shoal.ConfigError{Field: "out", Err: err}
		}
		defer func() {
			if r == nil {
				undo()
			}
		}()
	}
	dir, err := os.MkdirTemp("", "shoal-testnet-")
	if err != nil {
		return nil, fmt.Errorf("testnet: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "run.yaml")
	if err := cfg.prepare(file); err != nil {
		return nil, err
	}
	if cfg.Browsers > 0 {
		if err := cfg.findDist(ctx, filepath.Join(dir, "dist")); err != nil {
			return nil, err
		}
	}
	n := newNetwork(cfg, file)
	defer n.stop()
	if err := drive(ctx, n); err != nil {
		return nil, err
	}
	if r, err = n.agreed(); err != nil {
		return nil, err
	}
	if len(n.happenings) > 0 {
		want, err := batches(ctx, cfg.RunFile)
		if err != nil {
			return nil, err
		}
		r.Faults = n.results(r.ResumedStep+1, r.Steps, want)
	}
	return r, errors.Join(n.late, n.missed(), cfg.written())
}

// written says that the trained model is missing, which the first peer writes: it may have gone before the end.
func (c *Config) written() error {
	if c.Out == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(c.Out, "config.json")); err == nil {
		return nil
	}
	if parts, err := filepath.Glob(filepath.Join(c.Out, "model.safetensors.part*")); err == nil { // of a killed process
		for _, part := range parts {
			os.Remove(part)
		}
	}
	return fmt.Errorf("testnet: the trained model was not written to %s: peer 1, which was to do it, was gone before the end", c.Out)
}

// prepare fills in what is left out, and writes the run file for the first peer.
func (c *Config) prepare(file string) error {
	if c.Program == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("testnet: where is this program: %w", err)
		}
		c.Program = self
	}
	run := *c.RunFile
	if run.Data.Path != "" {
		var err error
		if run.Data.Path, err = filepath.Abs(run.Data.Path); err != nil { // a run file's path is relative to its folder
			return fmt.Errorf("testnet: %w", err)
		}
	}
	c.RunFile = &run
	if c.Verbose != nil {
		c.Verbose = &lockedWriter{w: c.Verbose}
	}
	if err := os.WriteFile(file, runfile.Marshal(run), 0o600); err != nil {
		return fmt.Errorf("testnet: %w", err)
	}
	return nil
}

// lockedWriter keeps lines of several processes apart.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
