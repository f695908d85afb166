package codec

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shoal/internal/median"
)

const (
	// decay forgets old measurements: after 10 of them a third is left.
	decay = 0.9
	// unpackCost is the receiver's share of the work, relative to packing.
	unpackCost = 0.8
	// Packing starts when it saves startGain times the time it costs, and stops when it saves less than it costs; the
	// band between keeps it from flapping. The factor of 2 also pays for the computing that packing displaces.
	startGain = 2.0
	// While packing is off one chunk in probeEvery is packed all the same, to see what that would bring, and more in the beginning.
	probeEvery = 64
	// costs is of how many chunks the time is kept. The median counts: one that was held up says nothing.
	costs = 5
	// minProbe is the smallest chunk in bytes that says something about speed.
	minProbe = 64 << 10
)

// Link measures how fast a peer takes bytes.
type Link struct {
	mu      sync.Mutex
	bytes   float64
	seconds float64
}

// Wrote records that n bytes were written in took. Only writes that nothing but the link can hold up count.
func (l *Link) Wrote(n int, took time.Duration) {
	l.mu.Lock()
	l.bytes = l.bytes*decay + float64(n)
	l.seconds = l.seconds*decay + took.Seconds()
	l.mu.Unlock()
}

// secondsPerByte is 0 before the first measurement.
func (l *Link) secondsPerByte() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes == 0 {
		return 0
	}
	return l.seconds / l.bytes
}

// Chooser decides chunk by chunk whether one kind of tensor is packed on its way over one link. In mode Auto it
// compares the time that the saved bytes would have taken on the link with the time to pack and unpack. Its zero value
// is not usable; see NewChooser.
type Chooser struct {
	mode Packing
	link *Link

	mu     sync.Mutex
	on     bool
	chunks int     // seen while off
	raw    float64 // bytes packed and what came out, decayed
	wire   float64
	took   []float64 // seconds a byte to pack, of the last chunks
	cost   float64   // their median
}

// NewChooser makes a Chooser for tensors sent over link, which may be shared.
func NewChooser(mode Packing, link *Link) *Chooser { return &Chooser{mode: mode, link: link} }

// Pack says whether to pack the next chunk, of n bytes with elements of width bytes.
func (c *Chooser) Pack(n, width int) bool {
	if c.mode == Off || n == 0 || checkWidth(n, width) != nil {
		return false
	}
	if c.mode == On {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decide()
	if c.on || n < minProbe {
		return c.on
	}
	c.chunks++
	first := c.chunks&(c.chunks+1) == 0 // 1, 3, 7 and so on
	return first || c.chunks%probeEvery == probeEvery-1
}

// On says whether chunks are packed, going by what has been measured so far.
func (c *Chooser) On() bool {
	if c.mode != Auto {
		return c.mode == On
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decide()
	return c.on
}

// Packed records that packing raw bytes into wire bytes took so long.
func (c *Chooser) Packed(raw, wire int, took time.Duration) {
	if raw < minProbe {
		return
	}
	c.mu.Lock()
	c.raw = c.raw*decay + float64(raw)
	c.wire = c.wire*decay + float64(min(wire, raw))
	if len(c.took) == costs {
		c.took = slices.Delete(c.took, 0, 1)
	}
	c.took = append(c.took, took.Seconds()/float64(raw))
	c.cost = median.Of(c.took)
	c.mu.Unlock()
}

func (c *Chooser) decide() {
	if c.raw == 0 {
		return
	}
	saved := (c.raw - c.wire) * c.link.secondsPerByte()
	cost := c.raw * c.cost * (1 + unpackCost)
	switch {
	case saved > startGain*cost:
		c.on = true
	case saved < cost:
		c.on = false
	}
}

// Counter counts tensor bytes before and after packing.
type Counter struct{ raw, wire atomic.Uint64 }

// Add counts one chunk.
func (c *Counter) Add(raw, wire int) {
	c.raw.Add(uint64(raw))
	c.wire.Add(uint64(wire))
}

// Raw is the number of tensor bytes, Wire the number of bytes that carried them.
func (c *Counter) Raw() uint64  { return c.raw.Load() }
func (c *Counter) Wire() uint64 { return c.wire.Load() }
