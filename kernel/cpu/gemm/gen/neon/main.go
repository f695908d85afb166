// Command neon writes the arm64 assembly of kernel/cpu/gemm: tiles by NEON, and a transposition. Every register has a
// fixed place. kernel/cpu/gemm/generate.sh runs it with the folder to write to.
package main

import (
	"log"
	"os"

	"shoal/kernel/cpu/internal/a64"
)

const (
	wideRows   = 6 // with four vectors per row: 24 accumulators of 32 registers, 4 for B, 4 for A
	narrowRows = 8 // with two vectors per row: 16 chains, which hide a latency of 4 cycles of four units
)

// writer writes functions.
type writer struct{ *a64.File }

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: neon FOLDER")
	}
	w := writer{a64.New("tiles_arm64", "gemm")}
	for rows := 1; rows <= wideRows; rows++ {
		w.tile(rows, 4)
	}
	for rows := 1; rows <= narrowRows; rows++ {
		w.tile(rows, 2)
	}
	w.transpose8()
	w.spin()
	if err := w.Save(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// pairs calls f for each two of n vectors, with their distance from the first one in bytes.
func pairs(n int, f func(i, disp int)) {
	for i := 0; i < n; i += 2 {
		f(i, 16*i)
	}
}
