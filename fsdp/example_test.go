package fsdp_test

import (
	"fmt"

	"shoal/fsdp"
)

// Eight microbatches among three members, the first of which offers twice the memory of the others.
func ExampleShares() {
	fmt.Println(fsdp.Shares(0, 8, []int64{2, 1, 1}))
	for step := range 3 { // too few for all: the turns go round
		fmt.Println(fsdp.Shares(step, 2, []int64{1, 1, 1}))
	}
	// Output:
	// [{0 4} {4 6} {6 8}]
	// [{0 0} {0 1} {1 2}]
	// [{0 1} {1 1} {1 2}]
	// [{0 0} {0 1} {1 2}]
}
