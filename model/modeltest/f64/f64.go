// Package f64 is a kernel.Device that computes in float64, plainly and slowly. Where kernel/ref says which bits an op
// gives, this package says which number it means: modeltest takes finite differences on it, and tests compare float32
// devices with it to a tolerance.
//
// It is strict: fresh memory holds NaN (or junk integers), and a label beyond the classes is an error.
package f64

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"shoal/kernel"
)

// Device is a float64 device. F32 and BF16 buffers hold float64 without rounding.
type Device struct {
	kernel.Checked
	kernel.Cancellation
	meter kernel.Meter
	err   error
}

var _ kernel.Device = (*Device)(nil)

// New makes an empty device.
func New() *Device {
	d := &Device{}
	d.Checked = kernel.Checked{Raw: ops{d}, Host: d}
	return d
}

// memory is one allocation. n is -1 once it was freed.
type memory struct {
	dev   *Device
	t     kernel.DType
	n     int
	class kernel.Class
	f     []float64 // F32, BF16
	i     []int32   // I32
}

func (m *memory) DType() kernel.DType { return m.t }
func (m *memory) Len() int            { return m.n }

// junk fills fresh integer buffers.
const junk = math.MinInt32 + 0x5ea1

// Name implements kernel.Device.
func (d *Device) Name() string { return "f64" }

// Alloc implements kernel.Device.
func (d *Device) Alloc(c kernel.Class, t kernel.DType, n int) kernel.Buffer {
	if n < 0 {
		d.Fail(fmt.Errorf("f64: Alloc of %d elements", n))
		return kernel.Buffer{}
	}
	m := &memory{dev: d, t: t, n: n, class: c}
	if t == kernel.I32 {
		m.i = make([]int32, n)
		for i := range m.i {
			m.i[i] = junk
		}
	} else {
		m.f = make([]float64, n)
		for i := range m.f {
			m.f[i] = math.NaN()
		}
	}
	d.meter.Add(c, int64(n*t.Size()))
	return kernel.Buffer{Mem: m, Len: n}
}

// Free implements kernel.Device.
func (d *Device) Free(b kernel.Buffer) {
	if b.None() {
		return
	}
	m, ok := b.Mem.(*memory)
	if !ok || m.dev != d || m.n < 0 || b.Off != 0 || b.Len != m.n {
		d.Fail(errors.New("f64: Free of a buffer that Alloc did not return, or that was freed before"))
		return
	}
	d.meter.Add(m.class, -int64(m.n*m.t.Size()))
	m.f, m.i, m.n = nil, nil, -1
}

// Share implements kernel.Device: the host has no float64.
func (d *Device) Share(kernel.DType, []byte) kernel.Buffer { return kernel.Buffer{} }

// Upload implements kernel.Device.
func (d *Device) Upload(dst kernel.Buffer, src []byte) {
	if !d.transfer("Upload", dst, len(src)) {
		return
	}
	m := dst.Mem.(*memory)
	for k := range dst.Len {
		switch m.t {
		case kernel.F32:
			m.f[dst.Off+k] = float64(math.Float32frombits(binary.LittleEndian.Uint32(src[4*k:])))
		case kernel.BF16:
			m.f[dst.Off+k] = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*k:])) << 16))
		case kernel.I32:
			m.i[dst.Off+k] = int32(binary.LittleEndian.Uint32(src[4*k:]))
		}
	}
}

// Download implements kernel.Device. Values are rounded to float32, and to BF16 from there.
func (d *Device) Download(dst []byte, src kernel.Buffer) error {
	if !d.transfer("Download", src, len(dst)) || d.err != nil {
		return d.err
	}
	m := src.Mem.(*memory)
	for k := range src.Len {
		switch m.t {
		case kernel.F32:
			binary.LittleEndian.PutUint32(dst[4*k:], math.Float32bits(float32(m.f[src.Off+k])))
		case kernel.BF16:
			binary.LittleEndian.PutUint16(dst[2*k:], bf16(float32(m.f[src.Off+k])))
		case kernel.I32:
			binary.LittleEndian.PutUint32(dst[4*k:], uint32(m.i[src.Off+k]))
		}
	}
	return nil
}

// bf16 rounds to nearest even; NaN stays a quiet NaN.
func bf16(x float32) uint16 {
	u := math.Float32bits(x)
	if x != x {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// transfer says whether b is alive, lies inside its memory and has size bytes.
func (d *Device) transfer(op string, b kernel.Buffer, size int) bool {
	switch {
	case b.None() || !d.Owns(b):
		d.Fail(fmt.Errorf("f64: %s: no buffer, or one that is freed or of another device", op))
	case b.Off < 0 || b.Len < 0 || b.Off+b.Len > b.Mem.Len() || size != b.Len*b.Mem.DType().Size():
		d.Fail(fmt.Errorf("f64: %s of %d bytes: the buffer has %d elements of %v", op, size, b.Len, b.Mem.DType()))
	default:
		return true
	}
	return false
}

// Values is the memory of an F32 or BF16 buffer itself, not a copy; nil for another buffer.
func (d *Device) Values(b kernel.Buffer) []float64 {
	m, ok := b.Mem.(*memory)
	if !ok || b.Len < 0 || b.Off+b.Len > len(m.f) {
		return nil
	}
	return m.f[b.Off : b.Off+b.Len]
}

// Sync implements kernel.Device.
func (d *Device) Sync() error {
	if d.err != nil {
		return d.err
	}
	return d.Cancelled()
}

// Trim implements kernel.Device. Nothing is kept for reuse.
func (d *Device) Trim() {}

// Meter implements kernel.Device. It counts what the buffers would take in their own types.
func (d *Device) Meter() *kernel.Meter { return &d.meter }

// Close implements kernel.Device.
func (d *Device) Close() error { return nil }

// Owns implements kernel.Host.
func (d *Device) Owns(b kernel.Buffer) bool {
	m, ok := b.Mem.(*memory)
	return ok && m.dev == d && m.n >= 0
}

// Fail implements kernel.Host.
func (d *Device) Fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// ops computes what kernel.Checked has let through.
type ops struct{ d *Device }

func floats(b kernel.Buffer) []float64 { return b.Mem.(*memory).f[b.Off:][:b.Len] }
func ints(b kernel.Buffer) []int32     { return b.Mem.(*memory).i[b.Off:][:b.Len] }
