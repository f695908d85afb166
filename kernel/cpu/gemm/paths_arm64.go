//go:build !noasm

package gemm

var neon = tileSet{
	vector: 8,
	wide:   []tileFunc{tile128x1x16, tile128x2x16, tile128x3x16, tile128x4x16, tile128x5x16, tile128x6x16},
	narrow: []tileFunc{tile128x1x8, tile128x2x8, tile128x3x8, tile128x4x8, tile128x5x8, tile128x6x8, tile128x7x8,
		tile128x8x8},
	whole: true,
}

var kernelNEON = &Kernel{"neon", neon.run, spin128, 24 * 4 * 2}

// kernels are those that can run here, best first. Every arm64 processor has NEON.
func kernels() []*Kernel { return []*Kernel{kernelNEON, kernelGeneric} }
