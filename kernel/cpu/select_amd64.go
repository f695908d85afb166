//go:build !noasm

package cpu

// assembly is one instruction set's functions. Their reference is loops_generic.go and rows_generic.go.
type assembly struct {
	add               func(y, a, b *float32, n int)
	sumColumns        func(t, x *float32, cols, stride, count int)
	exp               func(e, x *float32, n int, sub float32)
	gelu              func(y, x *float32, n int)
	geluBackward      func(dx, x, dy *float32, n int)
	softmax           func(e *float32, ld, rows, n, grow int, scale float32, stats *float32)
	softmaxBackward   func(e, ds *float32, ld, rows, n, grow int, scale float32, stats, delta *float32)
	layerNorm         func(y, mean, rstd, x, gamma, beta *float32, rows, cols int, n float32)
	layerNormBackward func(dx, dy, x, mean, rstd, gamma *float32, rows, cols int, n float32)
	normColumns       func(dgamma, dbeta, dy, x, mean, rstd *float32, cols, stride, rows int)
	maxAbs            func(x *float32, n int) uint32
	quantize          func(acc *int32, x *float32, n int, a, b float32)
	adamW             func(p, m, v *float32, q *int32, n int, h *float32)
}

var (
	loops512 = assembly{add512, sumColumns512, exp512, gelu512, geluBackward512, softmax512, softmaxBackward512,
		layerNorm512, layerNormBackward512, normColumns512, maxAbs512, quantize512, adamW512}.loops()
	loops256 = assembly{add256, sumColumns256, exp256, gelu256, geluBackward256, softmax256, softmaxBackward256,
		layerNorm256, layerNormBackward256, normColumns256, maxAbs256, quantize256, adamW256}.loops()
)

// selectLoops picks the inner loops for a code path, which gemm.Select has found to be possible here.
func selectLoops(path string) loops {
	switch path {
	case "avx512":
		return loops512
	case "avx2":
		return loops256
	}
	return loopsGeneric
}

// first is the address of the first of n elements; a slice that has fewer is a panic.
func first[T float32 | int32](x []T, n int) *T { return &x[:n][0] }

// loops wraps the assembly: it takes care of empty pieces, and of lengths, which the assembly doesn't check.
func (a assembly) loops() loops {
	return loops{
		add: func(y, x, z []float32) {
			if n := len(y); n > 0 {
				a.add(&y[0], first(x, n), first(z, n), n)
			}
		},
		sumColumns: func(t, x []float32, stride, count int) {
			if len(t) == 0 || count == 0 {
				clear(t)
				return
			}
			a.sumColumns(&t[0], first(x, (count-1)*stride+len(t)), len(t), stride, count)
		},
		exp: func(e, x []float32, sub float32) {
			if n := len(x); n > 0 {
				a.exp(first(e, n), &x[0], n, sub)
			}
		},
		gelu: func(y, x []float32) {
			if n := len(x); n > 0 {
				a.gelu(first(y, n), &x[0], n)
			}
		},
		geluBackward: func(dx, x, dy []float32) {
			if n := len(x); n > 0 {
				a.geluBackward(first(dx, n), &x[0], first(dy, n), n)
			}
		},
		softmax: func(e []float32, r ragged, scale float32, stats []float32) {
			if r.rows > 0 {
				a.softmax(first(e, r.span()), r.ld, r.rows, r.n, r.grow, scale, first(stats, 2*r.rows))
			}
		},
		softmaxBackward: func(e, ds []float32, r ragged, scale float32, stats, delta []float32) {
			if r.rows > 0 {
				a.softmaxBackward(first(e, r.span()), first(ds, r.span()), r.ld, r.rows, r.n, r.grow, scale,
					first(stats, 2*r.rows), first(delta, r.rows))
			}
		},
		layerNorm: func(y, mean, rstd, x, gamma, beta []float32) {
			rows, cols := len(mean), len(gamma)
			if rows == 0 || cols == 0 {
				layerNormGeneric(y, mean, rstd, x, gamma, beta)
				return
			}
			a.layerNorm(first(y, rows*cols), &mean[0], first(rstd, rows), first(x, rows*cols), &gamma[0], first(beta, cols),
				rows, cols, float32(cols))
		},
		layerNormBackward: func(dx, dy, x, mean, rstd, gamma []float32) {
			rows, cols := len(mean), len(gamma)
			if n := rows * cols; n > 0 {
				a.layerNormBackward(first(dx, n), first(dy, n), first(x, n), &mean[0], first(rstd, rows), &gamma[0], rows, cols,
					float32(cols))
			}
		},
		normColumns: func(dgamma, dbeta, dy, x, mean, rstd []float32, stride int) {
			rows, cols := len(mean), len(dgamma)
			if rows == 0 || cols == 0 {
				normColumnsGeneric(dgamma, dbeta, dy, x, mean, rstd, stride)
				return
			}
			n := (rows-1)*stride + cols
			a.normColumns(&dgamma[0], first(dbeta, cols), first(dy, n), first(x, n), &mean[0], first(rstd, rows), cols, stride, rows)
		},
		maxAbs: func(x []float32) uint32 {
			if len(x) == 0 {
				return 0
			}
			return a.maxAbs(&x[0], len(x))
		},
		quantize: func(acc []int32, g []float32, x, y float32) {
			if n := len(acc); n > 0 {
				a.quantize(&acc[0], first(g, n), n, x, y)
			}
		},
		adamW: func(p, m, v []float32, q []int32, h *adamScalars) {
			if n := len(p); n > 0 {
				a.adamW(&p[0], first(m, n), first(v, n), first(q, n), n, &h[0])
			}
		},
	}
}

// span is how many elements of the matrix the rows reach over.
func (r ragged) span() int { return (r.rows-1)*r.ld + r.n + (r.rows-1)*r.grow }
