package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// softmax and softmaxBackward work on the rows of one head: row i has n + i*grow elements.

func (s *set) softmax() {
	p := s.begin("softmax", "(e *float32, ld, rows, n, grow int, scale float32, stats *float32)",
		"e = exp(scale*e - max) by rows, stats their maxima and sums; rows > 0.", "e", "ld", "rows", "n", "grow", "stats")
	e, ld, rows, n, grow, stats := p[0], p[1], p[2], p[3], p[4], p[5]
	scale, none := s.param("scale"), s.constant(f(math.Inf(-1)))
	zero := s.constant(f(0))
	lo, _ := s.limits()
	SHLQ(Imm(2), ld)
	s.times(rows, func() {
		acc := s.vec()
		s.move(acc, none)
		s.row(n, func(m *mask) {
			x := s.mul(s.load(s.at(e), m), scale)
			s.move(acc, s.greater(acc, s.keep(x, none, m)))
		})
		top := s.fold(acc, maximum)
		VMOVSS(top, Mem{Base: stats})
		max, total := s.spread(top), s.zeros()
		s.rowWide(n, func(vectors int, m *mask) {
			x := s.mul(s.loads(vectors, s.at(e), m), scale) // again, since to store and to load it would take longer
			x = s.expBelow(s.sub(x, max), lo)
			s.store(x, s.at(e), m)
			s.addTo(total, s.keep(x, zero, m))
		})
		VMOVSS(s.fold(total, sum), Mem{Base: stats, Disp: 4})
		ADDQ(Imm(8), stats)
		ADDQ(ld, e)
		ADDQ(grow, n)
	})
	s.end()
}

func (s *set) softmaxBackward() {
	p := s.begin("softmaxBackward", "(e, ds *float32, ld, rows, n, grow int, scale float32, stats, delta *float32)",
		"e becomes p = exp(scale*e - max) * (1/sum), ds = (p*(ds - delta))*scale, by rows; rows > 0.",
		"e", "ds", "ld", "rows", "n", "grow", "stats", "delta")
	e, ds, ld, rows, n, grow, stats, delta := p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
	lo, hi := s.limits()
	SHLQ(Imm(2), ld)
	s.times(rows, func() {
		scale, inv := s.param("scale"), XMM()
		VMOVSS(f(1), inv)
		VDIVSS(Mem{Base: stats, Disp: 4}, inv, inv)
		max, invs, del := s.spread(Mem{Base: stats}), s.spread(inv), s.spread(Mem{Base: delta})
		s.rowWide(n, func(vectors int, m *mask) {
			x := s.sub(s.mul(s.loads(vectors, s.at(e), m), scale), max)
			x = s.mul(s.expOf(x, lo, hi), invs)
			s.store(x, s.at(e), m)
			d := s.mul(x, s.sub(s.loads(vectors, s.at(ds), m), del))
			s.store(s.mul(d, scale), s.at(ds), m)
		})
		ADDQ(Imm(8), stats)
		ADDQ(Imm(4), delta)
		ADDQ(ld, e)
		ADDQ(ld, ds)
		ADDQ(grow, n)
	})
	s.end()
}
