//go:build (!amd64 && !arm64) || noasm

package gemm

type tiledScratch struct{}

func kernels() []*Kernel { return []*Kernel{kernelGeneric} }
