package cpu

import (
	"math"
	"math/bits"

	"shoal/kernel"
	"shoal/kernel/ref"
)

type quantize struct {
	*ops
	acc  []int32
	g    []float32
	a, b float32 // factors of g
}

func (o *ops) Quantize(acc, g kernel.Buffer, shift int) {
	a, b := powers(shift)
	run(o, &o.args.quantize, quantize{o, i32(acc), f32(g), a, b}, acc.Len, grainMedium)
}

func (q *quantize) do(_, lo, hi int) { q.loops.quantize(q.acc[lo:hi], q.g[lo:hi], q.a, q.b) }

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

type stochastic struct {
	acc  []int32
	g    []float32
	a, b float32 // factors of g
	key  uint64
}

func (o *ops) QuantizeStochastic(acc, g kernel.Buffer, shift int, key uint64) {
	a, b := powers(shift)
	run(o, &o.args.stochastic, stochastic{i32(acc), f32(g), a, b, key}, acc.Len, grainMedium)
}

func (s *stochastic) do(_, lo, hi int) {
	acc, a, b, key := s.acc[lo:hi], s.a, s.b, s.key
	for i, x := range s.g[lo:hi] {
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
}

func addI32Generic(a, x []int32) {
	a = a[:len(x)]
	for i, v := range x {
		a[i] += v
	}
}

type squares struct {
	*ops
	x []int32
}

// squareSum is what a worker has of a sum of squares.
type squareSum struct {
	low, high uint64
	lanes     [16]uint64 // of a loop that adds several at once
}

func (s *squareSum) add(low, high uint64) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, low, 0)
	s.high += high + carry
}

// SumSquares adds up the pieces' 128-bit sums.
func (o *ops) SumSquares(dst, x kernel.Buffer) {
	for w := range o.scratch {
		o.scratch[w].square = squareSum{}
	}
	run(o, &o.args.squares, squares{o, i32(x)}, x.Len, grainLight)
	var sum squareSum
	for w := range o.scratch {
		sum.add(o.scratch[w].square.low, o.scratch[w].square.high)
	}
	d := i32(dst)
	d[0], d[1], d[2], d[3] = int32(sum.low), int32(sum.low>>32), int32(sum.high), int32(sum.high>>32)
}

func (a *squares) do(w, lo, hi int) {
	s := &a.scratch[w].square
	s.add(a.loops.sumSquares(a.x[lo:hi], &s.lanes))
}

func sumSquaresGeneric(x []int32, _ *[16]uint64) (low, high uint64) {
	for _, v := range x {
		var carry uint64
		low, carry = bits.Add64(low, uint64(int64(v)*int64(v)), 0)
		high += carry
	}
	return low, high
}

// adamScalars are Scale, Beta1, 1-Beta1, Beta2, 1-Beta2, Decay, LR, C1, C2, Eps.
type adamScalars [10]float32

type adamW struct {
	*ops
	p, m, v []float32
	q       []int32
	sums    []float32 // in place of q, if the gradient is float
	h       adamScalars
}

func (o *ops) AdamW(p, m, v, q kernel.Buffer, h kernel.AdamW) {
	a := adamW{ops: o, p: f32(p), m: f32(m), v: f32(v),
		h: adamScalars{h.Scale, h.Beta1, 1 - h.Beta1, h.Beta2, 1 - h.Beta2, h.Decay, h.LR, h.C1, h.C2, h.Eps}}
	if q.Mem.DType() == kernel.F32 {
		a.sums = f32(q)
	} else {
		a.q = i32(q)
	}
	run(o, &o.args.adamW, a, p.Len, grainMedium)
}

func (a *adamW) do(_, lo, hi int) {
	if a.sums != nil {
		adamWGeneric(a.p[lo:hi], a.m[lo:hi], a.v[lo:hi], a.sums[lo:hi], &a.h)
		return
	}
	a.loops.adamW(a.p[lo:hi], a.m[lo:hi], a.v[lo:hi], a.q[lo:hi], &a.h)
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
