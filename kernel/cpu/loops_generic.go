package cpu

import (
	"math"

	"shoal/kernel/cpu/internal/coeff"
)

// Plain Go for the elementwise loops. GELU works in three passes over blocks that stay in the first cache, so that the
// exponential, whose chain of operations is long, exists once.

var loopsGeneric = loops{
	add: addGeneric, scale: scaleGeneric, relu: reluGeneric, reluBackward: reluBackwardGeneric,
	sumColumns: sumColumnsGeneric, gelu: geluGeneric, geluBackward: geluBackwardGeneric,
	softmax: softmaxGeneric, softmaxBackward: softmaxBackwardGeneric, divideRows: divideRowsGeneric, dotRows: dotRowsGeneric,
	layerNorm: layerNormGeneric, layerNormBackward: layerNormBackwardGeneric, normColumns: normColumnsGeneric,
	maxAbs: maxAbsGeneric, quantize: quantizeGeneric, addI32: addI32Generic, sumSquares: sumSquaresGeneric, adamW: adamWGeneric[int32],
	toBF16: toBF16Generic, fromBF16: fromBF16Generic,
}

// expGeneric is ref.Exp in a loop.
func expGeneric(e, x []float32, sub float32) {
	e = e[:len(x)]
	for i, v := range x {
		v -= sub
		if v > coeff.ExpMax {
			v = coeff.ExpMax
		}
		if v < coeff.ExpMin {
			v = coeff.ExpMin
		}
		t := float32(v*coeff.Log2e) + coeff.RoundBit
		n := t - coeff.RoundBit
		r := (v - float32(n*coeff.Ln2Hi)) - float32(n*coeff.Ln2Lo)
		q := float32(coeff.Exp6*r) + coeff.Exp5
		q = float32(q*r) + coeff.Exp4
		q = float32(q*r) + coeff.Exp3
		q = float32(q*r) + coeff.Exp2
		y := (float32(q*float32(r*r)) + r) + 1
		k := int32(math.Float32bits(t)) - 0x4b400000
		half := k >> 1
		e[i] = float32(y*math.Float32frombits(uint32(half+127)<<23)) * math.Float32frombits(uint32(k-half+127)<<23)
	}
}

const block = 256

func geluGeneric(y, x []float32) {
	var buf [block]float32
	for len(x) > 0 {
		n := min(block, len(x))
		xs, ys, e := x[:n], y[:n], buf[:n]
		for i, v := range xs {
			e[i] = -float32(v * (float32(coeff.GeluB*float32(v*v)) + coeff.GeluA))
		}
		expGeneric(e, e, 0)
		for i, v := range xs {
			ys[i] = v / (1 + e[i])
		}
		x, y = x[n:], y[n:]
	}
}

func geluBackwardGeneric(dx, x, dy []float32) {
	var buf [block]float32
	clamp := func(v float32) float32 {
		if v > coeff.GeluX {
			v = coeff.GeluX
		}
		if v < -coeff.GeluX {
			v = -coeff.GeluX
		}
		return v
	}
	for len(x) > 0 {
		n := min(block, len(x))
		xs, dys, dxs, e := x[:n], dy[:n], dx[:n], buf[:n]
		for i, v := range xs {
			v = clamp(v)
			e[i] = -float32(v * (float32(coeff.GeluB*float32(v*v)) + coeff.GeluA))
		}
		expGeneric(e, e, 0)
		for i, v := range xs {
			v = clamp(v)
			s := 1 / (1 + e[i])
			slope := float32(coeff.GeluC*float32(v*v)) + coeff.GeluA
			d := 1 + float32(float32(v*float32(e[i]*s))*slope)
			dxs[i] = dys[i] * float32(s*d)
		}
		x, dy, dx = x[n:], dy[n:], dx[n:]
	}
}

func addGeneric(y, a, b []float32) {
	for len(y) >= 8 && len(a) >= 8 && len(b) >= 8 {
		y[0], y[1], y[2], y[3] = a[0]+b[0], a[1]+b[1], a[2]+b[2], a[3]+b[3]
		y[4], y[5], y[6], y[7] = a[4]+b[4], a[5]+b[5], a[6]+b[6], a[7]+b[7]
		y, a, b = y[8:], a[8:], b[8:]
	}
	for i := range y {
		y[i] = a[i] + b[i]
	}
}

func sumColumnsGeneric(t, x []float32, stride, count int) {
	for len(t) >= 8 && count > 0 {
		var a, b, c, d, e, f, g, h float32
		for i, at := 0, 0; i < count; i, at = i+1, at+stride {
			r := x[at : at+8 : at+8]
			a, b, c, d = a+r[0], b+r[1], c+r[2], d+r[3]
			e, f, g, h = e+r[4], f+r[5], g+r[6], h+r[7]
		}
		t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7] = a, b, c, d, e, f, g, h
		t, x = t[8:], x[8:]
	}
	for j := range t {
		var a float32
		for i := range count {
			a += x[i*stride+j]
		}
		t[j] = a
	}
}

func scaleGeneric(y, x []float32, by float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = v * by
	}
}

func reluGeneric(y, x []float32) {
	y = y[:len(x)]
	for i, v := range x {
		if !(v > 0 || v != v) {
			v = 0
		}
		y[i] = v
	}
}

func reluBackwardGeneric(dx, x, dy []float32) {
	dx, dy = dx[:len(x)], dy[:len(x)]
	for i, v := range x {
		d := dy[i]
		if !(v > 0) {
			d = 0
		}
		dx[i] = d
	}
}

func toBF16Generic(y []uint16, x []float32) {
	y = y[:len(x)]
	for i, v := range x {
		u := math.Float32bits(v)
		r := uint16((u + 0x7fff + u>>16&1) >> 16)
		if v != v {
			r = 0x7fc0
		}
		y[i] = r
	}
}

func fromBF16Generic(y []float32, x []uint16) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] = math.Float32frombits(uint32(v) << 16)
	}
}
