package median

import (
	"math"
	"slices"
	"testing"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{{[]float64{5}, 5}, {[]float64{3, 1}, 2}, {[]float64{9, 1, 4}, 4}, {[]float64{4, 8, 1, 2}, 3}} {
		before := slices.Clone(c.x)
		if got := Of(c.x); got != c.want || !slices.Equal(c.x, before) {
			t.Errorf("%v: %v, want %v of the same values in the same order, not %v", before, got, c.want, c.x)
		}
	}
	if got := Of(nil); !math.IsNaN(got) {
		t.Errorf("of nothing: %v", got)
	}
}
