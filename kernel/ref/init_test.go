package ref

import (
	"math"
	"testing"
)

// SplitMix64's published first outputs for seed 1234567 pin the generator.
func TestCounterIsSplitMix64(t *testing.T) {
	want := []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431}
	for i, w := range want {
		if got := Counter(1234567, uint64(i)); got != w {
			t.Errorf("Counter(1234567, %d) = %d, want %d", i, got, w)
		}
	}
}

func TestHash64SeparatesNamesAndSeeds(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range uint64(50) {
		for _, name := range []string{"", "a", "b", "ab", "block.0.w", "block.1.w"} {
			seen[Hash64(seed, name)] = true
		}
	}
	if len(seen) != 50*6 {
		t.Errorf("%d different keys of 300", len(seen))
	}
}

func moments(x []float32) (mean, std, top float64) {
	for _, v := range x {
		mean += float64(v) / float64(len(x))
		top = max(top, math.Abs(float64(v)))
	}
	for _, v := range x {
		std += (float64(v) - mean) * (float64(v) - mean) / float64(len(x))
	}
	return mean, math.Sqrt(std), top
}

func TestFill(t *testing.T) {
	const n = 200_000
	x := make([]float32, n)
	FillNormal(x, 7, 0, 0.02)
	if mean, std, top := moments(x); math.Abs(mean) > 2e-4 || math.Abs(std-0.02) > 2e-4 || top > 3.47*0.02 || top < 0.06 {
		t.Errorf("normal: mean %g, std %g, top %g", mean, std, top)
	}
	part := make([]float32, 100)
	FillNormal(part, 7, 555, 0.02)
	for i := range part {
		if part[i] != x[555+i] {
			t.Fatalf("value %d depends on the interval", 555+i)
		}
	}
	FillUniform(x, 7, 0, 0.5)
	if mean, std, top := moments(x); math.Abs(mean) > 2e-3 || math.Abs(std-0.5/math.Sqrt(3)) > 2e-3 || top > 0.5 || top < 0.499 {
		t.Errorf("uniform: mean %g, std %g, top %g", mean, std, top)
	}
}
