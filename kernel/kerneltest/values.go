package kerneltest

import (
	"math"
	"math/rand/v2"
)

// kinds of float values. The special ones are mixed into normal ones, so that rows have both.
type valueKind int

const (
	plain   valueKind = iota // standard normal
	wide                     // any finite magnitude, subnormals and zeros of both signs
	special                  // mostly plain, some infinities, NaN, subnormals, zeros
)

var kindNames = [...]string{"plain", "wide", "special"}

func (k valueKind) String() string { return kindNames[k] }

var oddities = []float32{0, float32(math.Copysign(0, -1)), 0x1p-149, -0x1p-149, 0x1p-127, -0x1.8p-130, math.MaxFloat32,
	-math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}

func floats(r *rand.Rand, k valueKind, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		switch {
		case k == wide:
			x[i] = math.Float32frombits(uint32(r.IntN(255))<<23 | r.Uint32()&0x807fffff)
			if r.IntN(4) == 0 {
				x[i] = oddities[r.IntN(6)]
			}
		case k == special && r.IntN(12) == 0:
			x[i] = oddities[r.IntN(len(oddities))]
		default:
			x[i] = float32(r.NormFloat64())
		}
	}
	return x
}

// positive values: magnitudes, for variances and denominators.
func positive(r *rand.Rand, k valueKind, n int) []float32 {
	x := floats(r, k, n)
	for i := range x {
		x[i] = float32(math.Abs(float64(x[i])))
	}
	return x
}

// below are values in [lo, hi).
func below(r *rand.Rand, lo, hi, n int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(lo + r.IntN(hi-lo))
	}
	return x
}

// words are any int32, the extremes among them.
func words(r *rand.Rand, n int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(r.Uint32()) >> r.IntN(32)
		if r.IntN(16) == 0 {
			x[i] = math.MinInt32
		}
	}
	return x
}
