package data

import "math"

// A canvas holds, for each pixel, the squared distance to the nearest stroke. Distances are in 1/1024 of a pixel.
type canvas struct {
	width int
	near  []int64 // (width, width)
	pen   int64   // half the width of the strokes
	noise draws
}

const far = math.MaxInt64

func newCanvas(width int) *canvas {
	return &canvas{width: width, near: make([]int64, width*width)}
}

// clear wipes the canvas and gives it the key of its noise.
func (c *canvas) clear(key uint64) {
	for i := range c.near {
		c.near[i] = far
	}
	c.noise = draws{key: key}
}

// segment draws a straight piece from a to b, looking only at the pixels that it may touch.
func (c *canvas) segment(a, b point, pen int64) {
	d := point{b.x - a.x, b.y - a.y}
	length := root(d.x*d.x + d.y*d.y)
	var ux, uy int64 // unit vector in 1/65536
	if length > 0 {
		ux, uy = d.x<<16/length, d.y<<16/length
	}
	reach := pen + one/2
	x0, x1 := c.clip(min(a.x, b.x)-reach, max(a.x, b.x)+reach)
	y0, y1 := c.clip(min(a.y, b.y)-reach, max(a.y, b.y)+reach)
	for y := y0; y < y1; y++ {
		row := c.near[y*c.width : (y+1)*c.width]
		py := int64(y)*one + one/2 - a.y
		for x := x0; x < x1; x++ {
			px := int64(x)*one + one/2 - a.x
			row[x] = min(row[x], squared(px, py, ux, uy, length))
		}
	}
}

// squared is the squared distance of (x, y) from the segment that runs from the origin along the unit vector u.
func squared(x, y, ux, uy, length int64) int64 {
	along := (x*ux + y*uy) >> 16
	if along >= 0 && along <= length {
		across := (x*uy - y*ux) >> 16
		return across * across
	}
	if along > length {
		x, y = x-ux*length>>16, y-uy*length>>16
	}
	return x*x + y*y
}

// clip turns an interval of the geometry into the range of pixels, on the canvas, whose middles lie in it.
func (c *canvas) clip(lo, hi int64) (from, to int) {
	from = int(max(0, (lo+one/2)/one))
	to = int(min(int64(c.width), (hi+one/2)/one))
	return from, to
}

// develop turns distances into the normalised picture: covered pixels are white, a stroke's edge is one pixel of ramp,
// and noise lies over all.
func (c *canvas) develop(out []float32) {
	inner, outer := c.pen-one/2, c.pen+one/2
	for i, near := range c.near {
		var value int64
		switch {
		case near >= outer*outer:
		case inner > 0 && near <= inner*inner:
			value = white
		default:
			value = min(white, (outer-root(near))*(white/one))
		}
		value += c.noise.bell() * noise >> 16
		out[i] = normal(value)
	}
}

// normal turns a pixel's value into what training likes. Both numbers are exact in float32, so the quotient is one
// rounding.
func normal(value int64) float32 { return float32(value-mean) / spread }

// root is the integer square root of x, for x below 2^52: float64 holds x, and IEEE square roots are exact enough to
// round down to it.
func root(x int64) int64 { return int64(math.Sqrt(float64(x))) }
