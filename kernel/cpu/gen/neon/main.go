// Command neon writes the arm64 assembly of kernel/cpu: operation by operation what loops_generic.go does, 8 elements at
// a time. kernel/cpu/generate.sh runs it with the folder to write to.
package main

import (
	"log"
	"os"

	"shoal/kernel/cpu/internal/a64"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: neon FOLDER")
	}
	f := a64.New("loops_arm64", "cpu")
	for _, write := range []func(*a64.File){add, scale, exp, gelu, geluBackward, quantize, adamW} {
		write(f)
	}
	if err := f.Save(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}
