//go:build !js

package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// maxPoints is the most points of a drawn curve; longer runs show means of neighbouring steps.
const maxPoints = 600

// Losses beyond drawable, and differences below 1/drawable, are no curve any more.
const drawable = 1e30

// xy is a point of a curve: a step, counted from 1, and a loss.
type xy struct{ X, Y float64 }

// curves are the losses as they were, and smoothed by a moving mean. Losses that are not finite, or absurd, are left out.
func (r *Report) curves() (raw, smooth []xy) {
	bucket := (len(r.Loss) + maxPoints - 1) / maxPoints
	for lo := 0; lo < len(r.Loss); lo += bucket {
		sum, n := 0.0, 0
		for _, v := range r.Loss[lo:min(lo+bucket, len(r.Loss))] {
			if math.Abs(v) <= drawable {
				sum += v
				n++
			}
		}
		if n > 0 {
			raw = append(raw, xy{float64(lo+1) + float64(bucket-1)/2, sum / float64(n)})
		}
	}
	reach := len(raw) / 60
	for i := range raw {
		// As far to the left as to the right, so that the curve's ends stay in place.
		k := min(reach, i, len(raw)-1-i)
		sum := 0.0
		for _, p := range raw[i-k : i+k+1] {
			sum += p.Y
		}
		smooth = append(smooth, xy{raw[i].X, sum / float64(2*k+1)})
	}
	return raw, smooth
}

// A chart is the loss curve as the page draws it: paths in a square of 1000 by 1000, y downwards, and labels at percents
// of its sides, so that the curve stretches with the page and the labels do not.
type chart struct {
	Raw, Smooth string
	Dot         bool // there is but one point
	XTicks      []tick
	YTicks      []tick
}

type tick struct {
	At    float64 // percent from the left or from the top
	Label string
}

// chart is nil if there is nothing to draw.
func (r *Report) chart() *chart {
	raw, smooth := r.curves()
	if len(raw) == 0 {
		return nil
	}
	low, high := 0.0, 0.0
	for _, p := range raw {
		low, high = min(low, p.Y), max(high, p.Y)
	}
	if high-low < 1/drawable {
		high = low + 1
	}
	yTicks := ticks(low, high, 5)
	high = max(high, yTicks[len(yTicks)-1])
	x0, x1 := 1.0, max(2, float64(len(r.Loss)))
	across := func(x float64) float64 { return (x - x0) / (x1 - x0) }
	down := func(y float64) float64 { return (high - y) / (high - low) }

	c := &chart{Raw: path(raw, across, down), Smooth: path(smooth, across, down), Dot: len(raw) == 1}
	for _, x := range append([]float64{1}, ticks(1, x1, 5)...) {
		if x >= 1 && x <= x1 && x == math.Trunc(x) {
			c.XTicks = append(c.XTicks, tick{100 * across(x), tickLabel(x)})
		}
	}
	for _, y := range yTicks {
		c.YTicks = append(c.YTicks, tick{100 * down(y), tickLabel(y)})
	}
	return c
}

func tickLabel(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// path is an SVG path through points.
func path(points []xy, across, down func(float64) float64) string {
	var b strings.Builder
	verb := 'M'
	if len(points) == 1 {
		points = append(points, points[0]) // a line of no length: its round ends are a dot
	}
	for _, p := range points {
		fmt.Fprintf(&b, "%c%.1f %.1f", verb, 1000*across(p.X), 1000*down(p.Y))
		verb = 'L'
	}
	return b.String()
}

// ticks are about n round numbers from lo to hi, lo below hi, at multiples of 1, 2 or 5 times a power of ten. The last
// one may lie a little above hi.
func ticks(lo, hi float64, n int) []float64 {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/float64(n))))
	for _, k := range []float64{2, 2.5, 2} { // 2, 5, 10 times the power
		if (hi-lo)/step <= float64(n) {
			break
		}
		step *= k
	}
	var out []float64
	for i := math.Ceil(lo / step); len(out) <= n+2; i++ {
		if i*step > hi+step/2 {
			break
		}
		out = append(out, i*step)
	}
	if len(out) == 0 {
		out = []float64{lo, hi}
	}
	return out
}
