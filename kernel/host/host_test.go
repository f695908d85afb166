package host

import (
	"math"
	"testing"

	"shoal/kernel"
)

func TestPoisonMarksWhatNobodyWrote(t *testing.T) {
	h := New(true)
	for range 2 { // fresh, then from the pool
		b := h.Alloc(kernel.Other, kernel.F32, 5)
		for i, v := range F32(b) {
			if !math.IsNaN(float64(v)) {
				t.Fatalf("element %d is %v, want NaN", i, v)
			}
		}
		clear(F32(b))
		h.Free(b)
	}
}

func TestPoolReusesAndStaysBounded(t *testing.T) {
	h := New(false)
	b := h.Alloc(kernel.Other, kernel.F32, 1000)
	first := &F32(b)[0]
	h.Free(b)
	b = h.Alloc(kernel.Other, kernel.F32, 1000)
	if &F32(b)[0] != first {
		t.Error("memory of the same length was not reused")
	}
	h.Free(b)
	var live []kernel.Buffer
	for i := range 40 {
		live = append(live, h.Alloc(kernel.Other, kernel.F32, 1<<20+i)) // 4 MiB each
	}
	most := h.used
	for _, b := range live {
		h.Free(b)
	}
	if h.kept() < most {
		t.Errorf("of %d bytes that were in use at once %d were kept", most, h.kept())
	}
	for i := range 40 { // lengths that nobody asks for again
		h.Free(h.Alloc(kernel.Other, kernel.I32, 1<<20+i))
		if got := h.used + h.kept(); got > most+spare {
			t.Fatalf("the heap has %d bytes, %d more than were in use at once", got, got-most)
		}
	}
	h.Trim()
	if h.kept() != 0 || len(h.f32.free) != 0 {
		t.Errorf("after Trim %d bytes of %d lengths are kept", h.kept(), len(h.f32.free))
	}
	if err := h.Sync(); err != nil {
		t.Error(err)
	}
}

// Headers are used again, but whoever kept a Buffer of before is found out, however often its header was used since.
func TestFreedBuffersStayInvalid(t *testing.T) {
	h := New(false)
	var freed []kernel.Buffer
	for range 100 {
		b := h.Alloc(kernel.Other, kernel.F32, 10)
		h.Free(b)
		freed = append(freed, b, b.Slice(2, 3))
	}
	now := h.Alloc(kernel.Other, kernel.F32, 10)
	if freed[0].Mem != now.Mem {
		t.Error("no header was used again")
	}
	for i, b := range freed {
		if h.Owns(b) {
			t.Fatalf("buffer %d of %d counts as allocated", i, len(freed))
		}
	}
	if !h.Owns(now) || !h.Owns(now.Slice(2, 3)) || h.Sync() != nil {
		t.Errorf("the new buffer counts as freed, or %v", h.Sync())
	}
	h.Free(freed[0])
	if !h.Owns(now) || h.Sync() == nil {
		t.Error("a second Free went unnoticed")
	}
}

// After warm-up, taking and giving back memory allocates nothing.
func TestAllocAllocatesNothing(t *testing.T) {
	h := New(false)
	var x [4]byte
	n := testing.AllocsPerRun(100, func() {
		h.Free(h.Alloc(kernel.Other, kernel.F32, 1<<16))
		h.Free(h.Share(kernel.BF16, x[:]))
	})
	if n > 0 {
		t.Errorf("%v allocations per Alloc and Free, want none", n)
	}
}
