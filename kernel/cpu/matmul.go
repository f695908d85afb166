package cpu

import "shoal/kernel"

// multiplyGrain is how many multiply-adds a piece of a product should have: some 10 us of work.
const multiplyGrain = 1 << 19

// matMul cuts C into a grid of pieces, one gemm call each.
type matMul struct {
	*ops
	t            kernel.Trans
	c, a, b      []float32
	m, n, k      int
	accumulate   bool
	lda, ldb     int
	down, across int
}

func (o *ops) MatMul(t kernel.Trans, c, a, b kernel.Buffer, m, n, k int, accumulate bool) {
	lda, ldb := max(k, 1), max(n, 1)
	switch t {
	case kernel.NT:
		ldb = max(k, 1)
	case kernel.TN:
		lda = max(m, 1)
	}
	down, across := o.grid(m, n, k)
	run(o, &o.args.matMul, matMul{o, t, f32(c), f32(a), f32(b), m, n, k, accumulate, lda, ldb, down, across}, down*across, 1)
}

func (x *matMul) do(w, lo, hi int) {
	for piece := lo; piece < hi; piece++ {
		i, i1 := cut(x.m, x.down, piece/x.across)
		j, j1 := cut(x.n, x.across, piece%x.across)
		a, b := x.a, x.b
		switch {
		case x.k == 0:
		case x.t == kernel.NN:
			a, b = a[i*x.lda:], b[j:]
		case x.t == kernel.NT:
			a, b = a[i*x.lda:], b[j*x.ldb:]
		case x.t == kernel.TN:
			a, b = a[i:], b[j:]
		}
		x.gemm.Gemm(x.t, x.c[i*x.n+j:], x.n, a, x.lda, b, x.ldb, i1-i, j1-j, x.k, x.accumulate, &x.scratch[w].gemm)
	}
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
