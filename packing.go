package shoal

import (
	"math"
	"sync"
	"time"

	"shoal/fsdp"
	"shoal/swarm/codec"
)

// packingTrial finds out what packing makes of the bytes of a step, and whether a run would pack them: with wire.packing:
// auto by the code that decides it in a run, on a link that is as fast as planned.
type packingTrial struct {
	mu                    sync.Mutex // given may be called by several goroutines
	parameters, gradients packedClass
}

// packedClass is what is packed, or not, by one decision.
type packedClass struct {
	choose    *codec.Chooser
	all       float64 // bytes that were given
	raw, wire float64 // of those that were tried: before, and after
}

func newPackingTrial(cfg *PlanConfig) (*packingTrial, error) {
	mode, err := codec.ParsePacking(cfg.RunFile.Wire.Packing)
	if err != nil {
		return nil, err
	}
	link := new(codec.Link)
	if others := float64(cfg.Peers - 1); cfg.Link > 0 && others > 0 { // all get their parts at once
		link.Wrote(triedBytes, time.Duration(others*bitsPerByte*triedBytes/cfg.Link*float64(time.Second)))
	}
	t := new(packingTrial)
	t.parameters.choose, t.gradients.choose = codec.NewChooser(mode, link), codec.NewChooser(mode, link)
	return t, nil
}

// triedBytes is how much of each part is packed, at most.
const triedBytes = 1 << 20

// given tries the beginning of something that is given to others.
func (t *packingTrial) given(g fsdp.Given) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.gradients
	if g.Parameters {
		c = &t.parameters
	}
	raw, width := g.Data[:min(len(g.Data), triedBytes)], g.Width
	if width == 4 {
		if half, form := codec.Narrow(nil, raw); form != codec.Whole {
			raw, width = half, 2
		}
	}
	start := time.Now()
	packed, err := codec.Pack(make([]byte, 0, codec.MaxPacked(len(raw), width)), raw, width)
	if err != nil || len(raw) == 0 {
		return
	}
	c.choose.Packed(len(raw), len(packed), time.Since(start))
	c.all += float64(len(g.Data) * len(g.To))
	c.raw, c.wire = c.raw+float64(len(raw)), c.wire+math.Min(float64(len(packed)), float64(len(raw)))
}

// share is what is left of all bytes.
func (t *packingTrial) share() float64 {
	all, left := 0.0, 0.0
	for _, c := range []*packedClass{&t.parameters, &t.gradients} {
		if all += c.all; c.raw > 0 && c.choose.Pack(8, 4) { // too little to be a trial of its own
			left += c.all * c.wire / c.raw
		} else {
			left += c.all
		}
	}
	if all == 0 {
		return 1
	}
	return left / all
}
