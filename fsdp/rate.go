package fsdp

import "shoal/kernel/ref"

// rate is the learning rate of a step (from 0): linear warmup from LR/Warmup, then constant or a half cosine down to a
// hundredth of LR.
func (h *Hyper) rate(step int) float64 {
	if step < h.Warmup {
		return float64(h.LR * float64(float64(step+1)/float64(h.Warmup)))
	}
	if h.Schedule == "constant" || h.Steps <= h.Warmup+1 {
		return h.LR
	}
	const floor = 0.01
	x := float64(step-h.Warmup) / float64(h.Steps-1-h.Warmup)
	half := float64(0.5 * float64(1+ref.Cos64(float64(x*pi))))
	return float64(h.LR * float64(floor+float64((1-floor)*half)))
}

const pi = 3.141592653589793
