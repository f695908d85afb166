package ref_test

import (
	"testing"

	"shoal/kernel"
	"shoal/kernel/kerneltest"
	"shoal/kernel/ref"
)

// ref against itself checks the suite: that every output is written, guards stay, faults are noticed.
func TestSuite(t *testing.T) {
	kerneltest.Run(t, func(*testing.T) kernel.Device { return ref.New() })
}

// The pinned fingerprint changes only when a decision about numbers does; then docs/numerics.md changes as well.
func TestFingerprintIsPinned(t *testing.T) {
	const want = "56ee28d45c3cbf35"
	d := ref.New()
	defer d.Close()
	got, err := kernel.Fingerprint(d)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("fingerprint %s, want %s: some op gives other bits than before", got, want)
	}
}
