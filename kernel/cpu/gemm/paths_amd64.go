//go:build !noasm

package gemm

import "golang.org/x/sys/cpu"

var avx512 = tileSet{
	vector: 16,
	wide: []tileFunc{tile512x1x32, tile512x2x32, tile512x3x32, tile512x4x32, tile512x5x32, tile512x6x32, tile512x7x32,
		tile512x8x32, tile512x9x32, tile512x10x32, tile512x11x32, tile512x12x32},
	narrow: []tileFunc{tile512x1x16, tile512x2x16, tile512x3x16, tile512x4x16, tile512x5x16, tile512x6x16, tile512x7x16,
		tile512x8x16, tile512x9x16, tile512x10x16, tile512x11x16, tile512x12x16, tile512x13x16, tile512x14x16,
		tile512x15x16, tile512x16x16},
	partialWide: true,
}

var avx2 = tileSet{
	vector: 8,
	wide:   []tileFunc{tile256x1x16, tile256x2x16, tile256x3x16, tile256x4x16, tile256x5x16, tile256x6x16},
	narrow: []tileFunc{tile256x1x8, tile256x2x8, tile256x3x8, tile256x4x8, tile256x5x8, tile256x6x8},
}

var (
	kernelAVX512 = &Kernel{"avx512", avx512.run, spin512, 24 * 16 * 2}
	kernelAVX2   = &Kernel{"avx2", avx2.run, spin256, 12 * 8 * 2}
)

// kernels are those that can run here, best first. x/sys/cpu reports AVX only if the operating system saves the
// registers too.
func kernels() []*Kernel {
	var list []*Kernel
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX2 {
		list = append(list, kernelAVX512)
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		list = append(list, kernelAVX2)
	}
	return append(list, kernelGeneric)
}
