package cpu

import "shoal/kernel"

// multiplyGrain is how many multiply-adds a piece of a product should have: some 10 us of work.
const multiplyGrain = 1 << 19

// MatMul cuts C into a grid of pieces, one gemm call each.
func (o *ops) MatMul(t kernel.Trans, c, a, b kernel.Buffer, m, n, k int, accumulate bool) {
	cs, as, bs := f32(c), f32(a), f32(b)
	lda, ldb := max(k, 1), max(n, 1)
	switch t {
	case kernel.NT:
		ldb = max(k, 1)
	case kernel.TN:
		lda = max(m, 1)
	}
	down, across := o.grid(m, n, k)
	o.crew.split(down*across, 1, func(w, lo, hi int) {
		for piece := lo; piece < hi; piece++ {
			i, i1 := cut(m, down, piece/across)
			j, j1 := cut(n, across, piece%across)
			ap, bp := as, bs
			switch {
			case k == 0:
			case t == kernel.NN:
				ap, bp = as[i*lda:], bs[j:]
			case t == kernel.NT:
				ap, bp = as[i*lda:], bs[j*ldb:]
			case t == kernel.TN:
				ap, bp = as[i:], bs[j:]
			}
			o.gemm.Gemm(t, cs[i*n+j:], n, ap, lda, bp, ldb, i1-i, j1-j, k, accumulate, &o.scratch[w].gemm)
		}
	})
}

// grid chooses into how many parts rows and columns are cut: about twice as many pieces as workers, near to square,
// none very small.
func (o *ops) grid(m, n, k int) (down, across int) {
	down, across = 1, 1
	if o.crew.size == 1 {
		return
	}
	pieces := min(2*o.crew.size, m*n/max(multiplyGrain/max(k, 1), 1))
	for down*across < pieces {
		switch tall := m / down; {
		case tall >= n/across && tall >= 32:
			down++
		case n/across >= 64:
			across++
		default:
			return
		}
	}
	return
}

// cut is the i-th of parts nearly equal parts of n.
func cut(n, parts, i int) (lo, hi int) { return n * i / parts, n * (i + 1) / parts }
