//go:build !noasm

package gemm

import "unsafe"

var neon = tileSet{
	vector: 8,
	wide:   []tileFunc{tile128x1x16, tile128x2x16, tile128x3x16, tile128x4x16, tile128x5x16, tile128x6x16},
	narrow: []tileFunc{tile128x1x8, tile128x2x8, tile128x3x8, tile128x4x8, tile128x5x8, tile128x6x8, tile128x7x8,
		tile128x8x8},
	whole: true,
}

var kernelNEON = &Kernel{"neon", neon.run, spin128, 24 * 4 * 2}

// copy16 copies src (rows, 16*blocks) to dst.
func copy16(dst *float32, dstStride int, src *float32, srcStride int, rows, blocks int) {
	n := 16 * blocks
	d, s := unsafe.Slice(dst, (rows-1)*dstStride+n), unsafe.Slice(src, (rows-1)*srcStride+n)
	for i := range rows {
		copy(d[i*dstStride:][:n], s[i*srcStride:])
	}
}

// kernels are those that can run here, best first. Every arm64 processor has NEON.
func kernels() []*Kernel { return []*Kernel{kernelNEON, kernelGeneric} }
