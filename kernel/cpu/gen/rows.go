package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

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

// A row's sums are chains that wait for each other; so two rows go side by side.
func (s *set) layerNorm() {
	p := s.begin("layerNorm", "(y, mean, rstd, x, gamma, beta *float32, rows, cols int, n float32)",
		"n is cols as a float; rows > 0.", "y", "mean", "rstd", "x", "gamma", "beta", "rows", "cols")
	y, mean, rstd, x, gamma, beta, rows, cols := p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
	s.pairs(rows, func(r int) {
		xs, ys := s.beside(x, cols, r), s.beside(y, cols, r)
		totals := s.several(r, s.zeros)
		s.row(cols, func(m *mask) {
			for i := range xs {
				s.addTo(totals[i], s.load(s.at(xs[i]), m))
			}
		})
		var mus []vector
		for i, total := range totals {
			mu := s.fold(total, sum)
			VDIVSS(paramAddr("n"), mu, mu)
			VMOVSS(mu, Mem{Base: mean, Disp: 4 * i})
			mus = append(mus, s.spread(mu))
		}
		squares := s.several(r, s.zeros)
		s.row(cols, func(m *mask) {
			for i := range xs {
				d := s.sub(s.load(s.at(xs[i]), m), mus[i])
				s.addTo(squares[i], s.exists(s.mul(d, d), m))
			}
		})
		var rss []vector
		for i := range squares {
			variance, rs := s.fold(squares[i], sum), XMM()
			VDIVSS(paramAddr("n"), variance, variance)
			VADDSS(f(layerNormEps), variance, variance)
			VSQRTSS(variance, variance, variance)
			VMOVSS(f(1), rs)
			VDIVSS(variance, rs, rs)
			VMOVSS(rs, Mem{Base: rstd, Disp: 4 * i})
			rss = append(rss, s.spread(rs))
		}
		s.row(cols, func(m *mask) {
			g, b := s.load(s.at(gamma), m), s.load(s.at(beta), m)
			for i := range xs {
				xhat := s.mul(s.sub(s.load(s.at(xs[i]), m), mus[i]), rss[i])
				s.store(s.plus(s.mul(xhat, g), b), s.at(ys[i]), m)
			}
		})
		s.forward(r, cols, mean, rstd, x, y)
	})
	s.end()
}

// pairs calls body for two rows at a time and, where rows are odd, for the last one; rows must be positive.
func (s *set) pairs(rows reg.GPVirtual, body func(r int)) {
	s.labels++
	one, done := fmt.Sprintf("one%d", s.labels), fmt.Sprintf("done%d", s.labels)
	two := GP64()
	MOVQ(rows, two)
	ANDQ(Imm(1), rows)
	SHRQ(Imm(1), two)
	JZ(LabelRef(one))
	s.times(two, func() { body(2) })
	TESTQ(rows, rows)
	JZ(LabelRef(done))
	Label(one)
	body(1)
	Label(done)
}

// beside are where r rows of n elements begin, the first at p.
func (s *set) beside(p, n reg.GPVirtual, r int) []reg.GPVirtual {
	list := []reg.GPVirtual{p}
	if r == 2 {
		next := GP64()
		LEAQ(Mem{Base: p, Index: n, Scale: 4}, next)
		list = append(list, next)
	}
	return list
}

func (s *set) several(r int, make func() vector) (list []vector) {
	for range r {
		list = append(list, make())
	}
	return list
}

// forward goes on by r rows: the statistics by an element each, the matrices by cols.
func (s *set) forward(r int, cols, mean, rstd reg.GPVirtual, matrices ...reg.GPVirtual) {
	ADDQ(Imm(uint64(4*r)), mean)
	ADDQ(Imm(uint64(4*r)), rstd)
	for _, p := range matrices {
		for range r {
			LEAQ(Mem{Base: p, Index: cols, Scale: 4}, p)
		}
	}
}

const layerNormEps = 1e-5

