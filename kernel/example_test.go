package kernel_test

import (
	"fmt"

	"shoal/kernel"
	"shoal/kernel/ref"
)

// Ops run in order on the device; only Upload, Download and Sync cross over to the host.
func ExampleDevice() {
	d := ref.New()
	defer d.Close()
	a := d.Alloc(kernel.Other, kernel.F32, 6) // (2, 3)
	b := d.Alloc(kernel.Other, kernel.F32, 3) // (3, 1)
	c := d.Alloc(kernel.Other, kernel.F32, 2) // (2, 1)
	d.Upload(a, kernel.Bytes([]float32{1, 2, 3, 4, 5, 6}))
	d.Upload(b, kernel.Bytes([]float32{1, 0, -1}))
	d.MatMul(kernel.NN, c, a, b, 2, 1, 3, false)
	got := make([]float32, 2)
	if err := d.Download(kernel.Bytes(got), c); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(got, d.Meter().Live(kernel.Other), "bytes")
	// Output: [-2 -2] 44 bytes
}
