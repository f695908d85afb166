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
	lo, hi := s.limits()
	SHLQ(Imm(2), ld)
	s.times(rows, func() {
		acc := s.vec()
		s.move(acc, none)
		s.row(n, func(m *mask) {
			x := s.mul(s.load(s.at(e), m), scale)
			s.store(x, s.at(e), m)
			s.move(acc, s.greater(acc, s.keep(x, none, m)))
		})
		top := s.fold(acc, maximum)
		VMOVSS(top, Mem{Base: stats})
		max, total := s.spread(top), s.zeros()
		s.row(n, func(m *mask) {
			x := s.expOf(s.sub(s.load(s.at(e), m), max), lo, hi)
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
		s.row(n, func(m *mask) {
			x := s.sub(s.mul(s.load(s.at(e), m), scale), max)
			x = s.mul(s.expOf(x, lo, hi), invs)
			s.store(x, s.at(e), m)
			d := s.mul(x, s.sub(s.load(s.at(ds), m), del))
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

func (s *set) dot() {
	p := s.begin("dot", "(a, b *float32, n int) float32", "the lanes' sum of a*b.", "a", "b", "n")
	total := s.zeros()
	s.row(p[2], func(m *mask) { s.addTo(total, s.mul(s.load(s.at(p[0]), m), s.load(s.at(p[1]), m))) })
	result, err := ReturnIndex(0).Resolve()
	if err != nil {
		panic(err)
	}
	VMOVSS(s.fold(total, sum), result.Addr)
	s.end()
}

func (s *set) layerNorm() {
	p := s.begin("layerNorm", "(y, mean, rstd, x, gamma, beta *float32, rows, cols int, n float32)",
		"n is cols as a float; rows > 0.", "y", "mean", "rstd", "x", "gamma", "beta", "rows", "cols")
	y, mean, rstd, x, gamma, beta, rows, cols := p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
	zero := s.constant(f(0))
	s.times(rows, func() {
		total := s.zeros()
		s.row(cols, func(m *mask) { s.addTo(total, s.load(s.at(x), m)) })
		mu := s.fold(total, sum)
		VDIVSS(paramAddr("n"), mu, mu)
		VMOVSS(mu, Mem{Base: mean})
		mus, squares := s.spread(mu), s.zeros()
		s.row(cols, func(m *mask) {
			d := s.sub(s.load(s.at(x), m), mus)
			s.addTo(squares, s.keep(s.mul(d, d), zero, m))
		})
		variance, rs := s.fold(squares, sum), XMM()
		VDIVSS(paramAddr("n"), variance, variance)
		VADDSS(f(layerNormEps), variance, variance)
		VSQRTSS(variance, variance, variance)
		VMOVSS(f(1), rs)
		VDIVSS(variance, rs, rs)
		VMOVSS(rs, Mem{Base: rstd})
		rss := s.spread(rs)
		s.row(cols, func(m *mask) {
			xhat := s.mul(s.sub(s.load(s.at(x), m), mus), rss)
			s.store(s.plus(s.mul(xhat, s.load(s.at(gamma), m)), s.load(s.at(beta), m)), s.at(y), m)
		})
		ADDQ(Imm(4), mean)
		ADDQ(Imm(4), rstd)
		LEAQ(Mem{Base: x, Index: cols, Scale: 4}, x)
		LEAQ(Mem{Base: y, Index: cols, Scale: 4}, y)
	})
	s.end()
}

const layerNormEps = 1e-5

func (s *set) layerNormBackward() {
	p := s.begin("layerNormBackward", "(dx, dy, x, mean, rstd, gamma *float32, rows, cols int, n float32)",
		"n is cols as a float; rows > 0.", "dx", "dy", "x", "mean", "rstd", "gamma", "rows", "cols")
	dx, dy, x, mean, rstd, gamma, rows, cols := p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
	s.times(rows, func() {
		mus, rss, zero := s.spread(Mem{Base: mean}), s.spread(Mem{Base: rstd}), s.constant(f(0))
		sumG, sumGX := s.zeros(), s.zeros()
		both := func(m *mask) (g, xhat vector) {
			return s.mul(s.load(s.at(dy), m), s.load(s.at(gamma), m)), s.mul(s.sub(s.load(s.at(x), m), mus), rss)
		}
		s.row(cols, func(m *mask) {
			g, xhat := both(m)
			s.addTo(sumG, g)
			s.addTo(sumGX, s.keep(s.mul(g, xhat), zero, m))
		})
		g, gx := s.fold(sumG, sum), s.fold(sumGX, sum)
		VDIVSS(paramAddr("n"), g, g)
		VDIVSS(paramAddr("n"), gx, gx)
		meanG, meanGX := s.spread(g), s.spread(gx)
		s.row(cols, func(m *mask) {
			g, xhat := both(m)
			s.store(s.mul(rss, s.sub(s.sub(g, meanG), s.mul(xhat, meanGX))), s.at(dx), m)
		})
		ADDQ(Imm(4), mean)
		ADDQ(Imm(4), rstd)
		for _, r := range []reg.GPVirtual{x, dx, dy} {
			LEAQ(Mem{Base: r, Index: cols, Scale: 4}, r)
		}
	})
	s.end()
}

func (s *set) normColumns() {
	p := s.begin("normColumns", "(dgamma, dbeta, dy, x, mean, rstd *float32, cols, stride, rows int)",
		"dgamma and dbeta are chains over rows > 0; rows of dy and x are stride apart.",
		"dgamma", "dbeta", "dy", "x", "mean", "rstd", "cols", "stride")
	dgamma, dbeta, dy, x, mean, rstd, cols, stride := p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
	SHLQ(Imm(2), stride)
	s.row(cols, func(m *mask) {
		g, b := s.zeros(), s.zeros()
		row, left, offset := GP64(), GP64(), GP64()
		XORQ(row, row)
		Load(Param("rows"), left)
		MOVQ(s.j, offset)
		s.times(left, func() {
			mus := s.spread(Mem{Base: mean, Index: row, Scale: 4})
			rss := s.spread(Mem{Base: rstd, Index: row, Scale: 4})
			d := s.load(Mem{Base: dy, Index: offset, Scale: 1}, m)
			xhat := s.mul(s.sub(s.load(Mem{Base: x, Index: offset, Scale: 1}, m), mus), rss)
			s.addTo(g, s.mul(d, xhat))
			s.addTo(b, d)
			INCQ(row)
			ADDQ(stride, offset)
		})
		s.store(g, s.at(dgamma), m)
		s.store(b, s.at(dbeta), m)
	})
	s.end()
}
