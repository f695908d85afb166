package main

import (
	"strings"
	"testing"
	"time"

	"shoal"
)

// A peer that was away and has come back begins to measure anew: its clock of the run does.
func TestRateAfterComingBack(t *testing.T) {
	var r rate
	for n := 1; n <= 20; n++ {
		r.add(step(n))
	}
	back := shoal.Progress{Step: 300, Steps: 450, Loss: 1.5, Samples: 64 * 300, Elapsed: 100 * time.Millisecond, Peers: 4}
	r.add(back)
	if line := progressLine(back, &r); strings.Contains(line, "samples/s") {
		t.Errorf("a speed is told from before and after: %s", line)
	}
	back.Step, back.Samples, back.Elapsed = 301, 64*301, 300*time.Millisecond
	r.add(back)
	if line := progressLine(back, &r); !strings.Contains(line, " 320 samples/s") || !strings.Contains(line, "0:30 left") {
		t.Errorf("%s, want 320 samples/s and 0:30 left", line)
	}
}

// After a run has stood still for long its speed is told from the steps since then, unless its steps are as long as that.
func TestRateAfterStandingStill(t *testing.T) {
	at := func(n int, elapsed time.Duration) shoal.Progress {
		return shoal.Progress{Step: n, Steps: 1000, Loss: 1.5, Samples: 64 * int64(n), Elapsed: elapsed, Peers: 4}
	}
	var fast, slow rate
	for n := 1; n <= 20; n++ {
		fast.add(at(n, time.Duration(n)*100*time.Millisecond))
		slow.add(at(n, time.Duration(n)*15*time.Second))
	}
	fast.add(at(21, time.Minute))
	if samples, _, known := fast.speed(); known {
		t.Errorf("%.0f samples per second over a pause", samples)
	}
	fast.add(at(22, time.Minute+100*time.Millisecond))
	if samples, _, _ := fast.speed(); samples < 639 || samples > 641 {
		t.Errorf("%.0f samples per second, want 640", samples)
	}
	if samples, _, known := slow.speed(); !known || samples < 4 || samples > 5 {
		t.Errorf("long steps: %.1f samples per second (known: %v), want 4.3", samples, known)
	}
}
