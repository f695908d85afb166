package ref

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exactFMA is a*b + c by math/big; the result's sign of an exact zero follows IEEE 754.
func exactFMA(a, b, c float32) float32 {
	p, f := float64(a)*float64(b), float64(c)
	if math.IsNaN(p+f) || math.IsInf(p+f, 0) || p == 0 || c == 0 {
		if p != 0 && c == 0 { // p alone, exact in float64
			return float32(p)
		}
		return float32(p + f) // special or one summand is 0: exact in float64
	}
	s := new(big.Float).SetPrec(2000).SetFloat64(p)
	s.Add(s, new(big.Float).SetFloat64(f))
	if s.Sign() == 0 {
		return float32(p + f)
	}
	r, _ := s.Float32()
	return r
}

func sameBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || (a != a && b != b)
}

var specials = []float32{0, float32(math.Copysign(0, -1)), 1, -1, 0x1p-149, -0x1p-149, 0x1.fffffcp-127, 0x1p-126,
	math.MaxFloat32, -math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 0x1p-75,
	0x1.8p-75, 1 + 0x1p-23, 1 - 0x1p-24, 0x1p63, 0x1p64, 3}

func TestFMAAgainstBig(t *testing.T) {
	check := func(a, b, c float32) {
		t.Helper()
		if got, want := FMA(a, b, c), exactFMA(a, b, c); !sameBits(got, want) {
			t.Fatalf("FMA(%x, %x, %x) = %x, want %x", a, b, c, got, want)
		}
	}
	for _, a := range specials {
		for _, b := range specials {
			for _, c := range specials {
				check(a, b, c)
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	any32 := func() float32 { return math.Float32frombits(r.Uint32()) }
	// near is a float32 whose exponent is about e, so that sums interact.
	near := func(e int) float32 {
		return math.Float32frombits(uint32(min(max(e, 0), 254))<<23 | r.Uint32()&0x807fffff)
	}
	for range 100_000 {
		check(any32(), any32(), any32())
		e := r.IntN(255)
		check(near(127), near(e), near(e+r.IntN(60)-30))       // normal, and subnormal for small e
		check(near(100), near(r.IntN(60)), near(r.IntN(40)-8)) // products far into the subnormal range
	}
}

// Ties: c is a float32 and a*b half a unit of its last place, plus or minus something far below float64's precision.
func TestFMATies(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		c := math.Float32frombits(uint32(64+r.IntN(126))<<23 | r.Uint32()&0x807fffff)
		_, e := math.Frexp(float64(c))
		half := math.Ldexp(1, e-25)
		// (1 + u)(1 - u) = 1 - u^2 and (1 + u)^2: close to half, never exactly.
		u := math.Ldexp(1, -1-r.IntN(23))
		a, b := float32(half*(1+u)), float32(1-u)
		if r.IntN(3) == 0 {
			b = float32(1 + u)
		}
		if r.IntN(3) == 0 {
			a, b = float32(half), 1 // an exact tie
		}
		if got, want := FMA(a, b, c), exactFMA(a, b, c); !sameBits(got, want) {
			t.Fatalf("FMA(%x, %x, %x) = %x, want %x", a, b, c, got, want)
		}
	}
}
