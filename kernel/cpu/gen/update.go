package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

func (s *set) and(x vector, m Mem) vector {
	if s.zmm {
		return s.each(VPANDD, x, m)
	}
	return s.each(func(o ...Op) { VPAND(o[0], o[1], o[2]) }, x, m)
}

func (s *set) maxAbs() {
	p := s.begin("maxAbs", "(x *float32, n int) uint32", "the greatest pattern of |x|, 0 for none.", "x", "n")
	acc := s.zeros()
	s.row(p[1], func(m *mask) {
		x := s.and(s.load(s.at(p[0]), m), i(math.MaxInt32))
		for h := range acc {
			VPMAXUD(x[h], acc[h], acc[h])
		}
	})
	top, result := s.fold(acc, func(high, low, to Op) { VPMAXUD(high, low, to) }), GP32()
	VMOVD(top, result)
	Store(result, ReturnIndex(0))
	s.end()
}

func (s *set) quantize() {
	p := s.begin("quantize", "(acc *int32, x *float32, n int, a, b float32)",
		"acc += x*a*b, rounded to nearest even, clamped to +-2^30, 0 for NaN.", "acc", "x", "n")
	a, b := s.param("a"), s.param("b")
	least, most := s.constant(f(-1<<30)), s.constant(f(1<<30))
	s.row(p[2], func(m *mask) {
		v := s.mul(s.mul(s.load(s.at(p[1]), m), a), b)
		v = s.orZero(s.above(s.below(v, most), least))
		sum := s.vec()
		old := s.load(s.at(p[0]), m)
		for h := range v {
			VCVTPS2DQ(v[h], sum[h])
			VPADDD(old[h], sum[h], sum[h])
		}
		s.store(sum, s.at(p[0]), m)
	})
	s.end()
}

// orZero is x, and 0 where it is NaN.
func (s *set) orZero(x vector) vector {
	const ordered = 7
	v := s.vec()
	for h := range v {
		if s.zmm {
			k := K()
			VCMPPS(Imm(ordered), x[h], x[h], k)
			VMOVUPS_Z(x[h], k, v[h])
		} else {
			VCMPPS(Imm(ordered), x[h], x[h], v[h])
			VANDPS(x[h], v[h], v[h])
		}
	}
	return v
}

func (s *set) adamW() {
	r := s.begin("adamW", "(p, m, v *float32, q *int32, n int, h *float32)", "h are the scalars in the order of adamScalars.",
		"p", "m", "v", "q", "n", "h")
	p, m, v, q, h := r[0], r[1], r[2], r[3], r[5]
	scalar := func(i int) vector { return s.spread(Mem{Base: h, Disp: 4 * i}) }
	s.row(r[4], func(k *mask) {
		g := s.vec()
		for h, x := range s.load(s.at(q), k) {
			VCVTDQ2PS(x, g[h])
		}
		g = s.mul(g, scalar(0))
		mi := s.plus(s.mul(s.load(s.at(m), k), scalar(1)), s.mul(g, scalar(2)))
		s.store(mi, s.at(m), k)
		vi := s.plus(s.mul(s.load(s.at(v), k), scalar(3)), s.mul(s.mul(g, g), scalar(4)))
		s.store(vi, s.at(v), k)
		x := s.load(s.at(p), k)
		x = s.sub(x, s.mul(x, scalar(5)))
		root := s.mul(vi, scalar(8))
		for h := range root {
			VSQRTPS(root[h], root[h])
		}
		step := s.mul(s.mul(mi, scalar(7)), scalar(6))
		s.store(s.sub(x, s.div(step, s.plus(root, scalar(9)))), s.at(p), k)
	})
	s.end()
}
