//go:build (amd64 || arm64) && !noasm

package gemm

// This file cuts a product into tiles for the assembly. Its reference is generic.go.

// tileFunc continues the chains of one tile of C by k steps, from 0 or, if load, from what C holds. c has cols columns
// and rows ldc apart; b has cols columns and rows brs apart; A's element (i,p) is a[i*ars+p*acs].
type tileFunc func(k int, a *float32, ars, acs int, b *float32, brs int, c *float32, ldc, cols int, load bool)

// tileSet is the assembly of one instruction set.
type tileSet struct {
	vector       int        // columns of a narrow tile: a vector register of AVX-512 and AVX2, two of NEON
	wide, narrow []tileFunc // tiles of 2*vector and of vector columns; entry i has i+1 rows
	partialWide  bool       // wide tiles also take fewer than 2*vector columns
	whole        bool       // no tile takes fewer columns than it has: fewer are copied to where there is room for all
}

// A product is cut into blocks of at most tiledKC steps, all about as long, those into blocks of tiledNC columns, those into blocks of tiledMC rows,
// those into panels as wide as a tile, those into tiles. Within a block of rows a panel of B stays in the first cache and
// the rows of A in the second.
const (
	tiledKC = 384
	tiledNC = 1024
	tiledMC = 240
	// packRows is from how many rows of C on it pays to copy B into consecutive cache lines.
	packRows = 96
	// A is used in place, unless its rows are a multiple of copyStride (a page) apart, so that they compete for the same
	// sets of the first cache, and the copy serves at least copyCols columns.
	copyCols   = 256
	copyStride = 1024
)

type tiledScratch struct {
	a []float32 // a block of A, stored as A is
	b []float32 // a block of B as panels, one after the other: each (steps, columns of a tile)
	c []float32 // the columns of C in a block of rows that are too few for a tile
}

// operand is a matrix whose element (i,p) is x[i*rs+p*cs].
type operand struct {
	x      []float32
	rs, cs int
}

// run computes p; p.k must be at least 1.
func (t *tileSet) run(p product, scratch *Scratch) {
	s := &scratch.tiled
	s.b = grow(s.b, min(tiledKC, p.k)*min(tiledNC, p.n+2*t.vector))
	blocks := (p.k + tiledKC - 1) / tiledKC
	for i := range blocks {
		from, to := p.k*i/blocks, p.k*(i+1)/blocks
		for jc := 0; jc < p.n; jc += tiledNC {
			t.block(&p, s, from, to-from, jc, min(tiledNC, p.n-jc))
		}
	}
}

// block continues the chains of columns jc..jc+nc by kc steps from pc on.
func (t *tileSet) block(p *product, s *tiledScratch, pc, kc, jc, nc int) {
	packed := p.bcs != 1 || p.m >= packRows
	for ic := 0; ic < p.m; ic += tiledMC {
		mc := min(tiledMC, p.m-ic)
		a := operand{p.a[ic*p.ars+pc*p.acs:], p.ars, p.acs}
		if nc >= copyCols && max(a.rs, a.cs)%copyStride == 0 {
			a = s.copyA(a, mc, kc)
		}
		for j := 0; j < nc; {
			tiles, width := t.widest(nc - j)
			cols := min(width, nc-j)
			b := operand{p.b[pc*p.brs+(jc+j)*p.bcs:], p.brs, p.bcs}
			c := operand{p.c[ic*p.ldc+jc+j:], p.ldc, 1}
			load := p.accumulate || pc > 0
			few := t.whole && cols < width
			if packed || few {
				panel := operand{s.b[j*kc:][:width*kc], width, 1}
				if ic == 0 {
					pack(panel, b, kc, cols)
				}
				b = panel
			}
			if few {
				s.padded(tiles, width, kc, a, b, c, mc, cols, load)
			} else {
				tilePanel(tiles, kc, a, b, c, mc, cols, load)
			}
			j += cols
		}
	}
}

