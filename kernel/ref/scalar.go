package ref

import "math"

// Scalars of schedules and bias corrections in float64, the same bits on every architecture.

const (
	halfPiHi = 0x1.921fb54p+0        // 27 bits, so that k*halfPiHi is exact for the k here
	halfPiLo = 0x1.10b4611a62633p-30 // pi/2 - halfPiHi
)

// Cos64 is cos x to about 1e-15 absolute, for |x| up to 1e6; NaN beyond.
func Cos64(x float64) float64 {
	if !(math.Abs(x) <= 1e6) {
		return math.NaN()
	}
	k := math.Floor(float64(x*(2/math.Pi)) + 0.5)
	r := (x - float64(k*halfPiHi)) - float64(k*halfPiLo)
	switch int64(k) & 3 {
	case 0:
		return cosTaylor(r)
	case 1:
		return -sinTaylor(r)
	case 2:
		return -cosTaylor(r)
	}
	return sinTaylor(r)
}

// cosTaylor and sinTaylor are for |r| <= pi/4, where the first term left out is below 1e-18.
func cosTaylor(r float64) float64 {
	z, term, sum := float64(r*r), 1.0, 0.0
	var terms [9]float64
	for i := range terms {
		terms[i] = term
		term = -float64(term*z) / float64((2*i+1)*(2*i+2))
	}
	for i := len(terms) - 1; i >= 0; i-- { // small ones first
		sum += terms[i]
	}
	return sum
}

func sinTaylor(r float64) float64 {
	z, term, sum := float64(r*r), r, 0.0
	var terms [9]float64
	for i := range terms {
		terms[i] = term
		term = -float64(term*z) / float64((2*i+2)*(2*i+3))
	}
	for i := len(terms) - 1; i >= 0; i-- {
		sum += terms[i]
	}
	return sum
}

// PowInt is b^n for n >= 0 by squaring.
func PowInt(b float64, n int) float64 {
	r := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			r = float64(r * b)
		}
		b = float64(b * b)
	}
	return r
}

// BiasCorrection is AdamW's 1 / (1 - beta^t) for step t >= 1, computed in float64.
func BiasCorrection(beta float32, t int) float32 {
	return float32(1 / (1 - PowInt(float64(beta), t)))
}
