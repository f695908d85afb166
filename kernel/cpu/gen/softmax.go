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
	zero := s.constant(f(0))
	lo, _ := s.limits()
	SHLQ(Imm(2), ld)
	s.short(n, grow, func(heads, tails *mask) {
		s.pairs(rows, func(r int) {
			es := s.rowsOf(e, ld, r)
			x := s.mul(s.loadShort(es, heads, tails), scale)
			var maxima vector
			for i := range r {
				acc := s.vec()
				s.move(acc, none)
				VMAXPS(acc[0], x[2*i], heads.k, acc[0])
				VMAXPS(acc[0], x[2*i+1], tails.k, acc[0])
				top := s.fold(acc, maximum)
				VMOVSS(top, Mem{Base: stats, Disp: 8 * i})
				max := s.spread(top)[0]
				maxima = append(maxima, max, max)
			}
			x = s.expBelow(s.sub(x, maxima), lo)
			s.storeShort(x, es, heads, tails)
			for i := range r {
				total := s.exists(x[2*i:2*i+1], heads)
				VADDPS(x[2*i+1], total[0], tails.k, total[0])
				VMOVSS(s.fold(total, sum), Mem{Base: stats, Disp: 8*i + 4})
			}
			ADDQ(Imm(uint64(8*r)), stats)
			s.rowsOn(r, ld, e)
		})
	})
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
	s.short(n, grow, func(heads, tails *mask) {
		scale := s.param("scale")
		s.pairs(rows, func(r int) {
			var maxima, invs, dels vector
			for i := range r {
				inv := s.inverse(Mem{Base: stats, Disp: 8*i + 4})[0]
				max, del := s.spread(Mem{Base: stats, Disp: 8 * i})[0], s.spread(Mem{Base: delta, Disp: 4 * i})[0]
				maxima, invs, dels = append(maxima, max, max), append(invs, inv, inv), append(dels, del, del)
			}
			es, dss := s.rowsOf(e, ld, r), s.rowsOf(ds, ld, r)
			x := s.sub(s.mul(s.loadShort(es, heads, tails), scale), maxima)
			x = s.mul(s.expOf(x, lo, hi), invs)
			s.storeShort(x, es, heads, tails)
			d := s.mul(x, s.sub(s.loadShort(dss, heads, tails), dels))
			s.storeShort(s.mul(d, scale), dss, heads, tails)
			ADDQ(Imm(uint64(8*r)), stats)
			ADDQ(Imm(uint64(4*r)), delta)
			s.rowsOn(r, ld, e, ds)
		})
	})
	s.times(rows, func() {
		scale, invs := s.param("scale"), s.inverse(Mem{Base: stats, Disp: 4})
		max, del := s.spread(Mem{Base: stats}), s.spread(Mem{Base: delta})
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

// inverse is 1/x in all lanes.
func (s *set) inverse(x Mem) vector {
	inv := XMM()
	VMOVSS(f(1), inv)
	VDIVSS(x, inv, inv)
	return s.spread(inv)
}

// short has body do all rows, if they are alike and have two vectors: heads and tails are the masks of these. AVX2 has not
// enough registers for that.
func (s *set) short(n, grow reg.GPVirtual, body func(heads, tails *mask)) {
	if !s.zmm {
		return
	}
	CMPQ(n, Imm(16))
	JLE(LabelRef("long"))
	CMPQ(n, Imm(2*16))
	JG(LabelRef("long"))
	TESTQ(grow, grow)
	JNZ(LabelRef("long"))
	ones, heads, tails := GP64(), K(), K()
	MOVQ(n, reg.RCX)
	MOVQ(I32(1), ones)
	SHLQ(reg.CL, ones)
	DECQ(ones)
	KMOVW(ones.As32(), heads)
	SHRQ(Imm(16), ones)
	KMOVW(ones.As32(), tails)
	body(&mask{k: heads}, &mask{k: tails})
	s.end()
	Label("long")
}

// rowsOf are where r rows begin, the first at p; they are ld bytes apart.
func (s *set) rowsOf(p, ld reg.GPVirtual, r int) []Mem {
	return []Mem{{Base: p}, {Base: p, Index: ld, Scale: 1}}[:r]
}

// rowsOn has the pointers go on by r rows.
func (s *set) rowsOn(r int, ld reg.GPVirtual, pointers ...reg.GPVirtual) {
	for _, p := range pointers {
		LEAQ(Mem{Base: p, Index: ld, Scale: uint8(r)}, p)
	}
}

// loadShort reads the head and the tail of each row, storeShort writes them.
func (s *set) loadShort(rows []Mem, heads, tails *mask) (x vector) {
	for _, row := range rows {
		x = append(x, s.load(row, heads)[0], s.load(row.Offset(64), tails)[0])
	}
	return x
}

func (s *set) storeShort(x vector, rows []Mem, heads, tails *mask) {
	for i, row := range rows {
		s.store(x[2*i:2*i+1], row, heads)
		s.store(x[2*i+1:2*i+2], row.Offset(64), tails)
	}
}
