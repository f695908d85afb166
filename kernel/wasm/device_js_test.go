package wasm

import (
	"fmt"
	"testing"

	"shoal/kernel"
	"shoal/kernel/kerneltest"
)

// These tests run in Node and in Chromium, see TestHosts.

func open(t testing.TB, o Options) *Device {
	t.Helper()
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const testBytes = 8 << 20

// TestSuite: every kind of device has the bits of kernel/ref.
func TestSuite(t *testing.T) {
	for _, c := range []struct {
		name    string
		o       Options
		device  string
		workers int
		shared  bool
	}{
		{"one", Options{}, "wasm/relaxed", 1, true},
		{"two", Options{Workers: 2}, "wasm/relaxed", 2, true},
		{"exact", Options{Workers: 2, exact: true}, "wasm/simd", 2, true},
		{"plain", Options{Workers: 2}, "wasm/relaxed", 1, false}, // on a page that isn't isolated
		{"unshared exact", Options{unshared: true, exact: true}, "wasm/simd", 1, false},
		{"old", Options{Workers: 3}, "wasm/simd", 3, true}, // where there is no relaxed SIMD
	} {
		c.o.Bytes = testBytes
		t.Run(c.name, func(t *testing.T) {
			d := open(t, c.o)
			if d.Name() != c.device || d.Workers() != c.workers || d.Shared() != c.shared {
				t.Errorf("a device %s of %d workers, shared: %v", d.Name(), d.Workers(), d.Shared())
			}
			if f, err := kernel.Fingerprint(d); err != nil {
				t.Error(err)
			} else {
				fmt.Println("it is", f)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			kerneltest.Run(t, func(t *testing.T) kernel.Device { return open(t, c.o) })
		})
	}
}
