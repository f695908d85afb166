package fsdp

import "shoal/kernel/ref"

// rate is the learning rate of a step (from 0): linear warmup from LR/Warmup, then constant or a half cosine down to
// MinLR, which it would reach one step after the last.
func (h *Hyper) rate(step int) float64 {
	if step < h.Warmup {
		return float64(h.LR * float64(float64(step+1)/float64(h.Warmup)))
	}
	if h.Schedule == "constant" || h.Steps <= h.Warmup {
		return h.LR
	}
	x := float64(step-h.Warmup) / float64(h.Steps-h.Warmup)
	half := float64(0.5 * float64(1+ref.Cos64(float64(x*pi))))
	return float64(h.MinLR + float64(float64(h.LR-h.MinLR)*half))
}

const pi = 3.141592653589793
