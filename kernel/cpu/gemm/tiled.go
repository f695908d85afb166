//go:build amd64 && !noasm

package gemm

// This file cuts a product into tiles for the assembly. Its reference is generic.go.

// tileFunc continues the chains of one tile of C by k steps, from 0 or, if load, from what C holds. c has cols columns
// and rows ldc apart; b has cols columns and rows brs apart; A's element (i,p) is a[i*ars+p*acs].
type tileFunc func(k int, a *float32, ars, acs int, b *float32, brs int, c *float32, ldc, cols int, load bool)

// tileSet is the assembly of one instruction set.
type tileSet struct {
	vector       int        // elements of a vector register
	wide, narrow []tileFunc // tiles of two and of one vector per row; entry i has i+1 rows
	partialWide  bool       // wide tiles also take fewer than 2*vector columns
}

const (
	// tiledKC steps of k per block: a packed panel of 32 columns fits into the first cache.
	tiledKC = 256
	// packRows is from how many rows of C on copying B's panel into consecutive cache lines pays.
	packRows = 96
)

type tiledScratch struct {
	b []float32 // one panel of B: (steps, columns of the tile)
}

// run computes p; p.k must be at least 1.
func (t *tileSet) run(p product, scratch *Scratch) {
	s := &scratch.tiled
	s.b = grow(s.b, tiledKC*2*t.vector)
	for pc := 0; pc < p.k; pc += tiledKC {
		kc := min(tiledKC, p.k-pc)
		for j := 0; j < p.n; {
			tiles, width := t.narrow, t.vector
			if rest := p.n - j; rest >= 2*t.vector || t.partialWide && rest > t.vector {
				tiles, width = t.wide, 2*t.vector
			}
			cols := min(width, p.n-j)
			t.panel(&p, s, tiles, width, j, cols, pc, kc)
			j += cols
		}
	}
}

// panel continues the chains of columns j..j+cols by kc steps from pc on.
func (t *tileSet) panel(p *product, s *tiledScratch, tiles []tileFunc, width, j, cols, pc, kc int) {
	b, brs := &p.b[pc*p.brs+j*p.bcs], p.brs
	if p.bcs != 1 {
		packTransposed(s.b, width, p.b[j*p.bcs+pc:], p.bcs, cols, kc)
		b, brs = &s.b[0], width
	} else if p.m >= packRows {
		for q := range kc {
			copy(s.b[q*width:][:cols], p.b[(pc+q)*p.brs+j:])
		}
		b, brs = &s.b[0], width
	}
	// Rows are spread evenly, because very low tiles are slow.
	count := (p.m + len(tiles) - 1) / len(tiles)
	rows, higher := p.m/count, p.m%count
	for i := 0; i < p.m; {
		h := rows
		if higher > 0 {
			h++
			higher--
		}
		tiles[h-1](kc, &p.a[i*p.ars+pc*p.acs], p.ars, p.acs, b, brs, &p.c[i*p.ldc+j], p.ldc, cols, p.accumulate || pc > 0)
		i += h
	}
}

// packTransposed copies the transpose of src, rows of cols elements that are stride apart, to dst, cols rows that are
// width apart.
func packTransposed(dst []float32, width int, src []float32, stride, rows, cols int) {
	blocks := cols / 8
	whole := 0 // rows done by transpose8, up to column 8*blocks
	if blocks > 0 {
		for ; whole+8 <= rows; whole += 8 {
			transpose8(&dst[whole], width, &src[whole*stride], stride, blocks)
		}
	}
	for i := range rows {
		from := 0
		if i < whole {
			from = 8 * blocks
		}
		for q, v := range src[i*stride:][from:cols] {
			dst[(from+q)*width+i] = v
		}
	}
}
