//go:build (amd64 || arm64) && !noasm

package cpu

// first is the address of the first of n elements; a slice that has fewer is a panic.
func first[T float32 | int32 | uint16](x []T, n int) *T { return &x[:n][0] }
