package shoal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/internal/runfile"
)

func TestConfigCheck(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none", "key")
	for _, tc := range []struct {
		field, want string
		cfg         Config
	}{
		{"peers", "1 to 32", Config{Peers: 33}},
		{"peers", "1 to 32", Config{Peers: -1}},
		{"cores", "1 to 4096", Config{Cores: 5000}},
		{"memory", "at least 1 MiB", Config{Memory: 1 << 10}},
		{"kernel", "generic", Config{Kernel: "abacus"}},
		{"listen", "host:port", Config{Listen: []string{"127.0.0.1:0", "foo"}}},
		{"announce", "host:port", Config{Announce: []string{"foo"}}},
		{"identity", "no folder " + filepath.Dir(missing), Config{Identity: missing}},
	} {
		run := runfile.Default()
		tc.cfg.RunFile = &run
		for _, err := range []error{tc.cfg.Check(), func() error { _, err := Run(t.Context(), tc.cfg); return err }()} {
			var wrong *ConfigError
			if !errors.As(err, &wrong) || wrong.Field != tc.field || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: error %v, want one with %q", tc.field, err, tc.want)
			}
		}
	}
	if _, err := os.Stat(filepath.Dir(missing)); err == nil {
		t.Error("a mistyped path made a folder")
	}
	if err := (&Config{Identity: "key", Listen: []string{":4001"}, Kernel: "generic"}).Check(); err != nil {
		t.Error(err)
	}
}

// What the run file or a model of one's own has wrong is the caller's fault too.
func TestRunFileThatCantBe(t *testing.T) {
	run := runfile.Default()
	run.Model.Type, run.Data.Source = runfile.Custom, runfile.Custom
	_, err := Run(t.Context(), Config{RunFile: &run})
	var wrong *ConfigError
	if !errors.As(err, &wrong) {
		t.Errorf("error %v, want a *ConfigError", err)
	}
}
