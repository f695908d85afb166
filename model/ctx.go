package model

import "shoal/kernel"

// Ctx is what a Layer sees of the world while it computes one stage for one microbatch: the device's ops, the batch,
// and memory with the right lifetime. Layers only read its fields and call Temp, Keep, Kept, Out and Predict; the other
// methods are for whoever runs the model.
type Ctx struct {
	kernel.Ops

	N      int           // samples in this microbatch
	Input  kernel.Buffer // (N, Spec.Floats) F32, or zero
	Tokens kernel.Buffer // (N, Spec.Tokens) I32, or zero
	Labels kernel.Buffer // (N, Spec.Labels) I32

	// KeepAll asks Forward to keep also what is cheap to compute again, for the sake of time. Backward sees the same value.
	KeepAll bool

	dev   kernel.Device
	temps []kernel.Buffer
	kept  []kernel.Buffer
	pred  kernel.Buffer

	frozen frozenOps
}

// NewCtx makes the context for one stage and one microbatch that lies on dev.
func NewCtx(dev kernel.Device, in DeviceBatch) *Ctx {
	c := &Ctx{dev: dev}
	c.Reset(in)
	return c
}

// Reset makes c, which was dropped, the context for another stage or microbatch.
func (c *Ctx) Reset(in DeviceBatch) {
	*c = Ctx{Ops: c.dev, N: in.N, Input: in.Input, Tokens: in.Tokens, Labels: in.Labels, dev: c.dev, temps: c.temps, kept: c.kept}
}

// AllowFrozen lets Backward be called with zero Buffers among dp, for parameters whose gradients nobody wants.
func (c *Ctx) AllowFrozen() {
	c.frozen = frozenOps{c.dev, c}
	c.Ops = &c.frozen
}

// Temp is memory of n float32 that ends with this call of Forward or Backward.
func (c *Ctx) Temp(n int) kernel.Buffer {
	b := c.dev.Alloc(kernel.Activations, kernel.F32, n)
	c.temps = append(c.temps, b)
	return b
}

// Keep is memory of n float32 that Forward fills for Backward. Backward gets the i-th kept buffer from Kept(i).
func (c *Ctx) Keep(n int) kernel.Buffer {
	b := c.dev.Alloc(kernel.Activations, kernel.F32, n)
	c.kept = append(c.kept, b)
	return b
}

// Kept is the i-th buffer (from 0) that Forward got from Keep.
func (c *Ctx) Kept(i int) kernel.Buffer { return c.kept[i] }

// Out is memory of n float32 for the result, which then belongs to the caller.
func (c *Ctx) Out(n int) kernel.Buffer { return c.dev.Alloc(kernel.Activations, kernel.F32, n) }

// Predict records the model's answer for each label, from logits (rows, cols): the last stage of a classifier or a
// language model calls it in Forward so that accuracy can be told.
func (c *Ctx) Predict(logits kernel.Buffer, rows, cols int) {
	c.dev.Free(c.pred)
	c.pred = c.dev.Alloc(kernel.Activations, kernel.I32, rows)
	c.dev.Argmax(c.pred, logits, rows, cols)
}

// Predictions is what Predict recorded (I32), or the zero Buffer.
func (c *Ctx) Predictions() kernel.Buffer { return c.pred }

// EndCall frees the temporary memory. The runner calls it after each Forward and Backward.
func (c *Ctx) EndCall() {
	for _, b := range c.temps {
		c.dev.Free(b)
	}
	c.temps = c.temps[:0]
}

// Drop frees what Forward kept. The runner calls it after Backward, or after a Forward that will be recomputed.
func (c *Ctx) Drop() {
	for _, b := range c.kept {
		c.dev.Free(b)
	}
	c.kept = c.kept[:0]
	c.dev.Free(c.pred)
	c.pred = kernel.Buffer{}
}

// DeviceBatch is a Batch on a device.
type DeviceBatch struct {
	N                     int
	Input, Tokens, Labels kernel.Buffer
}

// UploadBatch copies b to dev.
func UploadBatch(dev kernel.Device, b *Batch) DeviceBatch {
	d := DeviceBatch{N: b.N}
	if len(b.Floats) > 0 {
		d.Input = dev.Alloc(kernel.Activations, kernel.F32, len(b.Floats))
		dev.Upload(d.Input, kernel.Bytes(b.Floats))
	}
	if len(b.Tokens) > 0 {
		d.Tokens = dev.Alloc(kernel.Activations, kernel.I32, len(b.Tokens))
		dev.Upload(d.Tokens, kernel.Bytes(b.Tokens))
	}
	if len(b.Labels) > 0 {
		d.Labels = dev.Alloc(kernel.Activations, kernel.I32, len(b.Labels))
		dev.Upload(d.Labels, kernel.Bytes(b.Labels))
	}
	return d
}

// Free gives the batch's memory back.
func (d DeviceBatch) Free(dev kernel.Device) {
	dev.Free(d.Input)
	dev.Free(d.Tokens)
	dev.Free(d.Labels)
}
