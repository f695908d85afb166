package gemm

import (
	"math"

	"shoal/kernel/ref"
)

// This file is the plain Go path: the twin that the assembly is tested against, and the only path where there is no
// assembly. Its reference is the chain of ref.FMA over k ascending.
//
// [Note: fused multiply-add by float64]
//
// The product of two float32 values is exact in float64 (48 of 53 bits), so s = float64(a)*float64(b) + float64(c) is
// rounded once, and float32(s) a second time. The second rounding can go wrong only if s lies exactly between two
// neighbouring float32 values, since every such midpoint is itself a float64: then the first rounding may have hidden on
// which side the exact sum lies. The midpoints of normal results have a 1 and 28 zeros as their low 29 bits; they are
// recognised and sent to ref.FMA. Subnormal results have other midpoints; but if every product is 0 or at least
// safeProduct, all terms are multiples of 2^-149, the smallest float32, and a subnormal sum of them is exact. Packing
// finds the smallest factors, so that one comparison per tile decides between the fast loop and ref.FMA for every step.

const (
	genericKC = 256 // steps of k per block
	genericNC = 128 // columns of B per block
	genericMR = 2   // rows of a tile
	genericNR = 4   // columns of a tile

	tieShift    = 64 - 29
	tieBits     = 1 << 63
	safeProduct = 0x1p-101
)

// genericScratch holds packed panels: a[p*genericMR+i], b[panel][p*genericNR+j], widened to float64, edges 0.
type genericScratch struct {
	a, b   []float64
	smallB []float64 // per panel of b: the smallest magnitude that is not 0
}

func runGeneric(p product, scratch *Scratch) {
	s := &scratch.generic
	s.a = grow(s.a, genericKC*genericMR)
	s.b = grow(s.b, genericKC*genericNC)
	s.smallB = grow(s.smallB, genericNC/genericNR)
	for jc := 0; jc < p.n; jc += genericNC {
		nc := min(genericNC, p.n-jc)
		for pc := 0; pc < p.k; pc += genericKC {
			genericBlock(&p, s, jc, nc, pc, min(genericKC, p.k-pc))
		}
	}
}

// genericBlock continues the chains of columns jc..jc+nc by kc steps from pc on.
func genericBlock(p *product, s *genericScratch, jc, nc, pc, kc int) {
	load := p.accumulate || pc > 0
	for j := 0; j < nc; j += genericNR {
		w := min(genericNR, nc-j)
		s.smallB[j/genericNR] = widen(s.b[j*kc:(j+genericNR)*kc], p.b, pc*p.brs+(jc+j)*p.bcs, p.brs, p.bcs, w, genericNR)
	}
	for i := 0; i < p.m; i += genericMR {
		h := min(genericMR, p.m-i)
		smallA := widen(s.a[:genericMR*kc], p.a, i*p.ars+pc*p.acs, p.acs, p.ars, h, genericMR)
		for j := 0; j < nc; j += genericNR {
			w := min(genericNR, nc-j)
			var t [genericMR][genericNR]float64
			at := i*p.ldc + jc + j
			if load {
				for r := range h {
					for x, v := range p.c[at+r*p.ldc:][:w] {
						t[r][x] = float64(v)
					}
				}
			}
			pa, pb := s.a[:genericMR*kc], s.b[j*kc:(j+genericNR)*kc]
			if smallA*s.smallB[j/genericNR] >= safeProduct {
				fastTile(&t, pa, pb)
			} else {
				exactTile(&t, pa, pb)
			}
			for r := range h {
				row := p.c[at+r*p.ldc:][:w]
				for x := range row {
					row[x] = float32(t[r][x])
				}
			}
		}
	}
}

// widen packs len(dst)/width groups of n <= width elements, src[at+step*p+stride*i], and fills up with 0. It returns the
// smallest magnitude that is not 0, +Inf if there is none.
func widen(dst []float64, src []float32, at, step, stride, n, width int) float64 {
	small := math.Inf(1)
	for d := 0; d < len(dst); d += width {
		group := dst[d : d+width]
		for i := range n {
			v := float64(src[at+i*stride])
			if a := math.Abs(v); a < small && a != 0 {
				small = a
			}
			group[i] = v
		}
		clear(group[n:])
		at += step
	}
	return small
}

// fastTile continues the chains of c by a (k,genericMR) and b (k,genericNR): see the note above.
func fastTile(c *[genericMR][genericNR]float64, a, b []float64) {
	c00, c01, c02, c03 := c[0][0], c[0][1], c[0][2], c[0][3]
	c10, c11, c12, c13 := c[1][0], c[1][1], c[1][2], c[1][3]
	for len(a) >= genericMR && len(b) >= genericNR {
		a0, a1 := a[0], a[1]
		b0, b1, b2, b3 := b[0], b[1], b[2], b[3]
		// Here a*b is exact, so it makes no difference whether the compiler fuses it with the addition.
		s0, s1, s2, s3 := a0*b0+c00, a0*b1+c01, a0*b2+c02, a0*b3+c03
		if tied(s0) || tied(s1) || tied(s2) || tied(s3) {
			s0, s1, s2, s3 = exact(a0, b0, c00), exact(a0, b1, c01), exact(a0, b2, c02), exact(a0, b3, c03)
		}
		c00, c01, c02, c03 = round(s0), round(s1), round(s2), round(s3)
		s0, s1, s2, s3 = a1*b0+c10, a1*b1+c11, a1*b2+c12, a1*b3+c13
		if tied(s0) || tied(s1) || tied(s2) || tied(s3) {
			s0, s1, s2, s3 = exact(a1, b0, c10), exact(a1, b1, c11), exact(a1, b2, c12), exact(a1, b3, c13)
		}
		c10, c11, c12, c13 = round(s0), round(s1), round(s2), round(s3)
		a, b = a[genericMR:], b[genericNR:]
	}
	c[0] = [genericNR]float64{c00, c01, c02, c03}
	c[1] = [genericNR]float64{c10, c11, c12, c13}
}

// tied says whether s lies in the middle between two normal float32 values.
func tied(s float64) bool { return math.Float64bits(s)<<tieShift == tieBits }

func round(s float64) float64 { return float64(float32(s)) }

// exactTile is fastTile for factors so small that a result may be subnormal and inexact.
func exactTile(c *[genericMR][genericNR]float64, a, b []float64) {
	for len(a) >= genericMR && len(b) >= genericNR {
		for i := range c {
			for j := range c[i] {
				c[i][j] = exact(a[i], b[j], c[i][j])
			}
		}
		a, b = a[genericMR:], b[genericNR:]
	}
}

//go:noinline
func exact(a, b, c float64) float64 {
	return float64(ref.FMA(float32(a), float32(b), float32(c)))
}
