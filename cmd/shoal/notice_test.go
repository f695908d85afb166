//go:build unix

package main

import (
	"strings"
	"testing"
)

// That a result depends on the peers is said once, in words, to everybody who takes part.
func TestResultDependsOnPeers(t *testing.T) {
	const words = "the result depends on the peers"
	once := func(who, text string) {
		t.Helper()
		if strings.Count(text, words) != 1 {
			t.Errorf("%s: %q, want once %q", who, text, words)
		}
	}
	r := smallRun(2)
	r.Precision.Reduce = "bf16"
	file := writeRun(t, r)
	code, stdout, stderr := command(t, "testnet", "--run", file, "--peers", "2", "--report", t.TempDir())
	if once("testnet", stdout); code != exitOK || stderr != "" {
		t.Errorf("testnet: exit code %d, %q", code, stderr)
	}
	code, stdout, stderr = command(t, "testnet", "--run", file, "--peers", "1", "--json", "--report", t.TempDir())
	if once("testnet --json", stderr); code != exitOK || strings.Contains(stdout, words) {
		t.Errorf("testnet --json: exit code %d, stdout %q", code, stdout)
	}
	up := startProgram(t, "up", file, "--peers", "2", "--listen", "127.0.0.1:0")
	join := startProgram(t, "join", up.line(t, "shoal:"), "--listen", "127.0.0.1:0")
	for who, p := range map[string]*program{"up": up, "join": join} {
		if line := p.line(t, "precision.reduce bf16: "); !strings.Contains(line, words) {
			t.Errorf("%s: %q", who, line)
		}
		if code := p.end(t, patient); code != exitOK {
			t.Errorf("%s: exit code %d, %s", who, code, p.stderr)
		}
	}
	if _, stdout, _ := command(t, "up", writeRun(t, smallRun(1)), "--listen", "127.0.0.1:0"); strings.Contains(stdout, words) {
		t.Errorf("fixed32: %q", stdout)
	}
}
