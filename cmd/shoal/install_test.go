//go:build unix

package main

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What docs/install.md promises.

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"completion", shell}, nil, &stdout, &stderr); code != exitOK || !strings.Contains(stdout.String(), "shoal") {
			t.Errorf("%s: exit code %d, %d bytes, stderr %q", shell, code, stdout.Len(), &stderr)
		}
	}
	// What the scripts call.
	for typed, want := range map[string]string{"testn": "testnet", "up --ide": "--identity"} {
		var stdout, stderr bytes.Buffer
		run(t.Context(), append([]string{"__complete"}, strings.Fields(typed)...), nil, &stdout, &stderr)
		if !strings.HasPrefix(stdout.String(), want) {
			t.Errorf("%q is completed as %q, want %q", typed, &stdout, want)
		}
	}
}

// A run that was told of no file writes none.
func TestNothingIsWritten(t *testing.T) {
	file := writeRun(t, smallRun(2))
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, name := range []string{"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"} {
		t.Setenv(name, "")
	}
	t.Setenv("TMPDIR", home)
	t.Chdir(home)
	up := startProgram(t, "up", file, "--peers", "2", "--listen", "127.0.0.1:0")
	join := startProgram(t, "join", up.line(t, "shoal:"), "--listen", "127.0.0.1:0")
	for _, p := range []*program{up, join} {
		if code := p.end(t, patient); code != exitOK {
			t.Fatalf("exit code %d, stderr %s", code, p.stderr)
		}
	}
	var found []string
	filepath.WalkDir(home, func(path string, _ fs.DirEntry, _ error) error {
		found = append(found, path)
		return nil
	})
	if !slices.Equal(found, []string{home}) {
		t.Errorf("it left %v", found[1:])
	}
}
