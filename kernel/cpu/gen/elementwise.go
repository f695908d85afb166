package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	"shoal/kernel/cpu/internal/coeff"
)

// expOf is e^x.
func (s *set) expOf(x, lo, hi vector) vector { return s.expBelow(s.below(x, hi), lo) }

// expBelow is e^x of what is not above the upper limit.
func (s *set) expBelow(x, lo vector) vector { return s.exp(s.above(x, lo)) }

// exp is e^x of what is within the limits. With AVX-512, which multiplies by any 2^n, it is also right below the lower one but for
// some numbers below -2^47, of which it makes +Inf. x is used up.
func (s *set) exp(x vector) vector {
	n, timesPow2 := s.nearest(s.mul(x, f(coeff.Log2e)))
	r := s.sub(s.minusProduct(x, n, f(coeff.Ln2Hi)), s.mul(n, f(coeff.Ln2Lo)))
	q := s.plus(s.mul(r, f(coeff.Exp6)), f(coeff.Exp5))
	for _, c := range []float64{coeff.Exp4, coeff.Exp3, coeff.Exp2} {
		q = s.plus(s.mul(q, r), f(c))
	}
	for h := range q { // one by one, so that fewer registers are in use at a time
		square := s.registers(1)[0]
		VMULPS(r[h], r[h], square)
		VMULPS(square, q[h], q[h])
	}
	return timesPow2(s.plus(s.plus(q, r), f(1)))
}

// nearest is n = x rounded to the nearest even integer, and multiplies by 2^n. AVX-512 has an instruction for each: the first
// may give -0 where plain Go has +0, which changes no product and no sum here; the second rounds once, as Go's second factor.
func (s *set) nearest(x vector) (n vector, timesPow2 func(y vector) vector) {
	if s.zmm {
		const evenQuiet = 8
		n = s.registers(len(x))
		for h := range n {
			VRNDSCALEPS(Imm(evenQuiet), x[h], n[h])
		}
		return n, func(y vector) vector { return s.each(VSCALEFPS, y, n) }
	}
	t := s.plus(x, f(coeff.RoundBit))
	return s.sub(t, f(coeff.RoundBit)), func(y vector) vector {
		k := s.each(VPSUBD, t, i(int32(math.Float32bits(coeff.RoundBit))))
		half := s.shift(VPSRAD, 1, k)
		rest := s.each(VPSUBD, k, half)
		return s.mul(s.mul(y, s.pow2(half)), s.pow2(rest))
	}
}

// limits are the bounds of the exponential's argument.
func (s *set) limits() (lo, hi vector) {
	return s.constant(f(coeff.ExpMin)), s.constant(f(coeff.ExpMax))
}

func (s *set) pow2(k vector) vector { return s.shift(VPSLLD, 23, s.each(VPADDD, k, i(127))) }

func (s *set) shift(op func(...Op), bits uint64, x vector) vector {
	v := s.registers(len(x))
	for h := range v {
		op(Imm(bits), x[h], v[h])
	}
	return v
}

// minusU2 is -2u of GELU, and x^2.
func (s *set) minusU2(x vector) (v, sq vector) {
	sq = s.mul(x, x)
	return s.negate(s.mul(x, s.plus(s.mul(sq, f(coeff.GeluB)), f(coeff.GeluA)))), sq
}

func (s *set) add() {
	p := s.begin("add", "(y, a, b *float32, n int)", "y = a + b.", "y", "a", "b", "n")
	s.row(p[3], func(m *mask) { s.store(s.plus(s.load(s.at(p[1]), m), s.load(s.at(p[2]), m)), s.at(p[0]), m) })
	s.end()
}

func (s *set) scale() {
	p := s.begin("scale", "(y, x *float32, n int, by float32)", "y = x * by.", "y", "x", "n")
	by := s.param("by")
	s.row(p[2], func(m *mask) { s.store(s.mul(s.load(s.at(p[1]), m), by), s.at(p[0]), m) })
	s.end()
}

func (s *set) relu() {
	p := s.begin("relu", "(y, x *float32, n int)", "y = x, and 0 where x <= 0.", "y", "x", "n")
	zero := s.constant(f(0))
	s.row(p[2], func(m *mask) {
		x := s.load(s.at(p[1]), m)
		s.store(s.where(x, notBelowOrEqual, zero, x, zero), s.at(p[0]), m)
	})
	s.end()
}

func (s *set) reluBackward() {
	p := s.begin("reluBackward", "(dx, x, dy *float32, n int)", "dx = dy where x > 0, else 0.", "dx", "x", "dy", "n")
	zero := s.constant(f(0))
	s.row(p[3], func(m *mask) {
		s.store(s.where(s.load(s.at(p[1]), m), above, zero, s.load(s.at(p[2]), m), zero), s.at(p[0]), m)
	})
	s.end()
}

func (s *set) gelu() {
	p := s.begin("gelu", "(y, x *float32, n int)", "y = gelu(x).", "y", "x", "n")
	lo, hi := s.limits()
	s.rowWide(p[2], 4, func(vectors int, m *mask) {
		x := s.loads(vectors, s.at(p[1]), m)
		v, _ := s.minusU2(x)
		s.store(s.div(x, s.plus(s.expOf(v, lo, hi), f(1))), s.at(p[0]), m)
	})
	s.end()
}

func (s *set) geluBackward() {
	p := s.begin("geluBackward", "(dx, x, dy *float32, n int)", "dx = dy * gelu'(x).", "dx", "x", "dy", "n")
	lo, hi := s.limits()
	least, most, one := s.constant(f(-coeff.GeluX)), s.constant(f(coeff.GeluX)), s.constant(f(1))
	s.rowWide(p[3], 4, func(vectors int, m *mask) {
		x := s.above(s.below(s.loads(vectors, s.at(p[1]), m), most), least)
		v, sq := s.minusU2(x)
		e := s.expOf(v, lo, hi)
		sigmoid := s.div(one, s.plus(e, one))
		slope := s.plus(s.mul(sq, f(coeff.GeluC)), f(coeff.GeluA))
		d := s.plus(s.mul(s.mul(x, s.mul(e, sigmoid)), slope), one)
		s.store(s.mul(s.loads(vectors, s.at(p[2]), m), s.mul(sigmoid, d)), s.at(p[0]), m)
	})
	s.end()
}

func (s *set) sumColumns() {
	p := s.begin("sumColumns", "(t, x *float32, cols, stride, count int)",
		"t[c] = x[c] + x[c+stride] + ..., count > 0 terms from 0.", "t", "x", "cols", "stride")
	SHLQ(Imm(2), p[3])
	s.row(p[2], func(m *mask) {
		acc, at, count := s.zeros(), GP64(), GP64()
		Load(Param("count"), count)
		LEAQ(s.at(p[1]), at)
		s.times(count, func() {
			s.addTo(acc, s.load(Mem{Base: at}, m))
			ADDQ(p[3], at)
		})
		s.store(acc, s.at(p[0]), m)
	})
	s.end()
}
