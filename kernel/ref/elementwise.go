package ref

import "math"

// GELU in its tanh form is x * sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3), since (1 + tanh u)/2 = sigmoid(2u).
const (
	geluA = 1.5957691216057308 // 2 sqrt(2/pi)
	geluB = 0.044715 * geluA   // 2u = x (geluA + geluB x^2)
	geluC = 3 * geluB          // d(2u)/dx = geluA + geluC x^2
	geluX = float32(10)        // beyond +-10 the derivative is that at +-10: 1, or less than 3e-36
)

// GELU is one element of the op.
func GELU(x float32) float32 {
	v := float32(x * (float32(geluB*float32(x*x)) + geluA))
	return x / (1 + Exp(-v))
}

// GELUBackward is dy * gelu'(x), gelu' = s (1 + x (1-s) d(2u)/dx), s = 1/(1+e), 1-s = e s, e = exp(-2u).
func GELUBackward(x, dy float32) float32 {
	if x > geluX {
		x = geluX
	}
	if x < -geluX {
		x = -geluX
	}
	sq := float32(x * x)
	e := Exp(-float32(x * (float32(geluB*sq) + geluA)))
	s := 1 / (1 + e)
	slope := float32(geluC*sq) + geluA
	d := 1 + float32(float32(x*float32(e*s))*slope)
	return dy * float32(s*d)
}

// ReLU is max(x, 0); NaN stays, -0 becomes +0.
func ReLU(x float32) float32 {
	if x > 0 || x != x {
		return x
	}
	return 0
}

// ReLUBackward is dy where x > 0, else 0.
func ReLUBackward(x, dy float32) float32 {
	if x > 0 {
		return dy
	}
	return 0
}

// ToBF16 rounds to the nearest bfloat16, ties to even. Every NaN becomes 0x7fc0.
func ToBF16(x float32) uint16 {
	u := math.Float32bits(x)
	if x != x {
		return 0x7fc0
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// FromBF16 is exact.
func FromBF16(x uint16) float32 { return math.Float32frombits(uint32(x) << 16) }
