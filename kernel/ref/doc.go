// Package ref is the specification of the ops: what every exact backend computes, bit for bit in float32, written as
// plain scalar Go on slices in Go memory, sequential and without tricks. It is slow. docs/numerics.md explains the
// rules; kernel/kerneltest compares other devices with this one.
//
// Three rules hold everywhere. Products inside matrix products and attention are chains of FMA over k ascending.
// Everything else is unfused: each operation is rounded on its own, which is why the code says float32(x*y) + z (the
// conversion forbids Go's compiler to fuse, which it does on some architectures). Reductions along a row use 16 lanes
// and a fixed tree, reductions over rows one chain. A NaN is a NaN: its sign and payload are not part of the contract.
//
// The package also has the functions that must not come from package math, whose last bit differs between
// architectures: initial values (init.go) and the scalars of schedules (scalar.go).
package ref
