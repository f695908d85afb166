// Package cpu is the device for processors: the bits of kernel/ref, on all cores.
//
// Products run on kernel/cpu/gemm, the rest in loops of this package, whose order of operations is that of kernel/ref.
// A crew of goroutines lives as long as the device; an op is cut into pieces by rows, columns or heads, never along a
// chain, so the number of threads doesn't change a bit.
package cpu
