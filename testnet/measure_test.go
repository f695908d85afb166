package testnet

import (
	"math"
	"testing"
	"time"

	"shoal/internal/report"
	"shoal/internal/runfile"
)

// ms is a time for tests.
func ms(n int64) int64 { return n * int64(time.Millisecond) }

// walked is a peer that committed steps first to last, each of 10 samples, step s at 100 s ms.
func walked(number, first, last int) *peerState {
	p := &peerState{process: &process{peer: number}}
	for s := first; s <= last; s++ {
		p.commits = append(p.commits, commit{step: s, samples: int64(10 * s), wall: ms(int64(100 * s))})
	}
	return p
}

func ten(int) int64 { return 10 }

func TestAnswer(t *testing.T) {
	victim, other, late := walked(1, 1, 5), walked(2, 1, 9), walked(3, 7, 9)
	peers := []*peerState{victim, other, late}
	for _, tc := range []struct {
		name string
		h    happening
		want time.Duration // 0 for none
	}{
		{"in the middle of a step", happening{Fault: Fault{Kind: Kill}, victim: victim, step: 6, phase: "backward", at: ms(550)}, 50 * time.Millisecond},
		{"after its outcome", happening{Fault: Fault{Kind: Kill}, victim: victim, step: 6, phase: "update", at: ms(550)}, 150 * time.Millisecond},
		{"too late", happening{Fault: Fault{Kind: Stop}, victim: victim, step: 9, phase: "commit", at: ms(850)}, 0},
		{"the victim's own commits", happening{Fault: Fault{Kind: Stop}, victim: other, step: 4, phase: "ready", at: ms(450)}, 50 * time.Millisecond},
		{"join", happening{Fault: Fault{Kind: Join}, victim: late, step: 5, at: ms(510)}, 190 * time.Millisecond},
	} {
		got, ok := answer(&tc.h, peers)
		if ok != (tc.want > 0) || ok && got != tc.want {
			t.Errorf("%s: %v (%v), want %v", tc.name, got, ok, tc.want)
		}
	}
}

func TestResults(t *testing.T) {
	hit := func(kind string, victim *peerState, step int, phase string, at int64) *happening {
		return &happening{Fault: Fault{Kind: kind, Step: step}, victim: victim, step: step, phase: phase, fired: true, at: ms(at)}
	}
	type lost struct{ steps, samples, doubled int64 }
	for _, tc := range []struct {
		name  string
		peers func() []*peerState
		want  []lost // of the kill at step 3 and of that at step 7
	}{
		{"all well", func() []*peerState { return []*peerState{walked(1, 1, 2), walked(2, 1, 10), walked(3, 4, 10)} }, []lost{{}, {}}},
		{"a step that nobody has", func() []*peerState {
			p := walked(2, 1, 10)
			p.commits = append(p.commits[:4], p.commits[5:]...) // no step 5
			return []*peerState{walked(1, 1, 2), p, walked(3, 8, 10)}
		}, []lost{{steps: 1, samples: 10}, {}}},
		{"a step that one peer missed", func() []*peerState {
			p := walked(2, 1, 10)
			p.commits = append(p.commits[:4], p.commits[5:]...)
			return []*peerState{walked(1, 1, 2), p, walked(3, 4, 10)}
		}, []lost{{}, {}}},
		{"too few samples", func() []*peerState {
			p := walked(2, 1, 10)
			for i := 7; i < 10; i++ {
				p.commits[i].samples -= 4
			}
			return []*peerState{walked(1, 1, 2), p, walked(3, 9, 10)}
		}, []lost{{}, {samples: 4}}},
		{"a step twice", func() []*peerState {
			p := walked(2, 1, 10)
			again := commit{step: 5, samples: p.commits[4].samples + 10, wall: ms(520)}
			for i := 5; i < 10; i++ {
				p.commits[i].samples += 10
			}
			p.commits = append(p.commits[:5], append([]commit{again}, p.commits[5:]...)...)
			return []*peerState{walked(1, 1, 2), p, walked(3, 9, 10)}
		}, []lost{{doubled: 10}, {}}},
		{"back at the checkpoint of step 4", func() []*peerState {
			p := walked(2, 1, 6)
			for s := 5; s <= 10; s++ {
				p.commits = append(p.commits, commit{step: s, samples: int64(10 * (s - 4)), wall: ms(int64(100 * (s + 5)))})
			}
			return []*peerState{walked(1, 1, 2), p, walked(3, 4, 6)}
		}, []lost{{}, {steps: 2, samples: 20}}},
		{"the end is missing", func() []*peerState {
			return []*peerState{walked(1, 1, 2), walked(2, 1, 8), walked(3, 4, 8)}
		}, []lost{{}, {steps: 2, samples: 20}}},
	} {
		n := &network{peers: tc.peers()}
		// Out of order, and with one that did not happen.
		n.happenings = []*happening{hit(Kill, n.peers[2], 7, "ready", 690), hit(Kill, n.peers[0], 3, "ready", 290), {Fault: Fault{Kind: Kill}}}
		rows := n.results(1, 10, ten)
		if len(rows) != 2 || rows[0].Peer != 1 || rows[0].Step != 3 || rows[1].Peer != 3 || rows[1].Phase != "ready" {
			t.Fatalf("%s: rows %+v", tc.name, rows)
		}
		for i, r := range rows {
			if got := (lost{int64(r.StepsLost), r.SamplesLost, r.SamplesDoubled}); got != tc.want[i] {
				t.Errorf("%s: fault %d has lost %+v, want %+v", tc.name, i, got, tc.want[i])
			}
		}
		if tc.name == "all well" && (rows[0].NextCommitMS != 10 || rows[1].NextCommitMS != 10) {
			t.Errorf("next commits after %v and %v ms", rows[0].NextCommitMS, rows[1].NextCommitMS)
		}
	}
}

