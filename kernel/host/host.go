// Package host is device memory that lies in Go's heap: the half of a kernel.Device that kernel/ref and kernel/cpu
// share. It allocates, meters, copies in and out, and keeps the first fault; it computes nothing.
package host

import (
	"errors"
	"fmt"

	"shoal/kernel"
)

// ErrClosed is kept once a device was closed.
var ErrClosed = errors.New("kernel: the device is closed")

// spare is how many bytes a Heap may have, with freed memory that it keeps for later Allocs, beyond the most that was in use at
// once. One more and it starts over, so lengths of the past don't stay for ever.
const spare = 64 << 20

// Heap implements the memory methods of kernel.Device and kernel.Host. Ops compute before they return, so nothing here
// ever waits.
type Heap struct {
	kernel.Cancellation
	meter  kernel.Meter
	used   int // bytes in use
	most   int // that were in use at once since the last Trim
	err    error
	closed bool
	poison bool
	f32    pool[float32]
	i32    pool[int32]
	u16    pool[uint16]
	unused []*memory // headers of what was freed
}

// New makes an empty heap. With poison, new float memory holds NaN, so that a model that reads what nobody wrote is
// found out.
func New(poison bool) *Heap { return &Heap{poison: poison} }

// memory is the header of one allocation after the other. Only the slice of its type is set; a freed one has none.
type memory struct {
	heap       *Heap
	generation int // Frees: a Buffer that was kept has an earlier one
	class      kernel.Class
	t          kernel.DType
	n          int
	f32        []float32
	i32        []int32
	u16        []uint16

	shared bool // the elements are somebody else's
}

func (m *memory) DType() kernel.DType { return m.t }
func (m *memory) Len() int            { return m.n }
func (m *memory) size() int           { return m.n * m.t.Size() }

// F32, I32 and BF16 are the elements of a buffer that Checked has let through.
func F32(b kernel.Buffer) []float32 { return b.Mem.(*memory).f32[b.Off:][:b.Len:b.Len] }
func I32(b kernel.Buffer) []int32   { return b.Mem.(*memory).i32[b.Off:][:b.Len:b.Len] }
func BF16(b kernel.Buffer) []uint16 { return b.Mem.(*memory).u16[b.Off:][:b.Len:b.Len] }

// bytes views the elements of b as bytes.
func bytes(b kernel.Buffer) []byte {
	switch b.Mem.DType() {
	case kernel.BF16:
		return kernel.Bytes(BF16(b))
	case kernel.I32:
		return kernel.Bytes(I32(b))
	}
	return kernel.Bytes(F32(b))
}

// Owns implements kernel.Host.
func (h *Heap) Owns(b kernel.Buffer) bool {
	m, ok := b.Mem.(*memory)
	return ok && m.heap == h && m.generation == b.Generation && !h.closed
}

// header is one that nothing lies in.
func (h *Heap) header() *memory {
	n := len(h.unused)
	if n == 0 {
		return &memory{heap: h}
	}
	m := h.unused[n-1]
	h.unused = h.unused[:n-1]
	return m
}

// buffer is all that lies in m.
func (m *memory) buffer() kernel.Buffer {
	return kernel.Buffer{Mem: m, Len: m.n, Generation: m.generation}
}

// Fail implements kernel.Host.
func (h *Heap) Fail(err error) {
	if h.err == nil {
		h.err = err
	}
}

// Alloc implements kernel.Device.
func (h *Heap) Alloc(c kernel.Class, t kernel.DType, n int) kernel.Buffer {
	if h.closed || n < 0 || c >= kernel.NumClasses || t > kernel.I32 {
		h.Fail(fmt.Errorf("kernel: Alloc of %d elements of %v for %v: not possible (closed: %v)", n, t, c, h.closed))
		return kernel.Buffer{}
	}
	m := h.header()
	m.class, m.t, m.n = c, t, n
	if err := m.fill(); err != nil {
		h.Fail(err)
		return kernel.Buffer{}
	}
	h.meter.Add(c, int64(m.size()))
	h.used += m.size()
	h.most = max(h.most, h.used)
	return m.buffer()
}

