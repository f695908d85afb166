//go:build unix

package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A reader that goes after the first line, as `head -1` does, ends neither the training nor the report.
func TestReaderThatGoes(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report")
	for _, args := range [][]string{
		{"testnet", "--run", writeRun(t, smallRun(20)), "--peers", "2", "--report", report},
		{"help"},
	} {
		cmd := exec.Command(self(t), args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReaderSize(out, 16).ReadString('\n'); err != nil || line == "" {
			t.Errorf("%q: first line %q, %v", args, line, err)
		}
		out.Close()
		if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
			t.Errorf("%q: ended with %v, stderr %q", args, err, stderr.String())
		}
	}
	if _, err := os.Stat(filepath.Join(report, "report.json")); err != nil {
		t.Error(err)
	}
}
