package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"shoal"
)

// stopClock is a display on a terminal of the given width (0 for a pipe) whose time stands still.
func stopClock(t *testing.T, width int) (d *display, out *bytes.Buffer, now *time.Time) {
	out, now = new(bytes.Buffer), new(time.Time)
	*now = time.Unix(1000, 0)
	d = &display{w: out, width: func() int { return width }, now: func() time.Time { return *now }, stop: make(chan struct{})}
	t.Cleanup(d.Close)
	return d, out, now
}

func step(n int) shoal.Progress {
	return shoal.Progress{Step: n, Steps: 450, Loss: 1.5, Samples: int64(64 * n), Elapsed: time.Duration(n) * 200 * time.Millisecond, Peers: 4}
}

func TestDisplayInPipe(t *testing.T) {
	d, out, now := stopClock(t, 0)
	d.Line("shoal:link")
	d.Wait(1, 3)
	*now = now.Add(12 * time.Second)
	d.Wait(2, 3)
	d.Wait(3, 3)
	for n := 1; n <= 450; n++ { // 200 ms each: 90 s
		*now = now.Add(200 * time.Millisecond)
		d.Progress(step(n))
	}
	for _, phase := range []shoal.Phase{shoal.Evaluating, shoal.Saving} {
		p := step(450)
		p.Phase = phase
		d.Progress(p)
	}
	d.Close()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	want := []string{
		"shoal:link",
		"1 of 3 peers, waiting 0 s",
		"2 of 3 peers, waiting 12 s",
		"3 of 3 peers, starting",
		"step 1/450  loss 1.5000  4 peers",
		"step 26/450  loss 1.5000  320 samples/s  4 peers  1:25 left",
	}
	for i, w := range want {
		if lines[i] != w {
			t.Errorf("line %d is %q, want %q", i, lines[i], w)
		}
	}
	if last := strings.Join(lines[len(lines)-3:], "|"); last != "step 450/450  loss 1.5000  320 samples/s  4 peers|evaluating on held-out samples|writing the model" {
		t.Errorf("last lines are %q", last)
	}
	if len(lines) > 4+90/5+4 {
		t.Errorf("%d lines for 90 s", len(lines))
	}
	if strings.Contains(out.String(), "\r") {
		t.Error("a pipe got a carriage return")
	}
}

func TestDisplayShowsLinkFirst(t *testing.T) {
	d, out, _ := stopClock(t, 0)
	d.linkDue = true
	d.Wait(1, 3)
	d.Wait(2, 3)
	d.Link("shoal:link")
	d.Wait(3, 3)
	if want := "shoal:link\n2 of 3 peers, waiting 0 s\n3 of 3 peers, starting\n"; out.String() != want {
		t.Errorf("shown: %q, want %q", out.String(), want)
	}
}

func TestDisplayOnTerminal(t *testing.T) {
	d, out, now := stopClock(t, 40)
	d.Wait(1, 3)
	*now = now.Add(12 * time.Second)
	d.waiting()
	d.Wait(2, 3)
	d.Progress(step(1))
	*now = now.Add(time.Second)
	d.Progress(step(2))
	d.Progress(step(3)) // too soon
	d.Line("a line that stays")
	p := step(450)
	p.Phase = shoal.Evaluating
	d.Progress(p)
	*now = now.Add(3 * time.Second)
	d.waiting()
	d.Close()
	// What the terminal shows at the end: each row as its last writing left it.
	var rows []string
	for _, row := range strings.Split(out.String(), "\n") {
		var cells []rune
		for _, part := range strings.Split(row, "\r") {
			r := []rune(part)
			if len(r) >= 40 {
				t.Errorf("%d columns are too many for a terminal of 40: %q", len(r), part)
			}
			cells = append(r, cells[min(len(r), len(cells)):]...)
		}
		rows = append(rows, strings.TrimRight(string(cells), " "))
	}
	want := []string{"step 2/450  loss 1.5000  320 samples/s", "a line that stays", "evaluating on held-out samples, 3 s", ""}
	if strings.Join(rows, "|") != strings.Join(want, "|") {
		t.Errorf("the terminal shows %q, want %q", rows, want)
	}
	if !strings.Contains(out.String(), "1 of 3 peers, waiting 12 s") {
		t.Error("the waiting time was not shown")
	}
}

func TestProgressLine(t *testing.T) {
	for _, tc := range []struct {
		name string
		seen []shoal.Progress
		want string
	}{
		{"one peer", []shoal.Progress{{Step: 1, Steps: 2, Loss: 2, Peers: 1}}, "step 1/2  loss 2.0000  1 peer"},
		{"not finite", []shoal.Progress{{Step: 1, Steps: 2, Loss: math.NaN(), Peers: 2}}, "step 1/2  loss not finite  2 peers"},
		{"only the last seconds count", []shoal.Progress{
			{Step: 1, Steps: 10, Elapsed: time.Second, Samples: 1},
			{Step: 2, Steps: 10, Elapsed: 100 * time.Second, Samples: 100, Peers: 2},
			{Step: 3, Steps: 10, Elapsed: 101 * time.Second, Samples: 200, Peers: 2}},
			"step 3/10  loss 0.0000  100 samples/s  2 peers  0:07 left"},
		{"no time went by", []shoal.Progress{{Step: 1, Steps: 3}, {Step: 2, Steps: 3}}, "step 2/3  loss 0.0000  0 peers"},
		{"long", []shoal.Progress{
			{Step: 100000, Steps: 999999, Loss: 123.4567, Elapsed: time.Second, Peers: 32},
			{Step: 100001, Steps: 999999, Loss: 123.4567, Samples: 123456, Elapsed: 2 * time.Second, Peers: 32}},
			"step 100001/999999  loss 123.4567  123456 samples/s  32 peers  10 days left"},
	} {
		var r rate
		for _, p := range tc.seen {
			r.add(p)
		}
		got := progressLine(tc.seen[len(tc.seen)-1], &r)
		if got != tc.want || len(got) >= 80 {
			t.Errorf("%s: %q (%d columns), want %q", tc.name, got, len(got), tc.want)
		}
	}
}

func TestClock(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0:00", 7400 * time.Millisecond: "0:07", 12*time.Minute + 34*time.Second: "12:34",
		3723 * time.Second: "1:02:03", 9 * 24 * time.Hour: "9 days",
	} {
		if got := clock(d); got != want {
			t.Errorf("%v is shown as %q, want %q", d, got, want)
		}
	}
}
