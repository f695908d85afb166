package gemm

import "math"

// fma is a*b + c rounded once to float32. The float64 sum is rounded to odd (its error, found by two-sum, decides the
// last bit), so that rounding it again to float32 can't go wrong (Boldo and Melquiond 2008).
func fma(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	s := p + q
	t := s - p
	e := float64(p-float64(s-t)) + float64(q-t) // the exact sum is s + e
	bits := math.Float64bits(s)
	if e != 0 && bits&1 == 0 && !math.IsInf(s, 0) && e == e {
		if (e > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return float32(s)
}
