package ref

import (
	"math"
	"math/bits"

	"shoal/kernel"
)

const (
	quantumMax = 1 << 30
	shiftMax   = 254  // 2^254 takes every float32 but 0 beyond quantumMax,
	shiftMin   = -252 // and 2^-252 every one below 1/2
)

// Quantum is g * 2^shift rounded to the nearest integer, ties to even, clamped to +-2^30; NaN gives 0. The power of two
// is applied in two factors of float32: where that is inexact the result is 0 or clamped anyway.
func Quantum(g float32, shift int) int32 {
	shift = min(max(shift, shiftMin), shiftMax)
	v := float32(g*pow2(int32(shift/2))) * pow2(int32(shift-shift/2))
	switch {
	case v != v:
		return 0
	case v >= quantumMax:
		return quantumMax
	case v <= -quantumMax:
		return -quantumMax
	}
	return int32(math.RoundToEven(float64(v)))
}

// SumSquares is the sum of x*x as a 128-bit integer, least significant word first.
func SumSquares(x []int32) (sum [4]int32) {
	var hi, lo uint64
	for _, v := range x {
		var carry uint64
		lo, carry = bits.Add64(lo, uint64(int64(v)*int64(v)), 0)
		hi += carry
	}
	return [4]int32{int32(lo), int32(lo >> 32), int32(hi), int32(hi >> 32)}
}

// AdamW updates one element in place from its summed gradient q.
func AdamW(p, m, v *float32, q int32, h kernel.AdamW) {
	g := float32(q) * h.Scale
	*m = float32(h.Beta1**m) + float32((1-h.Beta1)*g)
	*v = float32(h.Beta2**v) + float32((1-h.Beta2)*float32(g*g))
	x := *p - float32(h.Decay**p)
	*p = x - float32(h.LR*float32(*m*h.C1))/(Sqrt(float32(*v*h.C2))+h.Eps)
}
