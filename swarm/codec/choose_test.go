package codec

import (
	"testing"
	"time"
)

// feed tells c about packing at 1200 MB/s down to ratio, and link about a speed in MB/s; 20 times each.
func feed(c *Chooser, link *Link, ratio, linkSpeed float64) {
	const n = 1 << 20
	for range 20 {
		c.Packed(n, int(ratio*n), perMiB(1200))
		link.Wrote(n, perMiB(linkSpeed))
	}
}

func TestChooserFollowsSpeeds(t *testing.T) {
	var link Link
	c := NewChooser(Auto, &link)
	if !c.Pack(1<<20, 2) {
		t.Error("the first large chunk is packed as a probe")
	}
	if c.Pack(1<<20, 2) {
		t.Error("the second chunk is packed before anything was measured")
	}
	steps := []struct {
		name         string
		ratio, speed float64
		want         bool
	}{
		{"fast LAN", 0.675, 1000, false},
		{"gigabit, off before", 0.675, 125, false},
		{"100 Mbit/s", 0.675, 12, true},
		{"gigabit, on before", 0.675, 125, true},
		{"10 gigabit again", 0.675, 1000, false},
		{"slow, but nothing to gain", 1, 12, false},
	}
	for _, s := range steps {
		feed(c, &link, s.ratio, s.speed)
		c.Pack(1<<20, 2) // decides; may be a probe
		if got := c.Pack(1000, 2); got != s.want || c.On() != got {
			t.Errorf("%s: pack = %v, on = %v, want %v", s.name, got, c.On(), s.want)
		}
	}
}

func TestChooserProbesWhileOff(t *testing.T) {
	c := NewChooser(Auto, new(Link))
	packed := 0
	for range 10 * probeEvery {
		if c.Pack(1<<20, 4) {
			packed++
		}
	}
	if want := 5 + 10; packed != want { // 1, 3, 7, 15, 31, 63, 127, 191 ...
		t.Errorf("%d probes in %d chunks, want %d", packed, 10*probeEvery, want)
	}
}

// A probe during which the processor had other things to do decides nothing for long.
func TestChooserForgetsSlowProbe(t *testing.T) {
	var link Link
	c := NewChooser(Auto, &link)
	const n = 256 << 10
	chunks := 0
	for ; !c.On() && chunks < 8; chunks++ {
		link.Wrote(n, perMiB(12)/4)
		if c.Pack(n, 2) {
			took := perMiB(300) / 4
			if chunks == 0 {
				took *= 50
			}
			c.Packed(n, n/2, took)
		}
	}
	if !c.On() {
		t.Errorf("after %d chunks nothing is packed on a link of 12 MB/s", chunks)
	}
}

func TestChooserModes(t *testing.T) {
	link := new(Link)
	for _, c := range []struct {
		mode     Packing
		n, width int
		want     bool
	}{
		{On, 8, 2, true}, {On, 8, 4, true}, {On, 0, 2, false}, {On, 8, 1, false}, {On, 6, 4, false},
		{Off, 1 << 20, 2, false},
	} {
		if got := NewChooser(c.mode, link).Pack(c.n, c.width); got != c.want {
			t.Errorf("mode %v, %d bytes, width %d: %v, want %v", c.mode, c.n, c.width, got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, p := range []Packing{Auto, On, Off} {
		if got, err := ParsePacking(p.String()); err != nil || got != p {
			t.Errorf("%v: parsed as %v, %v", p, got, err)
		}
	}
	if _, err := ParsePacking("maybe"); err == nil {
		t.Error("maybe was accepted")
	}
}

func TestCounter(t *testing.T) {
	var c Counter
	c.Add(10, 7)
	c.Add(10, 8)
	if c.Raw() != 20 || c.Wire() != 15 {
		t.Errorf("raw %d, wire %d; want 20, 15", c.Raw(), c.Wire())
	}
}

// perMiB is the time that 1 MiB takes at speed, in MB/s.
func perMiB(speed float64) time.Duration {
	return time.Duration((1 << 20) / (speed * 1e6) * float64(time.Second))
}
