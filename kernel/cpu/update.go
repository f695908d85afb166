package cpu

import (
	"math"
	"math/bits"

	"shoal/kernel"
	"shoal/kernel/ref"
)

func (o *ops) Quantize(acc, g kernel.Buffer, shift int) {
	as, gs := i32(acc), f32(g)
	a, b := powers(shift)
	o.crew.split(len(as), grainMedium, func(_, lo, hi int) { o.loops.quantize(as[lo:hi], gs[lo:hi], a, b) })
}

// powers are two factors whose product is 2^shift.
func powers(shift int) (a, b float32) {
	shift = min(max(shift, -252), 254)
	return math.Float32frombits(uint32(shift/2+127) << 23), math.Float32frombits(uint32(shift-shift/2+127) << 23)
}

// quantizeGeneric is ref.Quantum in a loop. Adding 1.5 * 2^52 rounds a float64 to an integer, which is then the low half
// of its pattern.
func quantizeGeneric(acc []int32, g []float32, a, b float32) {
	acc = acc[:len(g)]
	for i, x := range g {
		v := float32(x*a) * b
		if v > 1<<30 {
			v = 1 << 30
		}
		if v < -(1 << 30) {
			v = -(1 << 30)
		}
		if v != v {
			v = 0
		}
		acc[i] += int32(math.Float64bits(float64(v) + 0x1.8p52))
	}
}

func (o *ops) QuantizeStochastic(acc, g kernel.Buffer, shift int, key uint64) {
	as, gs := i32(acc), f32(g)
	a, b := powers(shift)
	o.crew.split(len(as), grainMedium, func(_, lo, hi int) {
		acc := as[lo:hi]
		for i, x := range gs[lo:hi] {
			v := float32(float32(x*a) * b)
			v = min(max(v, -(1<<30)), 1<<30) // NaN stays
			if v != v {
				v = 0
			}
			q := int32(v) // towards 0
			if float32(q) > v {
				q--
			}
			fraction := v - float32(q)
			if float32(fraction*(1<<24)) > float32(ref.RandomBits(key, lo+i)) {
				q++
			}
			acc[i] += q
		}
	})
}

func (o *ops) AddI32(acc, x kernel.Buffer) {
	as, xs := i32(acc), i32(x)
	o.crew.split(len(as), grainLight, func(_, lo, hi int) { o.loops.addI32(as[lo:hi], xs[lo:hi]) })
}

func addI32Generic(a, x []int32) {
	a = a[:len(x)]
	for i, v := range x {
		a[i] += v
	}
}

// SumSquares adds up the pieces' 128-bit sums.
func (o *ops) SumSquares(dst, x kernel.Buffer) {
	for w := range o.scratch {
		o.scratch[w].square = [2]uint64{}
	}
	xs := i32(x)
	o.crew.split(len(xs), grainLight, func(w, lo, hi int) {
		s := &o.scratch[w].square
		low, high := o.loops.sumSquares(xs[lo:hi])
		var carry uint64
		s[0], carry = bits.Add64(s[0], low, 0)
		s[1] += high + carry
	})
	var l, h, carry uint64
	for w := range o.scratch {
		l, carry = bits.Add64(l, o.scratch[w].square[0], 0)
		h += o.scratch[w].square[1] + carry
	}
	d := i32(dst)
	d[0], d[1], d[2], d[3] = int32(l), int32(l>>32), int32(h), int32(h>>32)
}

func sumSquaresGeneric(x []int32) (low, high uint64) {
	for _, v := range x {
		var carry uint64
		low, carry = bits.Add64(low, uint64(int64(v)*int64(v)), 0)
		high += carry
	}
	return low, high
}

// adamScalars are Scale, Beta1, 1-Beta1, Beta2, 1-Beta2, Decay, LR, C1, C2, Eps.
type adamScalars [10]float32

func (o *ops) AdamW(p, m, v, q kernel.Buffer, h kernel.AdamW) {
	ps, ms, vs := f32(p), f32(m), f32(v)
	s := &adamScalars{h.Scale, h.Beta1, 1 - h.Beta1, h.Beta2, 1 - h.Beta2, h.Decay, h.LR, h.C1, h.C2, h.Eps}
	if q.Mem.DType() == kernel.F32 {
		sums := f32(q)
		o.crew.split(len(ps), grainMedium, func(_, lo, hi int) { adamWGeneric(ps[lo:hi], ms[lo:hi], vs[lo:hi], sums[lo:hi], s) })
		return
	}
	qs := i32(q)
	o.crew.split(len(ps), grainMedium, func(_, lo, hi int) { o.loops.adamW(ps[lo:hi], ms[lo:hi], vs[lo:hi], qs[lo:hi], s) })
}

// adamWGeneric is ref.AdamW in a loop.
func adamWGeneric[T int32 | float32](p, m, v []float32, q []T, h *adamScalars) {
	m, v, q = m[:len(p)], v[:len(p)], q[:len(p)]
	scale, b1, a1, b2, a2, decay, lr, c1, c2, eps := h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7], h[8], h[9]
	for i, x := range p {
		g := float32(float32(q[i]) * scale)
		mi := float32(b1*m[i]) + float32(a1*g)
		vi := float32(b2*v[i]) + float32(a2*float32(g*g))
		m[i], v[i] = mi, vi
		x -= float32(decay * x)
		p[i] = x - float32(lr*float32(mi*c1))/(ref.Sqrt(float32(vi*c2))+eps)
	}
}
