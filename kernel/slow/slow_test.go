package slow_test

import (
	"testing"
	"time"

	"shoal/kernel"
	"shoal/kernel/ref"
	"shoal/kernel/slow"
)

// product times some products on dev and gives the last one's result.
func product(t *testing.T, dev kernel.Device) ([]byte, time.Duration) {
	const n = 48
	a, c := dev.Alloc(kernel.Activations, kernel.F32, n*n), dev.Alloc(kernel.Activations, kernel.F32, n*n)
	defer dev.Free(a)
	defer dev.Free(c)
	values := make([]float32, n*n)
	for i := range values {
		values[i] = float32(i%7) - 2.5
	}
	dev.Upload(a, kernel.Bytes(values))
	start := time.Now()
	for range 40 {
		dev.MatMul(kernel.NN, c, a, a, n, n, n, false)
	}
	out := make([]byte, 4*n*n)
	if err := dev.Download(out, c); err != nil {
		t.Fatal(err)
	}
	return out, time.Since(start)
}

func TestSlower(t *testing.T) {
	dev := ref.New()
	defer dev.Close()
	want, quick := product(t, dev)
	for range 5 { // the machine may be busy
		_, again := product(t, dev)
		quick = min(quick, again)
	}
	got, long := product(t, slow.Device(dev, 8))
	if string(got) != string(want) {
		t.Error("a slowed device computes other bits")
	}
	if long < 3*quick {
		t.Errorf("slowed by 8 it takes %v instead of %v", long, quick)
	}
}
