package shoal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shoal/kernel/cpu/gemm"
	"shoal/peer"
)

const (
	// MaxPeers is the most members that a run can have in this release: direct exchange among more needs a
	// two-dimensional mesh.
	MaxPeers = 32

	minMemory = 1 << 20 // bytes
	maxCores  = 4096
)

// ConfigError says what is wrong with a Config, before anything was done with it.
type ConfigError struct {
	// Field is the field's name as the program's flag has it, in lower case. Empty means the run file, or several.
	Field string
	Err   error
}

func (e *ConfigError) Error() string {
	if e.Field == "" {
		return e.Err.Error()
	}
	return e.Field + ": " + e.Err.Error()
}

func (e *ConfigError) Unwrap() error { return e.Err }

// configError is err as the caller's fault, unless the caller has changed its mind.
func configError(ctx context.Context, err error) error {
	var wrong *ConfigError
	if ctx.Err() != nil || errors.As(err, &wrong) {
		return err
	}
	return &ConfigError{Err: err}
}

// Check says what is wrong with c, as far as it can be told without opening anything: a *ConfigError, or nil.
func (c *Config) Check() error {
	for _, f := range []struct {
		name  string
		check func() error
	}{
		{"peers", func() error { return within(c.Peers, 1, MaxPeers) }},
		{"cores", func() error { return within(c.Cores, 1, maxCores) }},
		{"memory", func() error {
			if c.Memory != 0 && c.Memory < minMemory {
				return fmt.Errorf("%d bytes is too little: offer at least %d MiB", c.Memory, minMemory>>20)
			}
			return nil
		}},
		{"kernel", func() error { return CheckKernel(c.Kernel) }},
		{"listen", func() error { return each(c.Listen, peer.CheckListen) }},
		{"announce", func() error { return each(c.Announce, peer.CheckAnnounce) }},
		{"resume", func() error {
			switch {
			case c.Resume && c.Checkpoint == "":
				return errors.New("give the folder of the checkpoints too, as --checkpoint DIR")
			case c.Resume && c.joins():
				return errors.New("a peer that joins does as the run does, only the one that starts it says so")
			}
			return nil
		}},
		{"lan", func() error {
			if c.LAN == "" {
				return nil
			}
			return peer.CheckLANName(c.LAN)
		}},
		{"identity", func() error { return hasFolder(c.Identity) }},
	} {
		if err := f.check(); err != nil {
			return &ConfigError{f.name, err}
		}
	}
	return nil
}

// CheckKernel says whether this machine has the code path of Config.Kernel.
func CheckKernel(path string) error {
	if paths := gemm.Paths(); path != "" && !slices.Contains(paths, path) {
		return fmt.Errorf("this machine has no %.100q, use %s", path, strings.Join(paths, ", "))
	}
	return nil
}

// within wants n from lo to hi, or 0, which is the default.
func within(n, lo, hi int) error {
	if n != 0 && (n < lo || n > hi) {
		return fmt.Errorf("%d is not allowed here, use %d to %d", n, lo, hi)
	}
	return nil
}

func each(list []string, check func(string) error) error {
	for _, s := range list {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

// hasFolder wants the folder of a file that may be made, so that a mistyped path makes no folders.
func hasFolder(file string) error {
	if file == "" {
		return nil
	}
	dir := filepath.Dir(file)
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no folder %s, make it first", dir)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", dir)
	}
	return nil
}
