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

// shifted is g * 2^shift, clamped to +-2^30; NaN gives 0. The power of two is applied in two factors of float32: where
// that is inexact the result is far below 1 or clamped anyway.
func shifted(g float32, shift int) float32 {
	shift = min(max(shift, shiftMin), shiftMax)
	v := float32(float32(g*pow2(int32(shift/2))) * pow2(int32(shift-shift/2)))
	if v != v {
		return 0
	}
	return min(max(v, -quantumMax), quantumMax)
}

// Quantum is g * 2^shift rounded to the nearest integer, ties to even, clamped to +-2^30; NaN gives 0.
func Quantum(g float32, shift int) int32 {
	return int32(math.RoundToEven(float64(shifted(g, shift))))
}

// StochasticQuantum is Quantum but for the rounding (Gupta et al. 2015, arXiv 1502.02551): up if the fraction of
// g * 2^shift is above r * 2^-24, where r are 24 random bits, else down. So integers stay as they are.
func StochasticQuantum(g float32, shift int, r uint32) int32 {
	v := shifted(g, shift)
	low := float32(math.Floor(float64(v)))
	fraction := v - low // 1 for a v just below 0: then it is 0 that is left
	q := int32(low)
	if float32(fraction*(1<<24)) > float32(r) {
		q++
	}
	return q
}

// RandomBits are the 24 bits that QuantizeStochastic takes for element i under key.
func RandomBits(key uint64, i int) uint32 { return uint32(Counter(key, uint64(i)) >> 40) }

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

// AdamW updates one element in place from its summed gradient, which is an int32 rounded to float32 or a float32.
func AdamW(p, m, v *float32, sum float32, h kernel.AdamW) {
	g := sum * h.Scale
	*m = float32(h.Beta1**m) + float32((1-h.Beta1)*g)
	*v = float32(h.Beta2**v) + float32((1-h.Beta2)*float32(g*g))
	x := *p - float32(h.Decay**p)
	*p = x - float32(h.LR*float32(*m*h.C1))/(Sqrt(float32(*v*h.C2))+h.Eps)
}
