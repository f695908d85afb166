//go:build !amd64 || noasm

package gemm

type tiledScratch struct{}

var all = []*Kernel{{"generic", runGeneric}}

func kernels() []*Kernel { return all }
