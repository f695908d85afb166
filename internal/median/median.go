// Package median is the median.
package median

import (
	"math"
	"slices"
)

// Of is the median of x, of an even number of values the mean of the two in the middle, of none NaN. x stays as it is.
func Of(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
