package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// softmax and softmaxBackward work on the rows of one head: row i has n + i*grow elements.

func (s *set) softmax() {
	p := s.begin("softmax", "(e *float32, ld, rows, n, grow int, scale float32, stats *float32)",
		"e = exp(scale*e - max) by rows, stats their maxima and sums; rows > 0.", "e", "ld", "rows", "n", "grow", "stats")
	e, ld, rows, n, grow, stats := p[0], p[1], p[2], p[3], p[4], p[5]
	scale, none := s.param("scale"), s.constant(f(math.Inf(-1)))
	lo, _ := s.limits()
	SHLQ(Imm(2), ld)
	s.quads(rows, n, grow, func(q *quad) {
		x := s.mul(q.load(e, ld), scale)
		top := s.greater(none, x[:4])
		q.withTails(top, x, func(x, top reg.VecVirtual, k reg.OpmaskVirtual) { VMAXPS(top, x, k, top) })
		maxima := q.spread(s.fold4(top, maximum))
		x = s.expBelow(s.sub(x, maxima), lo)
		q.store(x, e, ld)
		total := s.registers(4)
		s.move(total, x)
		q.withTails(total, x, func(x, total reg.VecVirtual, k reg.OpmaskVirtual) { VADDPS(x, total, k, total) })
		q.storeStats(maxima, s.fold4(total, sum), stats)
		ADDQ(Imm(8*4), stats)
		q.goOn(ld, e)
	})
	// The maximum of one row is waited for while those of the next ones are looked for.
	s.blocks(rows, 4, func(block reg.GPVirtual) {
		row, length, max, left := GP64(), GP64(), GP64(), GP64()
		MOVQ(e, row)
		MOVQ(n, length)
		MOVQ(stats, max)
		MOVQ(block, left)
		s.times(left, func() {
			acc := s.vec()
			s.move(acc, none)
			s.rowWide(length, 4, func(vectors int, m *mask) {
				x := s.keep(s.mul(s.loads(vectors, s.at(row), m), scale), none, m)
				for h := range x {
					to := acc[h%len(acc)]
					VMAXPS(to, x[h], to)
				}
			})
			VMOVSS(s.fold(acc, maximum), Mem{Base: max})
			ADDQ(Imm(8), max)
			ADDQ(ld, row)
			ADDQ(grow, length)
		})
		s.times(block, func() {
			max, total := s.spread(Mem{Base: stats}), s.zeros()
			s.rowWide(n, 8, func(vectors int, m *mask) {
				x := s.mul(s.loads(vectors, s.at(e), m), scale) // again, since to store and to load it would take longer
				x = s.sub(x, max)
				if s.zmm {
					x = s.exp(x) // farBelow stands in for the limit
				} else {
					x = s.expBelow(x, lo)
				}
				s.store(x, s.at(e), m)
				s.addTo(total, s.exists(x, m))
			})
			if s.zmm {
				s.farBelow(e, n, total)
			}
			VMOVSS(s.fold(total, sum), Mem{Base: stats, Disp: 4})
			ADDQ(Imm(8), stats)
			ADDQ(ld, e)
			ADDQ(grow, n)
		})
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
	s.quads(rows, n, grow, func(q *quad) {
		scale := s.param("scale")
		invs := q.spread(s.div(s.constant(f(1)), vector{q.quarterly(Mem{Base: stats, Disp: 4}, 8)})[0])
		x := s.sub(s.mul(q.load(e, ld), scale), q.each(Mem{Base: stats}, 8))
		x = s.mul(s.expOf(x, lo, hi), invs)
		q.store(x, e, ld)
		d := s.mul(x, s.sub(q.load(ds, ld), q.each(Mem{Base: delta}, 4)))
		q.store(s.mul(d, scale), ds, ld)
		ADDQ(Imm(8*4), stats)
		ADDQ(Imm(4*4), delta)
		q.goOn(ld, e, ds)
	})
	s.times(rows, func() {
		scale, invs := s.param("scale"), s.inverse(Mem{Base: stats, Disp: 4})
		max, del := s.spread(Mem{Base: stats}), s.spread(Mem{Base: delta})
		s.rowWide(n, 8, func(vectors int, m *mask) {
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

// farBelow repairs a row of AVX-512 with numbers so far below the maximum that exp made +Inf of them: none is +Inf by itself. It makes
// them 0 and sums up again.
func (s *set) farBelow(e, n reg.GPVirtual, total vector) {
	zero, inf, infinite := s.constant(f(0)), s.constant(f(math.Inf(1))), K()
	VCMPPS(Imm(notBelow), inf[0], total[0], infinite)
	KORTESTW(infinite, infinite)
	JZ(LabelRef("finite"))
	s.move(total, zero)
	s.row(n, func(m *mask) {
		x := s.load(s.at(e), m)
		x = s.where(x, equal, inf, zero, x)
		s.store(x, s.at(e), m)
		s.addTo(total, x)
	})
	Label("finite")
}

// inverse is 1/x in all lanes.
func (s *set) inverse(x Mem) vector {
	inv := XMM()
	VMOVSS(f(1), inv)
	VDIVSS(x, inv, inv)
	return s.spread(inv)
}
