package ref

import (
	"math"
	"testing"
)

// ulps is the distance of got from want in units of the last place of float32 at want.
func ulps(got float32, want float64) float64 {
	_, e := math.Frexp(want)
	return math.Abs(float64(got)-want) / math.Ldexp(1, max(e-24, -149))
}

func TestExp(t *testing.T) {
	worst := 0.0
	for i := range 2_000_000 {
		x := float32(-104 + float64(i)*(192.7/2e6))
		worst = max(worst, ulps(Exp(x), math.Exp(float64(x))))
	}
	if worst > 1.5 {
		t.Errorf("Exp is off by up to %.3f ulp", worst)
	}
	for _, c := range [][2]float64{{0, 1}, {math.Inf(-1), 0}, {math.Inf(1), math.Inf(1)}, {88.73, math.Inf(1)},
		{-104, 0}, {1e30, math.Inf(1)}, {-1e30, 0}, {1e-30, 1}} {
		if got := Exp(float32(c[0])); float64(got) != c[1] {
			t.Errorf("Exp(%v) = %v, want %v", c[0], got, c[1])
		}
	}
	if x := Exp(float32(math.NaN())); x == x {
		t.Errorf("Exp(NaN) = %v", x)
	}
}

func TestLog(t *testing.T) {
	worst := 0.0
	for i := uint32(1); i < 0x7f800000; i += 997 {
		x := math.Float32frombits(i)
		worst = max(worst, ulps(Log(x), math.Log(float64(x))))
	}
	if worst > 1.5 {
		t.Errorf("Log is off by up to %.3f ulp", worst)
	}
	for _, c := range [][2]float64{{0, math.Inf(-1)}, {1, 0}, {math.Inf(1), math.Inf(1)}} {
		if got := Log(float32(c[0])); float64(got) != c[1] {
			t.Errorf("Log(%v) = %v, want %v", c[0], got, c[1])
		}
	}
	for _, x := range []float32{-1, -0x1p-149, float32(math.NaN()), negInf} {
		if y := Log(x); y == y {
			t.Errorf("Log(%v) = %v, want NaN", x, y)
		}
	}
}

func TestGELU(t *testing.T) {
	for x := float32(-12); x < 12; x += 0.003 {
		g := func(x float64) float64 {
			return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		}
		want := g(float64(x))
		if got := float64(GELU(x)); math.Abs(got-want) > 2e-6*(math.Abs(want)+1e-3) {
			t.Fatalf("GELU(%v) = %v, want %v", x, got, want)
		}
		slope := (g(float64(x)+1e-5) - g(float64(x)-1e-5)) / 2e-5
		if got := float64(GELUBackward(x, 1)); math.Abs(got-slope) > 1e-6 {
			t.Fatalf("GELUBackward(%v, 1) = %v, want %v", x, got, slope)
		}
	}
	for _, x := range []float32{20, 1e10, math.MaxFloat32} {
		if GELU(x) != x || GELUBackward(x, 3) != 3 || GELU(-x) != 0 || math.Abs(float64(GELUBackward(-x, 3))) > 1e-34 {
			t.Errorf("GELU at +-%v: %v %v %v %v", x, GELU(x), GELUBackward(x, 3), GELU(-x), GELUBackward(-x, 3))
		}
	}
}

func TestCos64(t *testing.T) {
	for x := -20.0; x < 20; x += 0.001 {
		if d := math.Abs(Cos64(x) - math.Cos(x)); d > 1e-15 {
			t.Fatalf("Cos64(%v) is off by %g", x, d)
		}
	}
	if Cos64(0) != 1 || Cos64(math.Pi) != -1 || !math.IsNaN(Cos64(math.Inf(1))) || !math.IsNaN(Cos64(math.NaN())) {
		t.Errorf("Cos64: 0 -> %v, pi -> %v, inf -> %v", Cos64(0), Cos64(math.Pi), Cos64(math.Inf(1)))
	}
}

func TestBiasCorrection(t *testing.T) {
	for _, step := range []int{1, 2, 3, 10, 1000, 1 << 40} {
		want := 1 / (1 - math.Pow(float64(float32(0.999)), float64(step)))
		if got := BiasCorrection(0.999, step); ulps(got, want) > 0.51 {
			t.Errorf("BiasCorrection(0.999, %d) = %v, want %v", step, got, want)
		}
	}
}
