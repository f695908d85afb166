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
