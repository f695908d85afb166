package main

import (
	"fmt"
	"math"
	"time"

	"shoal"
)

// rateWindow is how far back a rate looks: long enough to be steady, short enough to follow a change.
const rateWindow = 10 * time.Second

// rate is the speed of a run over the last seconds.
type rate struct {
	seen []shoal.Progress // the oldest one within the window first
}

func (r *rate) add(p shoal.Progress) {
	if n := len(r.seen); n > 0 {
		gap, before := p.Elapsed-r.seen[n-1].Elapsed, r.seen[n-1].Elapsed-r.seen[0].Elapsed
		stood := n > 1 && gap > rateWindow && gap > 10*before/time.Duration(n-1)
		if gap < 0 || stood { // this peer was away meanwhile, or the run stood still
			r.seen = nil
		}
	}
	r.seen = append(r.seen, p)
	drop := 0
	for drop < len(r.seen)-2 && p.Elapsed-r.seen[drop].Elapsed > rateWindow {
		drop++
	}
	r.seen = r.seen[drop:]
}

// speed is samples and steps per second; false while there is nothing to tell it from.
func (r *rate) speed() (samples, steps float64, known bool) {
	if len(r.seen) < 2 {
		return 0, 0, false
	}
	a, b := r.seen[0], r.seen[len(r.seen)-1]
	t := (b.Elapsed - a.Elapsed).Seconds()
	if t <= 0 || b.Step <= a.Step {
		return 0, 0, false
	}
	return float64(b.Samples-a.Samples) / t, float64(b.Step-a.Step) / t, true
}

// progressLine is one line of less than 80 columns.
func progressLine(p shoal.Progress, r *rate) string {
	loss := fmt.Sprintf("%.4f", p.Loss)
	if math.IsNaN(p.Loss) || math.IsInf(p.Loss, 0) {
		loss = "not finite"
	}
	line := fmt.Sprintf("step %d/%d  loss %s", p.Step, p.Steps, loss)
	samples, steps, known := r.speed()
	if known {
		line += fmt.Sprintf("  %.0f samples/s", samples)
	}
	line += "  " + counted(p.Peers, "peer")
	if known && p.Step < p.Steps {
		left := time.Duration(float64(p.Steps-p.Step) / steps * float64(time.Second))
		line += "  " + clock(left) + " left"
	}
	return line
}

// counted is n of something.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// clock is a duration as 0:07, 12:34, 1:02:03 or "9 days".
func clock(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	switch {
	case s >= 48*3600:
		return fmt.Sprintf("%d days", s/86400)
	case s >= 3600:
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
