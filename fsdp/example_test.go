package fsdp_test

import (
	"fmt"

	"shoal/fsdp"
)

// Eight microbatches among three members, the second of which is half as fast as the others.
func ExampleDeal() {
	fmt.Println(fsdp.Deal(0, 8, []int64{1000, 2000, 1000}))
	for step := range 3 { // too few for all: the turns go round
		fmt.Println(fsdp.Deal(step, 2, []int64{1, 1, 1}))
	}
	// Output:
	// [{0 3} {3 4} {4 8}]
	// [{0 0} {0 1} {1 2}]
	// [{0 1} {1 1} {1 2}]
	// [{0 1} {1 2} {2 2}]
}
