//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal"
)

// Three processes join without the files that the first one has.
func TestJoinWithoutData(t *testing.T) {
	text, err := os.ReadFile("../../examples/harbour.txt")
	if err != nil {
		t.Fatal(err)
	}
	for len(text) < 5<<19 {
		text = append(text, text...)
	}
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	run := smallRun(4)
	run.SetModel("gpt")
	run.SetSource("text")
	run.Model.Dim, run.Model.Depth, run.Model.Heads, run.Model.Context = 16, 2, 2, 16
	run.Data.Path, run.Data.Eval = file, 50
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	up := startProgram(t, "up", writeRun(t, run), "--peers", "4", "--listen", "127.0.0.1:0")
	link := up.line(t, "shoal:")
	startProgram(t, "join", link, "--listen", "127.0.0.1:0", "--cache", file).refused(t, "cache: ")
	cache := filepath.Join(t.TempDir(), "cache")
	joins := []*program{
		startProgram(t, "join", link, "--listen", "127.0.0.1:0", "--json"),
		startProgram(t, "join", link, "--listen", "127.0.0.1:0", "--json", "--cache", "none"),
		startProgram(t, "join", link, "--listen", "127.0.0.1:0", "--json", "--cache", cache),
	}
	hash := strings.Fields(up.line(t, "state hash"))[2]
	for i, join := range joins {
		if code := join.end(t, patient); code != exitOK {
			t.Fatalf("join %d: exit code %d, stderr %q", i, code, join.stderr)
		}
		var out strings.Builder
		for line := range join.stdout {
			out.WriteString(line)
		}
		var got shoal.Report
		if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got.StateHash != hash {
			t.Errorf("join %d printed hash %q (%v), up %q", i, got.StateHash, err, hash)
		}
	}
	base, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{filepath.Join(base, "shoal", "chunks"), cache} {
		if files, err := os.ReadDir(folder); err != nil || len(files) == 0 {
			t.Errorf("%s has %d files, %v", folder, len(files), err)
		}
	}
}
