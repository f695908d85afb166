package kerneltest

import (
	"bytes"
	"slices"
	"testing"

	"shoal/kernel"
	"shoal/kernel/ref"
)

func runMemory(t *testing.T, open func(t *testing.T) kernel.Device) {
	t.Run("metering", func(t *testing.T) {
		d := open(t)
		defer d.Close()
		check := func(c kernel.Class, live, peak int64) {
			t.Helper()
			if l, p := d.Meter().Live(c), d.Meter().Peak(c); l != live || p != peak {
				t.Errorf("%v: %d bytes live, %d at peak; want %d and %d", c, l, p, live, peak)
			}
		}
		a := d.Alloc(kernel.Parameters, kernel.F32, 10)
		b := d.Alloc(kernel.Parameters, kernel.BF16, 7)
		e := d.Alloc(kernel.Gradients, kernel.I32, 0)
		check(kernel.Parameters, 54, 54)
		check(kernel.Gradients, 0, 0)
		d.Free(a)
		check(kernel.Parameters, 14, 54)
		a = d.Alloc(kernel.Optimizer, kernel.F32, 10)
		check(kernel.Optimizer, 40, 40)
		d.Free(kernel.Buffer{})
		for _, x := range []kernel.Buffer{a, b, e} {
			d.Free(x)
		}
		check(kernel.Parameters, 0, 54)
		check(kernel.Optimizer, 0, 40)
		if err := d.Sync(); err != nil {
			t.Error(err)
		}
	})
	t.Run("windows share memory", func(t *testing.T) {
		d := open(t)
		defer d.Close()
		b := d.Alloc(kernel.Other, kernel.I32, 4)
		d.Zero(b)
		d.Upload(b.Slice(1, 2).Slice(1, 1), []byte{1, 2, 3, 4})
		got := make([]byte, 16)
		if err := d.Download(got, b); err != nil {
			t.Fatal(err)
		}
		if want := []byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0}; !bytes.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("host memory", func(t *testing.T) {
		d := open(t)
		defer d.Close()
		x := []int32{1, 2, 3}
		s := d.Share(kernel.I32, kernel.Bytes(x))
		if s.None() {
			t.Skip("the device has memory of its own")
		}
		d.AddI32(s.Slice(1, 2), s.Slice(0, 1)) // a fault: nothing happens
		if d.Sync() == nil {
			t.Error("a buffer of another length was not refused")
		}

		e := open(t)
		defer e.Close()
		s = e.Share(kernel.I32, kernel.Bytes(x))
		y := e.Alloc(kernel.Other, kernel.I32, 3)
		e.Upload(y, kernel.Bytes([]int32{10, 20, 30}))
		e.AddI32(s, y)
		if err := e.Sync(); err != nil {
			t.Fatal(err)
		}
		if want := []int32{11, 22, 33}; !slices.Equal(x, want) {
			t.Errorf("the host has %v, want %v", x, want)
		}
		x[2] = 5
		got := make([]int32, 2)
		if err := e.Download(kernel.Bytes(got), s.Slice(1, 2)); err != nil || got[0] != 22 || got[1] != 5 {
			t.Errorf("the device has %v, %v", got, err)
		}
		live := e.Meter().Live(kernel.Other)
		e.Free(s)
		if now := e.Meter().Live(kernel.Other); live != 12 || now != 12 {
			t.Errorf("%d bytes live with the host's memory, %d without: want 12", live, now)
		}
		fresh := e.Alloc(kernel.Other, kernel.I32, 3)
		e.Zero(fresh)
		if e.Sync() != nil || x[0] != 11 {
			t.Errorf("the host's memory was given away: %v", x)
		}
	})
	t.Run("stale buffers", func(t *testing.T) {
		d := open(t)
		defer d.Close()
		old := d.Alloc(kernel.Other, kernel.F32, 100)
		d.Free(old)
		now := d.Alloc(kernel.Other, kernel.F32, 100) // may be the same memory
		d.Upload(now, fill(400, 3))
		d.Zero(old)
		d.Free(old)
		if d.Sync() == nil {
			t.Error("use after Free was not noticed")
		}
		if d.Meter().Live(kernel.Other) != 400 {
			t.Errorf("%d bytes live after a double Free, want 400", d.Meter().Live(kernel.Other))
		}
	})
	t.Run("close", func(t *testing.T) {
		d := open(t)
		b := d.Alloc(kernel.Other, kernel.F32, 5)
		for range 2 {
			if err := d.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		d.Zero(b)
		d.Free(b)
		d.Alloc(kernel.Other, kernel.F32, 5)
		if d.Sync() == nil || d.Download(make([]byte, 20), b) == nil {
			t.Error("no error after Close")
		}
		if live := d.Meter().Live(kernel.Other); live != 0 {
			t.Errorf("%d bytes live after Close", live)
		}
	})
}

func runFingerprint(t *testing.T, open func(t *testing.T) kernel.Device) {
	d, r := open(t), ref.New()
	defer func() { _, _ = d.Close(), r.Close() }()
	got, err := kernel.Fingerprint(d)
	if err != nil {
		t.Fatal(err)
	}
	want, err := kernel.Fingerprint(r)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("fingerprint of %s is %s, of ref %s", d.Name(), got, want)
	}
	for c := kernel.Class(0); c < kernel.NumClasses; c++ {
		if live := d.Meter().Live(c); live != 0 {
			t.Errorf("Fingerprint left %d bytes of %v", live, c)
		}
	}
}