func (s *set) layerNormBackward() {
	p := s.begin("layerNormBackward", "(dx, dy, x, mean, rstd, gamma *float32, rows, cols int, n float32)",
		"n is cols as a float; rows > 0.", "dx", "dy", "x", "mean", "rstd", "gamma", "rows", "cols")
	dx, dy, x, mean, rstd, gamma, rows, cols := p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
	body := func(r int) {
		dxs, dys, xs := s.beside(dx, cols, r), s.beside(dy, cols, r), s.beside(x, cols, r)
		var mus, rss []vector
		for i := range r {
			mus = append(mus, s.spread(Mem{Base: mean, Disp: 4 * i}))
			rss = append(rss, s.spread(Mem{Base: rstd, Disp: 4 * i}))
		}
		both := func(i int, gamma vector, m *mask) (g, xhat vector) {
			return s.mul(gamma, s.load(s.at(dys[i]), m)), s.mul(s.sub(s.load(s.at(xs[i]), m), mus[i]), rss[i])
		}
		sumG, sumGX := s.several(r, s.zeros), s.several(r, s.zeros)
		s.row(cols, func(m *mask) {
			gammas := s.load(s.at(gamma), m)
			for i := range r {
				g, xhat := both(i, gammas, m)
				s.addTo(sumG[i], g)
				s.addTo(sumGX[i], s.exists(s.mul(g, xhat), m))
			}
		})
		var meanG, meanGX []vector
		for i := range r {
			g, gx := s.fold(sumG[i], sum), s.fold(sumGX[i], sum)
			VDIVSS(paramAddr("n"), g, g)
			VDIVSS(paramAddr("n"), gx, gx)
			meanG, meanGX = append(meanG, s.spread(g)), append(meanGX, s.spread(gx))
		}
		s.row(cols, func(m *mask) {
			gammas := s.load(s.at(gamma), m)
			for i := range r {
				g, xhat := both(i, gammas, m)
				s.store(s.mul(rss[i], s.sub(s.sub(g, meanG[i]), s.mul(xhat, meanGX[i]))), s.at(dxs[i]), m)
			}
		})
		s.forward(r, cols, mean, rstd, x, dx, dy)
	}
	if s.zmm {
		s.pairs(rows, body)
	} else { // has not enough registers
		s.times(rows, func() { body(1) })
	}
	s.end()
}

func (s *set) normColumns() {
	p := s.begin("normColumns", "(dgamma, dbeta, dy, x, mean, rstd *float32, cols, stride, rows int)",
		"dgamma and dbeta are chains over rows > 0; rows of dy and x are stride apart.",
		"dgamma", "dbeta", "dy", "x", "mean", "rstd", "cols", "stride")
	dgamma, dbeta, dy, x, mean, rstd, cols, stride := p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
	SHLQ(Imm(2), stride)
	many := 2 // vectors of columns, so that not each addition waits for the one before
	if !s.zmm {
		many = 1 // that are two registers
	}
	s.rowBy(cols, many, func(vectors int, m *mask) {
		g, b := s.several(vectors, s.zeros), s.several(vectors, s.zeros)
		row, left, offset := GP64(), GP64(), GP64()
		XORQ(row, row)
		Load(Param("rows"), left)
		MOVQ(s.j, offset)
		s.times(left, func() {
			mus := s.spread(Mem{Base: mean, Index: row, Scale: 4})
			rss := s.spread(Mem{Base: rstd, Index: row, Scale: 4})
			for i := range vectors {
				d := s.load(Mem{Base: dy, Index: offset, Scale: 1, Disp: 64 * i}, m)
				xhat := s.mul(s.sub(s.load(Mem{Base: x, Index: offset, Scale: 1, Disp: 64 * i}, m), mus), rss)
				s.addTo(g[i], s.mul(d, xhat))
				s.addTo(b[i], d)
			}
			INCQ(row)
			ADDQ(stride, offset)
		})
		for i := range vectors {
			s.store(g[i], s.at(dgamma).Offset(64*i), m)
			s.store(b[i], s.at(dbeta).Offset(64*i), m)
		}
	})
	s.end()
}
