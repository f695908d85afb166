package ref

import "math"

// Elementary functions of float32: a range reduction and a polynomial, unfused, without tables, so that they vectorise.

var inf = math.Inf(1)

const (
	expMax   = 89         // e^89 overflows
	expMin   = -104       // e^-104 rounds to 0
	roundBit = 12582912.0 // 1.5 * 2^23: adding it rounds a small float32 to an integer, in the low bits of its pattern
	log2e    = 1.44269504
	ln2Hi    = 0.693359375 // 10 bits, so that n*ln2Hi is exact for every n here
	ln2Lo    = -2.12194440e-4

	// e^r = 1 + r + r^2 (exp2 + exp3 r + exp4 r^2 + exp5 r^3 + exp6 r^4): weighted minimax, relative, |r| <= ln(2)/2
	exp2 = 0x1.fffffcp-2
	exp3 = 0x1.55549p-3
	exp4 = 0x1.5558fcp-5
	exp5 = 0x1.123b9ap-7
	exp6 = 0x1.6a2124p-10
)

// Exp is e^x to about 1 ulp: 0 for -Inf, +Inf on overflow, gradual underflow, NaN kept.
func Exp(x float32) float32 {
	if x > expMax {
		x = expMax
	}
	if x < expMin {
		x = expMin
	}
	t := float32(x*log2e) + roundBit
	n := t - roundBit // x / ln 2, rounded to nearest even
	r := (x - float32(n*ln2Hi)) - float32(n*ln2Lo)
	q := float32(exp6*r) + exp5
	q = float32(q*r) + exp4
	q = float32(q*r) + exp3
	q = float32(q*r) + exp2
	y := (float32(q*float32(r*r)) + r) + 1
	// 2^n in two factors, so that only the last multiplication rounds when y*2^n is subnormal.
	k := int32(math.Float32bits(t)) - int32(math.Float32bits(roundBit))
	return float32(y*pow2(k>>1)) * pow2(k-k>>1)
}

// pow2 is 2^k for -127 < k < 128.
func pow2(k int32) float32 { return math.Float32frombits(uint32(k+127) << 23) }

// Log is the natural logarithm to about 1 ulp: -Inf for 0, NaN below 0, +Inf for +Inf.
func Log(x float32) float32 {
	switch {
	case x != x || x < 0:
		return float32(math.NaN())
	case x == 0:
		return negInf
	case x > math.MaxFloat32:
		return x
	}
	k := int32(0)
	if x < 0x1p-126 {
		x *= 0x1p23
		k = -23
	}
	// x = m * 2^k with m in [sqrt(1/2), sqrt(2))
	u := math.Float32bits(x) + (0x3f800000 - 0x3f3504f3)
	k += int32(u>>23) - 127
	m := math.Float32frombits(u&0x7fffff + 0x3f3504f3)
	// ln m = 2 atanh(s), s = (m-1)/(m+1), by its series
	f := m - 1
	s := f / (2 + f)
	z := float32(s * s)
	q := float32(z*(2.0/9)) + 2.0/7
	q = float32(q*z) + 2.0/5
	q = float32(q*z) + 2.0/3
	q = float32(q * z)
	// ln m = 2s + s q = f - s (f - q), which loses nothing for small f
	n := float32(k)
	return ((f - float32(s*(f-q))) + float32(n*ln2Lo)) + float32(n*ln2Hi)
}

// Sqrt is the square root, rounded correctly.
func Sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }
