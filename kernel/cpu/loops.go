package cpu

// loops are the inner loops that have assembly. Each works on a piece of an op on one goroutine; rows are dense unless
// a distance between rows is given.
type loops struct {
	add          func(y, a, b []float32)                 // y = a + b; y may be a or b
	scale        func(y, x []float32, by float32)        // y = x * by; y may be x
	relu         func(y, x []float32)                    // y may be x
	reluBackward func(dx, x, dy []float32)               // dx may be dy
	sumColumns   func(t, x []float32, stride, count int) // t[c] = x[c] + x[c+stride] + ..., count terms from 0
	gelu         func(y, x []float32)                    // y may be x
	geluBackward func(dx, x, dy []float32)               // dx may be dy

	// softmax: for each row, of n + i*grow elements: e = exp(scale*e - max), stats (rows,2) = maximum and sum.
	softmax func(e []float32, r ragged, scale float32, stats []float32)
	// softmaxBackward: e becomes p = exp(scale*e - max) / sum, and ds becomes p * (ds - delta) * scale.
	softmaxBackward func(e, ds []float32, r ragged, scale float32, stats, delta []float32)

	// divideRows divides each of rows rows of n elements by its sum: by 1/sum as a factor, which stats (rows,2) has second.
	divideRows func(y []float32, rows, ld, n int, stats []float32)
	// dotRows makes the lanes' sum of a*b of len(dots) rows of n elements.
	dotRows func(dots, a, b []float32, ld, n int)

	// layerNorm has len(mean) rows of len(gamma); so has layerNormBackward, whose dx may be dy.
	layerNorm         func(y, mean, rstd, x, gamma, beta []float32)
	layerNormBackward func(dx, dy, x, mean, rstd, gamma []float32)
	// layerNormBackwardColumns also makes dgamma and dbeta. It is nil where that is no faster than normColumns.
	layerNormBackwardColumns func(dx, dgamma, dbeta, dy, x, mean, rstd, gamma []float32)
	// normColumns makes len(dgamma) columns of dgamma and dbeta from len(mean) rows that are stride apart.
	normColumns func(dgamma, dbeta, dy, x, mean, rstd []float32, stride int)

	maxAbs   func(x []float32) uint32                     // the greatest pattern of |x|, 0 for none
	quantize func(acc []int32, g []float32, a, b float32) // acc += quantum of g*a*b
	addI32   func(a, x []int32)                           // a += x, wrapping
	adamW    func(p, m, v []float32, q []int32, h *adamScalars)
	// sumSquares makes both halves of the sum of x*x, for fewer than 2^32 elements. It may write lanes.
	sumSquares func(x []int32, lanes *[16]uint64) (low, high uint64)

	toBF16   func(y []uint16, x []float32)
	fromBF16 func(y []float32, x []uint16)
}

// ragged describes rows of a matrix with ld columns, of which row i uses the first n + i*grow.
type ragged struct{ rows, ld, n, grow int }

func (r ragged) row(m []float32, i int) []float32 { return m[i*r.ld:][:r.n+i*r.grow] }
