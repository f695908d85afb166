// Package cpu is the device for processors: the bits of kernel/ref, on all cores.
//
// Products run on kernel/cpu/gemm, the rest in loops of this package, whose order of operations is that of kernel/ref:
// assembly for AVX-512 and AVX2 (loops_amd64.s, made by gen through generate.sh), for NEON where plain Go is slowest
// (loops_arm64.s, by gen/neon), plain Go elsewhere and with the build tag noasm (loops_generic.go, rows_generic.go).
//
// A crew of goroutines lives as long as the device; an op is cut into pieces by rows, columns or heads, never along a
// chain, so the number of threads doesn't change a bit.
package cpu
