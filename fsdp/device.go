package fsdp

import "shoal/kernel"

// tracker is a Device that knows which buffers belong to a step: when an attempt is aborted they are all freed at once,
// wherever it stood.
type tracker struct {
	kernel.Device
	live map[kernel.Memory]kernel.Buffer
}

func newTracker(dev kernel.Device) *tracker {
	return &tracker{Device: dev, live: map[kernel.Memory]kernel.Buffer{}}
}

// Alloc implements kernel.Device.
func (t *tracker) Alloc(c kernel.Class, d kernel.DType, n int) kernel.Buffer {
	b := t.Device.Alloc(c, d, n)
	switch c {
	case kernel.Parameters, kernel.Gradients, kernel.Optimizer, kernel.Backups:
	default:
		if !b.None() {
			t.live[b.Mem] = b
		}
	}
	return b
}

// Free implements kernel.Device.
func (t *tracker) Free(b kernel.Buffer) {
	if !b.None() {
		delete(t.live, b.Mem)
	}
	t.Device.Free(b)
}

// freeStep frees what an attempt has left.
func (t *tracker) freeStep() {
	for _, b := range t.live {
		t.Device.Free(b)
	}
	clear(t.live)
}
