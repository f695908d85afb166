package ref

import "math"

// FMA is a*b + c rounded once, as IEEE 754 fusedMultiplyAdd for float32.
//
// The product of two float32 is exact in float64, so only the sum is rounded twice: to float64, then to float32. That
// goes wrong only where the float64 lies exactly between two float32 (its low 29 bits are 1 0...0) without being
// exact, or where float32 has fewer bits because the result is subnormal. Both go to fmaSlow.
func FMA(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	u := math.Float64bits(s)
	if u&(1<<29-1) == 1<<28 || u<<1-1 < minNormal<<1-1 {
		return fmaSlow(p, float64(c), s)
	}
	return float32(s)
}

// minNormal is the bit pattern of the smallest normal float32 as a float64.
const minNormal = (1023 - 126) << 52

// fmaSlow rounds p + c, whose float64 rounding is s, to odd: an inexact s with an even last bit is moved to its odd
// neighbour on the side of the exact sum. With 53 >= 24 + 2 bits the second rounding is then right (Boldo and Melquiond
// 2008, "Emulation of FMA and correctly rounded sums").
//
//go:noinline
func fmaSlow(p, c, s float64) float32 {
	bp := s - c
	bc := s - bp
	e := (p - bp) + (c - bc) // p + c = s + e exactly (Knuth's TwoSum)
	u := math.Float64bits(s)
	if e != 0 && u&1 == 0 && s == s {
		if (e > 0) == (s > 0) {
			u++
		} else {
			u--
		}
	}
	return float32(math.Float64frombits(u))
}
