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

// A folder that can't be written is noticed before anybody trains.
func TestFoldersAreCheckedFirst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := writeRun(t, smallRun(1_000_000))
	for _, args := range [][]string{
		{"testnet", "--run", long, "--peers", "1", "--report", file},
		{"testnet", "--run", long, "--peers", "1", "--report", t.TempDir(), "--out", file},
		{"up", long, "--listen", "127.0.0.1:0", "--report", filepath.Join(file, "x")},
		{"up", long, "--listen", "127.0.0.1:0", "--out", filepath.Join(file, "x")},
	} {
		flag := args[len(args)-2]
		code, stdout, stderr := command(t, args...)
		if code != exitWrongInput || stdout != "" || !strings.HasPrefix(stderr, "shoal: "+flag+": ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

// What can't be written at the end, as on a disk that is full by then, is no reason to throw the result away.
func TestResultIsShownThoughItCantBeWritten(t *testing.T) {
	blocked := func(name string) string { // a folder in which no file of that name can be put
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, name, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	file := writeRun(t, smallRun(3))
	for _, c := range []struct {
		name string
		args []string
		json bool
		want string
	}{
		{"report", []string{"--report", blocked("report.html")}, false, "write report: "},
		{"report as JSON", []string{"--json", "--report", blocked("report.json")}, true, "write report: "},
		{"model", []string{"--report", t.TempDir(), "--out", blocked("model.safetensors")}, false, "the trained model was not written: "},
		{"both", []string{"--report", blocked("loss.svg"), "--out", blocked("config.json")}, false, "the trained model was not written: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := command(t, append([]string{"testnet", "--run", file, "--peers", "2"}, c.args...)...)
			errs := stderr[strings.Index(stderr, "shoal: "):] // behind the progress, which --json sends there
			if code != exitFailed || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("exit code %d, stderr %q, want %q", code, errs, c.want)
			}
			if !c.json && (!strings.Contains(stdout, "state hash  ") || !strings.Contains(stdout, "accuracy  ")) {
				t.Errorf("stdout lacks the result: %q", stdout)
			}
			var r shoal.Report
			if err := json.NewDecoder(bytes.NewBufferString(stdout)).Decode(&r); c.json && (err != nil || len(r.StateHash) != 64) {
				t.Errorf("stdout is no report: %v", err)
			}
		})
	}
}
