// Package data says which samples a step sees, and draws the digits that the default run trains on.
//
// Everything here is integer arithmetic, or one float32 operation that IEEE 754 fixes: the same arguments give the same
// bits on every architecture. Nothing depends on how many peers there are.
package data
