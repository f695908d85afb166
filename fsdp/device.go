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

// shared is x on the device without a copy, or the zero Buffer where that is not possible.
func (e *Engine) shared(x []int32) kernel.Buffer {
	return e.dev.Share(e.format.dtype(), kernel.Bytes(x))
}

// onDevice is x on the device: without a copy, if that is possible.
func (e *Engine) onDevice(x []int32) kernel.Buffer {
	b := e.shared(x)
	if b.None() {
		b = e.dev.Alloc(kernel.GradientWork, e.format.dtype(), len(x))
		e.dev.Upload(b, kernel.Bytes(x))
	}
	return b
}

// clear zeroes x, by all of the device's cores if it can.
func (e *Engine) clear(x []int32) {
	b := e.shared(x)
	if b.None() {
		clear(x)
		return
	}
	e.dev.Zero(b)
	e.dev.Free(b)
}

// freeStep frees what an attempt has left.
func (t *tracker) freeStep() {
	for _, b := range t.live {
		t.Device.Free(b)
	}
	clear(t.live)
}
