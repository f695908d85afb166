//go:build unix

package main

import (
	"slices"
	"testing"
	"time"

	"shoal"
	"shoal/internal/runfile"
	"shoal/testnet"
)

// tenMillion is a run of a model of 10 million parameters whose steps are short.
func tenMillion(steps int) *shoal.RunFile {
	r := runfile.Default()
	r.Model.Dim, r.Model.Depth = 256, 13
	r.Data.Samples, r.Data.Eval = 2000, 0
	r.Train.Steps, r.Train.Batch, r.Train.Microbatch, r.Train.Warmup = steps, 8, 1, 2
	return &r
}

// medianOf is the median of the times from one commit to the next, of the steps from first to last.
func medianOf(done map[int]time.Duration, first, last int) time.Duration {
	var gaps []time.Duration
	for step := first; step <= last; step++ {
		if before, ok := done[step-1]; ok && done[step] > 0 {
			gaps = append(gaps, done[step]-before)
		}
	}
	if len(gaps) == 0 {
		return 0
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2]
}

// TestJoinSpeed: a fifth peer joins four that train 10 million parameters. From the start of its process to the first step
// that it is part of it takes at most 3 s; the others' steps, while it is filled with its part of the model, take at most
// 1.2 times as long as those of the five of them afterwards (medians). What comes before, when the new process starts, is
// not compared, nor are the steps of four: on a machine with fewer cores than peers a further process takes cores from the
// others, filled or not.
func TestJoinSpeed(t *testing.T) {
	needLong(t)
	const at = 8
	done := map[int]time.Duration{}
	cfg := testnet.Config{RunFile: tenMillion(45), Peers: 4, Faults: faultsOf(t, "join 1@step:8"),
		Progress: func(p shoal.Progress) { done[p.Step] = p.Elapsed }}
	r, err := testnet.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.ModelParameters < 10e6 {
		t.Fatalf("the model has %d parameters", r.ModelParameters)
	}
	joined, settled := 0, 0
	for _, v := range r.Views {
		switch {
		case joined == 0 && len(v.Members) == 5:
			joined = v.Step
		case joined > 0 && settled == 0:
			settled = v.Step
		}
	}
	if joined == 0 || settled == 0 || len(r.Faults) != 1 {
		t.Fatalf("views %+v, faults %+v", r.Views, r.Faults)
	}
	first := time.Duration(float64(r.Faults[0].NextCommitMS) * float64(time.Millisecond))
	filling, after := medianOf(done, joined+1, settled), medianOf(done, settled+2, cfg.RunFile.Train.Steps)
	t.Logf("first commit %v after the start of the process; a step of four takes %v, of five while the fifth is filled (%d steps) %v, later %v",
		first, medianOf(done, 3, at), settled-joined, filling, after)
	if first > 3*time.Second {
		t.Errorf("the newcomer's first commit came after %v, want at most 3s", first)
	}
	if float64(filling) > 1.2*float64(after) {
		t.Errorf("a step takes %v while the newcomer is filled and %v later, want at most a fifth more", filling, after)
	}
}

// rateOf is how many steps a second were done from step first to last.
func rateOf(done map[int]time.Duration, first, last int) float64 {
	return float64(last-first) / (done[last] - done[first]).Seconds()
}

// TestSlowPeerSpeed: a fifth peer that is ten times slower than four others leaves them nine tenths of the samples per
// second that the four have without it. All compute four times slower than they could, and sleep meanwhile, so that five
// processes don't compete for cores more than four; the first steps, in which it is found out who is slow, don't count. Then as
// many count as there are from one of its trials to the next, so that they have one. The two runs are made in turn, and the
// medians compared.
func TestSlowPeerSpeed(t *testing.T) {
	needLong(t)
	const slow, first, last = 4, 10, 10 + 256
	run := runfile.Default()
	run.Data.Eval, run.Train.Steps = 0, last
	rates := map[int][]float64{}
	for range 3 {
		for _, n := range []int{4, 5} {
			done := map[int]time.Duration{}
			factors := map[int]float64{}
			for i := range n {
				factors[i+1] = slow
			}
			if n == 5 {
				factors[2] = 10 * slow
			}
			r, err := testnet.Run(t.Context(), testnet.Config{RunFile: &run, Peers: n, Slow: factors,
				Progress: func(p shoal.Progress) { done[p.Step] = p.Elapsed }})
			if err != nil {
				t.Fatal(err)
			}
			rates[n] = append(rates[n], rateOf(done, first, last)*float64(run.Train.Batch))
			var samples []int64
			for _, p := range r.Peers {
				samples = append(samples, p.Samples)
			}
			t.Logf("%d peers: %.0f samples/s, computed by each %v", n, rates[n][len(rates[n])-1], samples)
		}
	}
	slices.Sort(rates[4])
	slices.Sort(rates[5])
	if share := rates[5][1] / rates[4][1]; share < 0.9 {
		t.Errorf("with a slow fifth peer %.0f samples/s, %.0f%% of the four's %.0f", rates[5][1], 100*share, rates[4][1])
	}
}
