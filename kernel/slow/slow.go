// Package slow makes a device slower than it is, so that one machine can play a mesh of unequal peers. The bits are the
// same.
package slow

import (
	"runtime"
	"time"

	"shoal/kernel"
)

// Device is dev whose heavy ops take factor times as long; factor is at least 1.
func Device(dev kernel.Device, factor float64) kernel.Device {
	return &device{Device: dev, factor: factor}
}

// nap is the shortest pause that a system keeps well.
const nap = time.Millisecond

var began = time.Now()

func sinceStart() time.Duration { return time.Since(began) }

type device struct {
	kernel.Device
	factor float64
	owed   time.Duration
}

// begin begins an op. It returns how long this thread has computed, so that a busy machine doesn't make a slowed device
// slower still.
func (d *device) begin() time.Duration {
	runtime.LockOSThread()
	return computed()
}

// stretch ends an op that began at start, with a pause for the time that it should take longer. Pauses are saved up until they
// are long enough to be kept.
func (d *device) stretch(start time.Duration) {
	d.owed += time.Duration(float64(computed()-start) * (d.factor - 1))
	runtime.UnlockOSThread()
	if d.owed >= nap {
		before := time.Now()
		time.Sleep(d.owed)
		d.owed -= time.Since(before)
	}
}

func (d *device) MatMul(t kernel.Trans, c, a, b kernel.Buffer, m, n, k int, accumulate bool) {
	defer d.stretch(d.begin())
	d.Device.MatMul(t, c, a, b, m, n, k, accumulate)
}

func (d *device) GELU(y, x kernel.Buffer) {
	defer d.stretch(d.begin())
	d.Device.GELU(y, x)
}

func (d *device) GELUBackward(dx, x, dy kernel.Buffer) {
	defer d.stretch(d.begin())
	d.Device.GELUBackward(dx, x, dy)
}

func (d *device) LayerNorm(y, mean, rstd, x, gamma, beta kernel.Buffer, rows, cols int) {
	defer d.stretch(d.begin())
	d.Device.LayerNorm(y, mean, rstd, x, gamma, beta, rows, cols)
}

func (d *device) LayerNormBackward(dx, dgamma, dbeta, dy, x, mean, rstd, gamma kernel.Buffer, rows, cols int) {
	defer d.stretch(d.begin())
	d.Device.LayerNormBackward(dx, dgamma, dbeta, dy, x, mean, rstd, gamma, rows, cols)
}

func (d *device) Attention(y, stats, qkv kernel.Buffer, s kernel.AttentionShape) {
	defer d.stretch(d.begin())
	d.Device.Attention(y, stats, qkv, s)
}

func (d *device) AttentionBackward(dqkv, dy, y, qkv, stats kernel.Buffer, s kernel.AttentionShape) {
	defer d.stretch(d.begin())
	d.Device.AttentionBackward(dqkv, dy, y, qkv, stats, s)
}

func (d *device) SumRows(dtable, dy kernel.Buffer, rows, cols, period int) {
	defer d.stretch(d.begin())
	d.Device.SumRows(dtable, dy, rows, cols, period)
}

func (d *device) Quantize(acc, g kernel.Buffer, shift int) {
	defer d.stretch(d.begin())
	d.Device.Quantize(acc, g, shift)
}
