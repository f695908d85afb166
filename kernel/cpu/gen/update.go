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
	least, most, zero := s.constant(f(-1<<30)), s.constant(f(1<<30)), s.constant(f(0))
	s.row(p[2], func(m *mask) {
		v := s.mul(s.mul(s.load(s.at(p[1]), m), a), b)
		v = s.above(s.below(v, most), least)
		v = s.where(v, ordered, v, v, zero)
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

func (s *set) addI32() {
	p := s.begin("addI32", "(a, x *int32, n int)", "a += x, wrapping.", "a", "x", "n")
	s.row(p[2], func(m *mask) {
		s.store(s.each(VPADDD, s.load(s.at(p[0]), m), s.load(s.at(p[1]), m)), s.at(p[0]), m)
	})
	s.end()
}

// Squares of two neighbours add up to at most 2^63. Eight sums of those wrap; the sums of their upper halves don't, for
// fewer than 2^32 elements. Both together say what the sums would be without wrapping.
func (s *set) sumSquares() {
	p := s.begin("sumSquares", "(sums *[16]uint64, x *int32, n int)",
		"sums of x*x in 8 lanes, wrapping, and the sums of the upper halves of what was added to them.", "sums", "x", "n")
	all, upper := s.zeros(), s.zeros()
	s.row(p[2], func(m *mask) {
		x := s.load(s.at(p[1]), m)
		odd := s.shift(VPSRLQ, 32, x)
		pair := s.each(VPADDQ, s.each(VPMULDQ, x, x), s.each(VPMULDQ, odd, odd))
		high := s.shift(VPSRLQ, 32, pair)
		for h := range all {
			VPADDQ(pair[h], all[h], all[h])
			VPADDQ(high[h], upper[h], upper[h])
		}
	})
	s.store(all, Mem{Base: p[0]}, nil)
	s.store(upper, Mem{Base: p[0], Disp: 64}, nil)
	s.end()
}

func (s *set) toBF16() {
	p := s.begin("toBF16", "(y *uint16, x *float32, n int)", "y = x rounded to nearest even, NaN as 0x7fc0; n > 0 is a multiple of 16.",
		"y", "x", "n")
	nan := s.constant(i(0x7fc0 << 16))
	s.wholes(p[2], func() {
		x := s.load(s.at(p[1]), nil)
		even := s.shift(VPSLLD, 31, s.shift(VPSRLD, 16, x))
		r := s.each(VPADDD, s.each(VPADDD, x, i(0x7fff)), s.shift(VPSRLD, 31, even))
		r = s.shift(VPSRLD, 16, s.where(x, unordered, x, nan, r))
		y := YMM()
		if s.zmm {
			VPMOVDW(r[0], y)
		} else {
			VPACKUSDW(r[1], r[0], y)
			VPERMQ(Imm(0b11011000), y, y)
		}
		VMOVDQU(y, Mem{Base: p[0]})
		ADDQ(Imm(32), p[0])
	})
	s.end()
}

func (s *set) fromBF16() {
	p := s.begin("fromBF16", "(y *float32, x *uint16, n int)", "y = x as float32; n > 0 is a multiple of 16.", "y", "x", "n")
	s.wholes(p[2], func() {
		x := s.vec()
		for h := range x {
			VPMOVZXWD(Mem{Base: p[1], Disp: 16 * h}, x[h])
		}
		s.store(s.shift(VPSLLD, 16, x), s.at(p[0]), nil)
		ADDQ(Imm(32), p[1])
	})
	s.end()
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