// padded is tilePanel on a copy of c that has the width of whole tiles. What the further columns hold doesn't matter.
func (s *tiledScratch) padded(tiles []tileFunc, width, kc int, a, b, c operand, rows, cols int, load bool) {
	s.c = grow(s.c, tiledMC*width)
	wide := operand{s.c, width, 1}
	if load {
		copyRows(wide, c, rows, cols)
	}
	tilePanel(tiles, kc, a, b, wide, rows, width, load)
	copyRows(c, wide, rows, cols)
}

// copyA copies a (rows,cols) to where its rows are not a multiple of copyStride apart.
func (s *tiledScratch) copyA(a operand, rows, cols int) operand {
	s.a = grow(s.a, max(tiledMC*oddLines(tiledKC), tiledKC*oddLines(tiledMC)))
	if a.cs == 1 {
		dst := operand{s.a, oddLines(cols), 1}
		copyRows(dst, a, rows, cols)
		return dst
	}
	ld := oddLines(rows)
	copyRows(operand{s.a, ld, 1}, operand{a.x, a.cs, 1}, cols, rows)
	return operand{s.a, 1, ld}
}

// oddLines is a distance between rows of n elements at which they use all sets of a cache alike.
func oddLines(n int) int {
	const line = 16 // elements
	return ((n+line-1)/line | 1) * line
}

// widest picks the tiles for the next of cols columns, and how many columns they have.
func (t *tileSet) widest(cols int) ([]tileFunc, int) {
	if cols >= 2*t.vector || t.partialWide && cols > t.vector {
		return t.wide, 2 * t.vector
	}
	return t.narrow, t.vector
}

// tilePanel continues the chains of c (rows,cols), one tile wide, by kc steps.
func tilePanel(tiles []tileFunc, kc int, a, b, c operand, rows, cols int, load bool) {
	// Rows are spread evenly, because very low tiles are slow.
	count := (rows + len(tiles) - 1) / len(tiles)
	low, higher := rows/count, rows%count
	for i, at := 0, 0; i < count; i++ {
		h := low
		if i < higher {
			h++
		}
		tiles[h-1](kc, &a.x[at*a.rs], a.rs, a.cs, &b.x[0], b.rs, &c.x[at*c.rs], c.rs, cols, load)
		at += h
	}
}

// pack copies src (rows,cols) to dst, row by row.
func pack(dst, src operand, rows, cols int) {
	if src.cs != 1 {
		packTransposed(dst.x, dst.rs, src.x, src.cs, cols, rows)
		return
	}
	copyRows(dst, src, rows, cols)
}

func copyRows(dst, src operand, rows, cols int) {
	whole := cols &^ 15
	if whole > 0 && rows > 0 {
		_, _ = dst.x[(rows-1)*dst.rs+whole-1], src.x[(rows-1)*src.rs+whole-1]
		copy16(&dst.x[0], dst.rs, &src.x[0], src.rs, rows, whole/16)
	}
	if whole < cols {
		for i := range rows {
			copy(dst.x[i*dst.rs+whole:][:cols-whole], src.x[i*src.rs+whole:])
		}
	}
}

// packTransposed copies the transpose of src, rows of cols elements that are stride apart, to dst, cols rows that are
// width apart.
func packTransposed(dst []float32, width int, src []float32, stride, rows, cols int) {
	rows8, cols8 := rows&^7, cols&^7
	if cols8 > 0 {
		for i := 0; i < rows8; i += 8 {
			transpose8(&dst[i], width, &src[i*stride], stride, cols8/8)
		}
	}
	if cols8 < cols {
		transposePlain(dst[cols8*width:], width, src[cols8:], stride, rows8, cols-cols8)
	}
	if rows8 < rows {
		transposePlain(dst[rows8:], width, src[rows8*stride:], stride, rows-rows8, cols)
	}
}

func transposePlain(dst []float32, width int, src []float32, stride, rows, cols int) {
	for i := range rows {
		for q, v := range src[i*stride:][:cols] {
			dst[q*width+i] = v
		}
	}
}