func TestResultsWithoutAnswer(t *testing.T) {
	p := walked(1, 1, 3)
	n := &network{peers: []*peerState{p, walked(2, 1, 3)}}
	n.happenings = []*happening{{Fault: Fault{Kind: Stop}, victim: p, step: 3, phase: "evaluate", fired: true, at: ms(310)}}
	if rows := n.results(1, 3, ten); len(rows) != 1 || !math.IsNaN(float64(rows[0].NextCommitMS)) || rows[0].StepsLost != 0 {
		t.Errorf("rows %+v", rows)
	}
}

// A run that went on from a checkpoint has no steps before it.
func TestResultsAfterResume(t *testing.T) {
	p := walked(1, 51, 60)
	n := &network{peers: []*peerState{p, walked(2, 51, 60)}}
	n.happenings = []*happening{{Fault: Fault{Kind: Kill}, victim: n.peers[1], step: 60, phase: "ready", fired: true, at: ms(5950)}}
	if rows := n.results(51, 60, ten); rows[0] != (report.Fault{Kind: Kill, Peer: 2, Phase: "ready", Step: 60, NextCommitMS: 50}) {
		t.Errorf("row %+v", rows[0])
	}
}

func TestBatches(t *testing.T) {
	run := runfile.Default()
	run.Data.Samples, run.Train.Batch = 70, 32
	want, err := batches(t.Context(), &run)
	if err != nil {
		t.Fatal(err)
	}
	for step, samples := range map[int]int64{1: 32, 2: 32, 3: 6, 4: 32, 6: 6, 3000: 6} {
		if got := want(step); got != samples {
			t.Errorf("step %d has %d samples, want %d", step, got, samples)
		}
	}
}

func TestMedianStep(t *testing.T) {
	p := walked(1, 1, 9)
	p.commits[8].wall += ms(5000) // a fault
	if got := medianStep([]*peerState{walked(2, 1, 2), p}); got != 100*time.Millisecond {
		t.Errorf("median %v", got)
	}
	if got := medianStep(nil); got != 0 {
		t.Errorf("median of nothing %v", got)
	}
}

func TestSlope(t *testing.T) {
	line := func(n, every int, at func(x float64) float64) (s series) {
		for i := range n {
			x := float64(i * every)
			s.add(x, at(x))
		}
		return s
	}
	for _, tc := range []struct {
		name string
		s    series
		want float64
	}{
		{"nothing", series{}, 0},
		{"one", line(1, 1, func(float64) float64 { return 3 }), 0},
		{"flat", line(100, 1, func(float64) float64 { return 7 }), 0},
		{"grows at first only", line(100, 1, func(x float64) float64 { return min(x, 50) }), 0},
		{"one in a hundred of 1000 on average", line(200, 1, func(x float64) float64 { return 1000 + 0.1*(x-149.5) }), 0.01},
		{"the same, seldom measured", line(20, 10, func(x float64) float64 { return 1000 + 0.1*(x-145) }), 0.01},
		{"falls", line(200, 1, func(x float64) float64 { return 1000 - (x - 149.5) }), -0.1},
		{"zeros", line(10, 1, func(float64) float64 { return 0 }), 0},
	} {
		if got := tc.s.slope(); math.Abs(got-tc.want) > 1e-12 {
			t.Errorf("%s: slope %v, want %v", tc.name, got, tc.want)
		}
	}
}
