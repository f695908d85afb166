package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func (s *set) divideRows() {
	p := s.begin("divideRows", "(y *float32, ld, rows, n int, stats *float32)", "each row times 1/sum, the second of its stats; rows > 0.",
		"y", "ld", "rows", "n", "stats")
	y, ld, rows, n, stats := p[0], p[1], p[2], p[3], p[4]
	SHLQ(Imm(2), ld)
	s.times(rows, func() {
		inv := s.inverse(Mem{Base: stats, Disp: 4})
		s.row(n, func(m *mask) { s.store(s.mul(s.load(s.at(y), m), inv), s.at(y), m) })
		ADDQ(Imm(8), stats)
		ADDQ(ld, y)
	})
	s.end()
}

func (s *set) dotRows() {
	p := s.begin("dotRows", "(dots, a, b *float32, ld, rows, n int)", "the lanes' sums of a*b by rows; rows > 0.",
		"dots", "a", "b", "ld", "rows", "n")
	dots, a, b, ld, rows, n := p[0], p[1], p[2], p[3], p[4], p[5]
	SHLQ(Imm(2), ld)
	s.times(rows, func() {
		total := s.zeros()
		s.row(n, func(m *mask) { s.addTo(total, s.mul(s.load(s.at(a), m), s.load(s.at(b), m))) })
		VMOVSS(s.fold(total, sum), Mem{Base: dots})
		ADDQ(Imm(4), dots)
		ADDQ(ld, a)
		ADDQ(ld, b)
	})
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

// groups calls body for so many rows at a time, then for one at a time; rows must be positive and are used up.
func (s *set) groups(rows reg.GPVirtual, many int, body func(r int)) {
	s.labels++
	group, single, one, done := fmt.Sprintf("group%d", s.labels), fmt.Sprintf("single%d", s.labels),
		fmt.Sprintf("one%d", s.labels), fmt.Sprintf("done%d", s.labels)
	if many > 1 {
		SUBQ(Imm(uint64(many)), rows)
		JLT(LabelRef(single))
		Label(group)
		body(many)
		SUBQ(Imm(uint64(many)), rows)
		JGE(LabelRef(group))
		Label(single)
		ADDQ(Imm(uint64(many)), rows)
		JZ(LabelRef(done))
	}
	Label(one)
	body(1)
	DECQ(rows)
	JNZ(LabelRef(one))
	Label(done)
}

// blocks calls body for so many rows at a time, and for those that are left; it uses block up. rows must be positive and are used up.
func (s *set) blocks(rows reg.GPVirtual, many int, body func(block reg.GPVirtual)) {
	s.labels++
	loop := fmt.Sprintf("block%d", s.labels)
	Label(loop)
	block := GP64()
	MOVQ(I32(int32(many)), block)
	CMPQ(rows, block)
	CMOVQLT(rows, block)
	SUBQ(block, rows)
	body(block)
	TESTQ(rows, rows)
	JNZ(LabelRef(loop))
}

// pairs calls body for two rows at a time and, where rows are odd, for the last one; rows must be positive.
func (s *set) pairs(rows reg.GPVirtual, body func(r int)) { s.groups(rows, 2, body) }

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

// layerNormBackward goes over four rows side by side: between a row's sums and what needs them there is a wait. With columns it
// also does what normColumns does, on the way.
func (s *set) layerNormBackward(columns bool) {
	name, signature, doc := "layerNormBackward", "(dx, dy, x, mean, rstd, gamma *float32, rows, cols int, n float32)",
		"n is cols as a float; rows > 0."
	if columns {
		name, signature = "layerNormBackwardColumns", "(dx, dgamma, dbeta, dy, x, mean, rstd, gamma *float32, rows, cols int, n float32)"
		doc += " The chains of dgamma and dbeta go on."
	}
	p := s.begin(name, signature, doc, "dx", "dy", "x", "mean", "rstd", "gamma", "rows", "cols")
	dx, dy, x, mean, rstd, gamma, rows, cols := p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
	var dgamma, dbeta reg.GPVirtual
	if columns {
		dgamma, dbeta = Load(Param("dgamma"), GP64()).(reg.GPVirtual), Load(Param("dbeta"), GP64()).(reg.GPVirtual)
	}
	ld, ld3 := GP64(), GP64()
	MOVQ(cols, ld)
	SHLQ(Imm(2), ld)
	LEAQ(Mem{Base: ld, Index: ld, Scale: 2}, ld3)
	// of is the i-th row that p points into.
	of := func(p reg.GPVirtual, i int) Mem {
		return []Mem{{Base: p}, {Base: p, Index: ld, Scale: 1}, {Base: p, Index: ld, Scale: 2}, {Base: p, Index: ld3, Scale: 1}}[i]
	}
	// along is row with pointers that go along.
	along := func(body func(m *mask), pointers ...reg.GPVirtual) {
		s.row(cols, func(m *mask) {
			body(m)
			for _, p := range pointers {
				if m == nil {
					ADDQ(Imm(64), p)
				}
			}
		})
		for _, p := range pointers {
			SUBQ(s.j, p)
		}
	}
	s.groups(rows, s.rowsAtOnce(), func(r int) {
		// statistics are read twice, since meanwhile their registers serve for other things.
		var mus, rss []vector
		statistics := func() {
			mus, rss = nil, nil
			for i := range r {
				mus = append(mus, s.spread(Mem{Base: mean, Disp: 4 * i}))
				rss = append(rss, s.spread(Mem{Base: rstd, Disp: 4 * i}))
			}
		}
		xhat := func(i int, m *mask) vector { return s.mul(s.sub(s.load(of(x, i), m), mus[i]), rss[i]) }
		statistics()
		sumG, sumGX := s.several(r, s.zeros), s.several(r, s.zeros)
		along(func(m *mask) {
			gammas := s.load(s.at(gamma), m)
			var dgammas, dbetas vector
			if columns {
				dgammas, dbetas = s.load(s.at(dgamma), m), s.load(s.at(dbeta), m)
			}
			for i := range r {
				d, xh := s.load(of(dy, i), m), xhat(i, m)
				g := s.mul(gammas, d)
				s.addTo(sumG[i], g)
				s.addTo(sumGX[i], s.exists(s.mul(g, xh), m))
				if columns {
					s.addTo(dgammas, s.mul(d, xh))
					s.addTo(dbetas, d)
				}
			}
			if columns {
				s.store(dgammas, s.at(dgamma), m)
				s.store(dbetas, s.at(dbeta), m)
			}
		}, dy, x)
		var meanG, meanGX []vector
		for i := range r {
			g, gx := s.fold(sumG[i], sum), s.fold(sumGX[i], sum)
			VDIVSS(paramAddr("n"), g, g)
			VDIVSS(paramAddr("n"), gx, gx)
			meanG, meanGX = append(meanG, s.spread(g)), append(meanGX, s.spread(gx))
		}
		statistics()
		along(func(m *mask) {
			gammas := s.load(s.at(gamma), m)
			for i := range r {
				g := s.mul(gammas, s.load(of(dy, i), m))
				s.store(s.mul(rss[i], s.sub(s.sub(g, meanG[i]), s.mul(xhat(i, m), meanGX[i]))), of(dx, i), m)
			}
		}, dy, x, dx)
		s.forward(r, cols, mean, rstd, x, dx, dy)
	})
	s.end()
}

// rowsAtOnce is how many rows' sums and statistics there are registers for.
func (s *set) rowsAtOnce() int {
	if s.zmm {
		return 4
	}
	return 1
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
