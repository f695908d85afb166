package testnet

import (
	"strings"
	"testing"
	"time"

	"shoal/internal/runfile"
)

func TestCores(t *testing.T) {
	for _, tc := range []struct {
		name        string
		cores, peer int
		want        []int
	}{
		{"as many", 4, 4, []int{1, 1, 1, 1}},
		{"fewer", 2, 4, []int{1, 1, 1, 1}},
		{"more, uneven", 7, 3, []int{3, 2, 2}},
		{"one peer", 8, 1, []int{8}},
	} {
		cfg := Config{Peers: tc.peer, Cores: tc.cores}
		for i, want := range tc.want {
			if got := cfg.cores(i); got != want {
				t.Errorf("%s: peer %d computes with %d cores, want %d", tc.name, i, got, want)
			}
		}
	}
}

// Tabs take all of what they offer at once, so theirs has a limit; and the shares of all are still those of the weights.
func TestMemoryOfTabs(t *testing.T) {
	cfg := Config{Peers: 1, Browsers: 2, Weights: []int{4, 2, 1}}
	if a, b, c := cfg.memory(0), cfg.memory(1), cfg.memory(2); a > mostTabMemory || a/2 != b || b/2 != c && b/2 != c+1 {
		t.Errorf("they offer %d, %d and %d MiB", a, b, c)
	}
}

func TestValidate(t *testing.T) {
	run := runfile.Default()
	bad := run
	bad.Train.Steps = -1
	for _, tc := range []struct {
		name string
		cfg  Config
		want string // part of the error, "" for none
	}{
		{"good", Config{RunFile: &run, Peers: 3, Weights: []int{4, 2, 1}}, ""},
		{"no run file", Config{Peers: 1}, "no run file"},
		{"bad run file", Config{RunFile: &bad, Peers: 1}, "train.steps"},
		{"no peers", Config{RunFile: &run}, "peers"},
		{"too many peers", Config{RunFile: &run, Peers: MaxPeers + 1}, "peers"},
		{"weights missing", Config{RunFile: &run, Peers: 3, Weights: []int{1, 2}}, "weights"},
		{"weight of nothing", Config{RunFile: &run, Peers: 2, Weights: []int{1, 0}}, "weights"},
		{"browsers", Config{RunFile: &run, Peers: 1, Browsers: 2, Weights: []int{2, 1, 1}}, ""},
		{"too many browsers", Config{RunFile: &run, Peers: 2, Browsers: MaxPeers - 1}, "browsers"},
		{"weights without the browsers'", Config{RunFile: &run, Peers: 1, Browsers: 2, Weights: []int{2}}, "weights"},
		{"browsers alone in the end", Config{RunFile: &run, Peers: 1, Browsers: 2, Faults: faults(t, "kill 1@step:5")}, "tabs can't keep"},
		{"a tab less", Config{RunFile: &run, Peers: 1, Browsers: 2, Faults: faults(t, "kill 2@step:5", "kill 3@step:9")}, ""},
		{"negative time", Config{RunFile: &run, Peers: 1, Timeout: -time.Second}, "timeout"},
	} {
		err := tc.cfg.Validate()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: error %v, want one with %q", tc.name, err, tc.want)
		}
	}
}