// fill gets the elements. A length that the runtime refuses is an error, not a panic.
func (m *memory) fill() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("kernel: Alloc of %d elements of %v for %v: %v", m.n, m.t, m.class, r)
		}
	}()
	switch m.t {
	case kernel.F32:
		m.f32 = m.heap.f32.get(m.n)
		if m.heap.poison {
			fillNaN(m.f32)
		}
	case kernel.I32:
		m.i32 = m.heap.i32.get(m.n)
	case kernel.BF16:
		m.u16 = m.heap.u16.get(m.n)
	}
	return nil
}

// Free implements kernel.Device. Freeing twice, or freeing a window or another device's buffer, is a fault.
func (h *Heap) Free(b kernel.Buffer) {
	if b.None() || h.closed {
		return
	}
	m, _ := b.Mem.(*memory)
	if !h.Owns(b) || b.Off != 0 || b.Len != m.n {
		h.Fail(fmt.Errorf("kernel: Free of a buffer (offset %d, length %d) that is freed already or that Alloc did not return",
			b.Off, b.Len))
		return
	}
	if !m.shared {
		h.meter.Add(m.class, -int64(m.size()))
		h.used -= m.size()
		h.f32.put(m.f32)
		h.i32.put(m.i32)
		h.u16.put(m.u16)
		if h.used+h.kept() > h.most+spare {
			h.Trim()
		}
	}
	*m = memory{heap: h, generation: m.generation + 1}
	h.unused = append(h.unused, m)
}

// Share implements kernel.Device.
func (h *Heap) Share(t kernel.DType, x []byte) kernel.Buffer {
	if h.closed || t > kernel.I32 || len(x)%t.Size() != 0 {
		h.Fail(fmt.Errorf("kernel: Share of %d bytes as %v: not possible (closed: %v)", len(x), t, h.closed))
		return kernel.Buffer{}
	}
	m := h.header()
	m.t, m.n, m.shared = t, len(x)/t.Size(), true
	switch t {
	case kernel.F32:
		m.f32 = kernel.View[float32](x)
	case kernel.I32:
		m.i32 = kernel.View[int32](x)
	case kernel.BF16:
		m.u16 = kernel.View[uint16](x)
	}
	return m.buffer()
}

// kept is how many bytes of freed memory there are.
func (h *Heap) kept() int { return h.f32.bytes + h.i32.bytes + h.u16.bytes }

// Trim implements kernel.Device.
func (h *Heap) Trim() {
	h.f32, h.i32, h.u16, h.most = pool[float32]{}, pool[int32]{}, pool[uint16]{}, h.used
	h.unused = nil
}

// Upload implements kernel.Device.
func (h *Heap) Upload(dst kernel.Buffer, src []byte) {
	if kernel.CheckTransfer(h, "Upload", dst, len(src)) {
		copy(bytes(dst), src)
	}
}

// Download implements kernel.Device.
func (h *Heap) Download(dst []byte, src kernel.Buffer) error {
	if kernel.CheckTransfer(h, "Download", src, len(dst)) && h.Sync() == nil {
		copy(dst, bytes(src))
	}
	return h.Sync()
}

// Sync implements kernel.Device.
func (h *Heap) Sync() error {
	if h.err != nil {
		return h.err
	}
	return h.Cancelled()
}

// Meter implements kernel.Device.
func (h *Heap) Meter() *kernel.Meter { return &h.meter }

// Close implements kernel.Device: every buffer is invalid from now on.
func (h *Heap) Close() error {
	if h.closed {
		return nil
	}
	h.Fail(ErrClosed)
	h.closed = true
	h.f32, h.i32, h.u16 = pool[float32]{}, pool[int32]{}, pool[uint16]{}
	for c := kernel.Class(0); c < kernel.NumClasses; c++ {
		h.meter.Add(c, -h.meter.Live(c))
	}
	return nil
}
