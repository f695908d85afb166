package gemm_test

import (
	"fmt"

	"shoal/kernel"
	"shoal/kernel/cpu/gemm"
)

func ExampleKernel_Gemm() {
	k, err := gemm.Select("") // the best path of this CPU
	if err != nil {
		fmt.Println(err)
		return
	}
	a := []float32{1, 2, 3, 4, 5, 6} // (2, 3)
	b := []float32{1, 0, 1, 0, 1, 1} // (2, 3), used transposed
	c := make([]float32, 4)          // (2, 2)
	var s gemm.Scratch
	k.Gemm(kernel.NT, c, 2, a, 3, b, 3, 2, 2, 3, false, &s)
	fmt.Println(c)
	// Output: [4 5 10 11]
}
