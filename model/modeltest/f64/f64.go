// Package f64 is a kernel.Device that computes in float64, plainly and slowly. Where kernel/ref says which bits an op
// gives, this package says which number it means: modeltest takes finite differences on it, and tests compare float32
// devices with it to a tolerance.
//
// It is strict: fresh memory holds NaN (or junk integers), a wrong length, an output that overlaps an input, a buffer
// used after Free and a label beyond the classes are all errors of Sync and Download.
package f64

import (
	"encoding/binary"
	"fmt"
	"math"

	"shoal/kernel"
)

// Device is a float64 device. F32 and BF16 buffers hold float64 without rounding.
type Device struct {
	meter kernel.Meter
	err   error
}

var _ kernel.Device = (*Device)(nil)

// New makes an empty device.
func New() *Device { return new(Device) }

type memory struct {
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
		d.fail("Alloc", "%d elements", n)
		n = 0
	}
	m := &memory{t: t, n: n, class: c}
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
	if !ok || b.Off != 0 || b.Len != m.n || m.n > 0 && m.f == nil && m.i == nil {
		d.fail("Free", "a buffer that Alloc did not return, or that was freed before")
		return
	}
	d.meter.Add(m.class, -int64(m.n*m.t.Size()))
	m.f, m.i = nil, nil
}

// Upload implements kernel.Device.
func (d *Device) Upload(dst kernel.Buffer, src []byte) {
	v := d.op("Upload")
	if v.window(dst, dst.Len) == nil {
		return
	}
	m := dst.Mem.(*memory)
	if len(src) != dst.Len*m.t.Size() {
		d.fail("Upload", "%d bytes for %d elements of %v", len(src), dst.Len, m.t)
		return
	}
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

// Download implements kernel.Device. Values are rounded to the buffer's type (BF16: to float32, then cut to nearest
// even).
func (d *Device) Download(dst []byte, src kernel.Buffer) error {
	v := d.op("Download")
	if v.window(src, src.Len) == nil || d.err != nil {
		return d.err
	}
	m := src.Mem.(*memory)
	if len(dst) != src.Len*m.t.Size() {
		d.fail("Download", "%d bytes for %d elements of %v", len(dst), src.Len, m.t)
		return d.err
	}
	for k := range src.Len {
		switch m.t {
		case kernel.F32:
			binary.LittleEndian.PutUint32(dst[4*k:], math.Float32bits(float32(m.f[src.Off+k])))
		case kernel.BF16:
			u := math.Float32bits(float32(m.f[src.Off+k]))
			if m.f[src.Off+k] == m.f[src.Off+k] {
				u += 0x7fff + u>>16&1
			}
			binary.LittleEndian.PutUint16(dst[2*k:], uint16(u>>16))
		case kernel.I32:
			binary.LittleEndian.PutUint32(dst[4*k:], uint32(m.i[src.Off+k]))
		}
	}
	return nil
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
func (d *Device) Sync() error { return d.err }

// Meter implements kernel.Device. It counts what the buffers would take in their own types.
func (d *Device) Meter() *kernel.Meter { return &d.meter }

// Close implements kernel.Device.
func (d *Device) Close() error { return nil }

func (d *Device) fail(op, format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("f64: %s: %s", op, fmt.Sprintf(format, args...))
	}
}

// operands checks the arguments of one op. Its methods return nil for a bad one, and ok then says false.
type operands struct {
	d   *Device
	op  string
	bad bool
}

func (d *Device) op(name string) *operands { return &operands{d: d, op: name} }

func (v *operands) fail(format string, args ...any) {
	v.bad = true
	v.d.fail(v.op, format, args...)
}

func (v *operands) ok() bool { return !v.bad }

// window is the memory of b if b has n elements that are alive.
func (v *operands) window(b kernel.Buffer, n int) *memory {
	m, ok := b.Mem.(*memory)
	switch {
	case !ok:
		v.fail("a nil buffer, or one of another device")
	case b.Len != n || n < 0:
		v.fail("a buffer of %d elements where %d are needed", b.Len, n)
	case b.Off < 0 || b.Off+b.Len > len(m.f)+len(m.i):
		v.fail("a buffer that was freed, or a window beyond its memory")
	default:
		return m
	}
	return nil
}

// f is b as n floats.
func (v *operands) f(b kernel.Buffer, n int) []float64 {
	m := v.window(b, n)
	if m == nil {
		return nil
	}
	if m.t == kernel.I32 {
		v.fail("an i32 buffer where floats are needed")
		return nil
	}
	return m.f[b.Off : b.Off+n]
}

// i is b as n integers.
func (v *operands) i(b kernel.Buffer, n int) []int32 {
	m := v.window(b, n)
	if m == nil {
		return nil
	}
	if m.t != kernel.I32 {
		v.fail("a %v buffer where i32 is needed", m.t)
		return nil
	}
	return m.i[b.Off : b.Off+n]
}

// apart fails if out shares memory with one of ins.
func (v *operands) apart(out kernel.Buffer, ins ...kernel.Buffer) {
	for _, in := range ins {
		if !out.None() && out.Mem == in.Mem && out.Off < in.Off+in.Len && in.Off < out.Off+out.Len {
			v.fail("an output that overlaps an input")
		}
	}
}

// same fails if out shares memory with one of ins but is not the same window.
func (v *operands) same(out kernel.Buffer, ins ...kernel.Buffer) {
	for _, in := range ins {
		if out != in {
			v.apart(out, in)
		}
	}
}
