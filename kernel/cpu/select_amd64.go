//go:build !noasm

package cpu

import "math/bits"

// assembly is one instruction set's functions. Their reference is loops_generic.go and rows_generic.go.
type assembly struct {
	add                      func(y, a, b *float32, n int)
	scale                    func(y, x *float32, n int, by float32)
	relu                     func(y, x *float32, n int)
	reluBackward             func(dx, x, dy *float32, n int)
	sumColumns               func(t, x *float32, cols, stride, count int)
	gelu                     func(y, x *float32, n int)
	geluBackward             func(dx, x, dy *float32, n int)
	softmax                  func(e *float32, ld, rows, n, grow int, scale float32, stats *float32)
	softmaxBackward          func(e, ds *float32, ld, rows, n, grow int, scale float32, stats, delta *float32)
	divideRows               func(y *float32, ld, rows, n int, stats *float32)
	dotRows                  func(dots, a, b *float32, ld, rows, n int)
	layerNorm                func(y, mean, rstd, x, gamma, beta *float32, rows, cols int, n float32)
	layerNormBackward        func(dx, dy, x, mean, rstd, gamma *float32, rows, cols int, n float32)
	layerNormBackwardColumns func(dx, dgamma, dbeta, dy, x, mean, rstd, gamma *float32, rows, cols int, n float32)
	normColumns              func(dgamma, dbeta, dy, x, mean, rstd *float32, cols, stride, rows int)
	maxAbs                   func(x *float32, n int) uint32
	quantize                 func(acc *int32, x *float32, n int, a, b float32)
	addI32                   func(a, x *int32, n int)
	sumSquares               func(sums *[16]uint64, x *int32, n int)
	adamW                    func(p, m, v *float32, q *int32, n int, h *float32)
	toBF16                   func(y *uint16, x *float32, n int)
	fromBF16                 func(y *float32, x *uint16, n int)
}

var (
	loops512 = assembly{add512, scale512, relu512, reluBackward512, sumColumns512, gelu512, geluBackward512,
		softmax512, softmaxBackward512, divideRows512, dotRows512,
		layerNorm512, layerNormBackward512, layerNormBackwardColumns512, normColumns512, maxAbs512, quantize512, addI32512, sumSquares512, adamW512, toBF16512, fromBF16512}.loops()
	loops256 = assembly{add256, scale256, relu256, reluBackward256, sumColumns256, gelu256, geluBackward256,
		softmax256, softmaxBackward256, divideRows256, dotRows256,
		layerNorm256, layerNormBackward256, nil, normColumns256, maxAbs256, quantize256, addI32256, sumSquares256, adamW256, toBF16256, fromBF16256}.loops()
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

// loops wraps the assembly: it takes care of empty pieces, and of lengths, which the assembly doesn't check.
func (a assembly) loops() loops {
	l := loops{
		add: func(y, x, z []float32) {
			if n := len(y); n > 0 {
				a.add(&y[0], first(x, n), first(z, n), n)
			}
		},
		scale: func(y, x []float32, by float32) {
			if n := len(x); n > 0 {
				a.scale(first(y, n), &x[0], n, by)
			}
		},
		relu: func(y, x []float32) {
			if n := len(x); n > 0 {
				a.relu(first(y, n), &x[0], n)
			}
		},
		reluBackward: func(dx, x, dy []float32) {
			if n := len(x); n > 0 {
				a.reluBackward(first(dx, n), &x[0], first(dy, n), n)
			}
		},
		sumColumns: func(t, x []float32, stride, count int) {
			if len(t) == 0 || count == 0 {
				clear(t)
				return
			}
			a.sumColumns(&t[0], first(x, (count-1)*stride+len(t)), len(t), stride, count)
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
			if r.rows == 0 || r.span() == 0 {
				softmaxGeneric(e, r, scale, stats)
				return
			}
			a.softmax(first(e, r.span()), r.ld, r.rows, r.n, r.grow, scale, first(stats, 2*r.rows))
		},
		softmaxBackward: func(e, ds []float32, r ragged, scale float32, stats, delta []float32) {
			if r.rows > 0 {
				a.softmaxBackward(first(e, r.span()), first(ds, r.span()), r.ld, r.rows, r.n, r.grow, scale,
					first(stats, 2*r.rows), first(delta, r.rows))
			}
		},
		divideRows: func(y []float32, rows, ld, n int, stats []float32) {
			if rows > 0 && n > 0 {
				a.divideRows(first(y, (rows-1)*ld+n), ld, rows, n, first(stats, 2*rows))
			}
		},
		dotRows: func(dots, x, y []float32, ld, n int) {
			rows := len(dots)
			if rows == 0 || n == 0 {
				clear(dots)
				return
			}
			size := (rows-1)*ld + n
			a.dotRows(&dots[0], first(x, size), first(y, size), ld, rows, n)
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
		layerNormBackwardColumns: func(dx, dgamma, dbeta, dy, x, mean, rstd, gamma []float32) {
			rows, cols := len(mean), len(gamma)
			clear(dgamma)
			clear(dbeta)
			if n := rows * cols; n > 0 {
				a.layerNormBackwardColumns(first(dx, n), first(dgamma, cols), first(dbeta, cols), first(dy, n), first(x, n), &mean[0],
					first(rstd, rows), &gamma[0], rows, cols, float32(cols))
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
		addI32: func(y, x []int32) {
			if n := len(x); n > 0 {
				a.addI32(first(y, n), &x[0], n)
			}
		},
		sumSquares: func(x []int32, lanes *[16]uint64) (low, high uint64) {
			if len(x) == 0 {
				return 0, 0
			}
			a.sumSquares(lanes, &x[0], len(x))
			for i, wrapped := range lanes[:8] {
				upper := lanes[8+i]
				lower := wrapped - upper<<32 // the sum of the lower halves, which is below 2^64
				var carry uint64
				low, carry = bits.Add64(low, lower, 0)
				high += carry
				low, carry = bits.Add64(low, upper<<32, 0)
				high += upper>>32 + carry
			}
			return low, high
		},
		adamW: func(p, m, v []float32, q []int32, h *adamScalars) {
			if n := len(p); n > 0 {
				a.adamW(&p[0], first(m, n), first(v, n), first(q, n), n, &h[0])
			}
		},
		toBF16: func(y []uint16, x []float32) {
			n := len(x) &^ 15
			if n > 0 {
				a.toBF16(first(y, n), &x[0], n)
			}
			toBF16Generic(y[n:], x[n:])
		},
		fromBF16: func(y []float32, x []uint16) {
			n := len(x) &^ 15
			if n > 0 {
				a.fromBF16(first(y, n), &x[0], n)
			}
			fromBF16Generic(y[n:], x[n:])
		},
	}
	if a.layerNormBackwardColumns == nil {
		l.layerNormBackwardColumns = nil
	}
	return l
}

// span is how many elements of the matrix the rows reach over.
func (r ragged) span() int { return (r.rows-1)*r.ld + r.n + (r.rows-1)*r.grow }
