//go:build !amd64 || noasm

package gemm

type tiledScratch struct{}

func kernels() []*Kernel { return []*Kernel{kernelGeneric} }
