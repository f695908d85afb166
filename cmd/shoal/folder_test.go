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

// What is in the model's way is noticed before anybody trains, and no empty folders are left.
func TestPlaceForModelIsCheckedFirst(t *testing.T) {
	top, file := t.TempDir(), writeRun(t, smallRun(1_000_000))
	taken := filepath.Join(top, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "model.safetensors"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"up", file, "--listen", "127.0.0.1:0", "--report", filepath.Join(top, "r", "s"), "--out", taken},
		{"testnet", "--run", file, "--peers", "1", "--report", filepath.Join(top, "r", "s"), "--out", taken},
	} {
		code, stdout, stderr := command(t, args...)
		if code == exitOK || stdout != "" || !strings.Contains(stderr, "model.safetensors is no file") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	code, _, stderr := command(t, "up", file, "--listen", "127.0.0.1:0", "--data", "mnist:/nowhere", "--out", filepath.Join(top, "a", "b"))
	if code != exitWrongInput {
		t.Errorf("no data: exit code %d, %q", code, stderr)
	}
	if names, err := os.ReadDir(top); err != nil || len(names) != 1 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

// afterFirst is a buffer that calls f once, before it takes the first bytes.
type afterFirst struct {
	bytes.Buffer
	f func()
}

func (a *afterFirst) Write(b []byte) (int, error) {
	if a.f != nil {
		a.f()
		a.f = nil
	}
	return a.Buffer.Write(b)
}

// What can't be written at the end, as on a disk that is full by then, is no reason to throw the result away.
func TestResultIsShownThoughItCantBeWritten(t *testing.T) {
	block := func(dir, name string) string { // a folder in which no file of that name can be put
		if err := os.MkdirAll(filepath.Join(dir, name, "x"), 0o700); err != nil {
			t.Error(err)
		}
		return dir
	}
	blocked := func(name string) string { return block(t.TempDir(), name) }
	file := writeRun(t, smallRun(3))
	for _, c := range []struct {
		name string
		args []string
		json bool
		late string // what is blocked once the run has begun, in --out
		want string
	}{
		{"report", []string{"--report", blocked("report.html")}, false, "", "write report: "},
		{"report as JSON", []string{"--json", "--report", blocked("report.json")}, true, "", "write report: "},
		{"model", []string{"--report", t.TempDir(), "--out", t.TempDir()}, false, "model.safetensors", "the trained model was not written: "},
		{"both", []string{"--report", blocked("loss.svg"), "--out", t.TempDir()}, false, "config.json", "the trained model was not written: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errOut afterFirst
			if c.late != "" {
				out.f = func() { block(c.args[len(c.args)-1], c.late) }
			}
			code := run(t.Context(), append([]string{"testnet", "--run", file, "--peers", "2"}, c.args...), strings.NewReader(""), &out, &errOut)
			stdout, stderr := out.String(), errOut.String()
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
