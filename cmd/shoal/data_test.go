//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal"
)

// Every process is told where the files are: the first by the run file, the others by --data.
func TestTestnetOnFiles(t *testing.T) {
	var hashes []string
	for _, args := range [][]string{
		{"--run", "../../examples/harbour.yaml", "--peers", "1"},
		{"--run", "../../examples/harbour.yaml", "--peers", "2"},
		{"--run", "../../examples/harbour.yaml", "--peers", "2", "--data", "text:../../examples/harbour.txt"},
	} {
		var stdout, stderr bytes.Buffer
		args = append([]string{"testnet", "--steps", "3", "--json", "--report", t.TempDir()}, args...)
		if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != exitOK {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr.String())
		}
		var r shoal.Report
		if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, r.StateHash)
	}
	if hashes[0] != hashes[1] || hashes[0] != hashes[2] {
		t.Errorf("state hashes %v differ", hashes)
	}
}

// A run file's path is relative to its folder.
func TestPathOfARunFile(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"data: {source: mnist, path: a/b}":  filepath.Join(dir, "a", "b"),
		"data: {source: mnist, path: /a/b}": "/a/b",
		"data: {source: mnist}":             "",
	} {
		path := filepath.Join(dir, "run.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := new(app).readRunFile(path)
		if err != nil || r.Data.Path != want {
			t.Errorf("%s: path is %q, %v, want %q", text, r.Data.Path, err, want)
		}
	}
	r, err := (&app{stdin: strings.NewReader("data: {source: mnist, path: a/b}")}).readRunFile("-")
	if err != nil || r.Data.Path != "a/b" {
		t.Errorf("from stdin: path is %q, %v", r.Data.Path, err)
	}
}
