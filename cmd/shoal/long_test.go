//go:build unix

package main

import (
	"flag"
	"os"
	"testing"

	"shoal"
	"shoal/internal/runfile"
	"shoal/testnet"
)

var long = flag.Bool("long", false, "run the tests that take minutes: the default run and the run of 64 million parameters")

func needLong(t *testing.T) {
	if !*long {
		t.Skip("takes minutes: run it with `make long`")
	}
}

// runLong is runTestnet without a time limit of its own.
func runLong(t *testing.T, cfg testnet.Config) *shoal.Report {
	t.Helper()
	r, err := testnet.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d peers: %.1f s, %.0f samples/s, accuracy %.2f%%, state hash %s", len(r.Peers), r.WallSeconds, r.SamplesPerSecond,
		100*r.Eval.Accuracy, r.StateHash)
	return r
}

// TestDefaultRun trains the default run with 4, 3 and 1 processes: one hash, and at least 95% of the held-out digits.
func TestDefaultRun(t *testing.T) {
	needLong(t)
	run := runfile.Default()
	var want string
	for _, n := range []int{4, 1, 3} {
		r := runLong(t, testnet.Config{RunFile: &run, Peers: n})
		if want == "" {
			want = r.StateHash
		}
		if r.StateHash != want {
			t.Errorf("%d peers: state hash %s, want %s", n, r.StateHash, want)
		}
		if r.Eval.Accuracy < 0.95 {
			t.Errorf("%d peers: %.2f%% of the held-out digits, want 95%%", n, 100*r.Eval.Accuracy)
		}
	}
}

// TestMemoryOf64Million trains two steps of 64 million parameters with one process and with four: each of the four has
// at most 45% of the one's peak, and at rest a quarter of its parameters, gradient and optimizer state.
func TestMemoryOf64Million(t *testing.T) {
	needLong(t)
	text, err := os.ReadFile("../../examples/64m.yaml")
	if err != nil {
		t.Fatal(err)
	}
	run, err := runfile.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	reports := map[int]*shoal.Report{}
	for _, n := range []int{1, 4} {
		reports[n] = runLong(t, testnet.Config{RunFile: &run, Peers: n})
	}
	one := reports[1].Peers[0]
	if reports[1].ModelParameters < 63e6 {
		t.Fatalf("the model has %d parameters", reports[1].ModelParameters)
	}
	if reports[4].StateHash != reports[1].StateHash {
		t.Errorf("state hash %s with four peers, %s with one", reports[4].StateHash, reports[1].StateHash)
	}
	for _, p := range reports[4].Peers {
		share := func(a, b int64) float64 { return float64(a) / float64(b) }
		t.Logf("rank %d: peak RSS %.1f%% of one peer's; at rest parameters %.1f%%, gradient %.1f%%, optimizer state %.1f%%", p.Rank,
			100*share(p.RSSPeakBytes, one.RSSPeakBytes), 100*share(p.ParameterBytes, one.ParameterBytes),
			100*share(p.GradientBytes, one.GradientBytes), 100*share(p.OptimizerBytes, one.OptimizerBytes))
		if s := share(p.RSSPeakBytes, one.RSSPeakBytes); s > 0.45 {
			t.Errorf("rank %d: peak RSS is %.1f%% of one peer's, want at most 45%%", p.Rank, 100*s)
		}
		for _, s := range []float64{share(p.ParameterBytes, one.ParameterBytes), share(p.GradientBytes, one.GradientBytes), share(p.OptimizerBytes, one.OptimizerBytes)} {
			if s < 0.225 || s > 0.275 {
				t.Errorf("rank %d: holds %.1f%% of one peer's at rest, want a quarter within 10%%", p.Rank, 100*s)
			}
		}
	}
}
