package f64

import (
	"fmt"
	"math"
	"math/bits"

	"shoal/kernel"
	"shoal/kernel/ref"
)

func (ops) MatMul(t kernel.Trans, c, a, b kernel.Buffer, m, n, k int, accumulate bool) {
	y, x, w := floats(c), floats(a), floats(b)
	ai, ak, bj, bk := k, 1, 1, n // strides of A(i,k) and B(k,j)
	switch t {
	case kernel.NT:
		bj, bk = k, 1
	case kernel.TN:
		ai, ak = 1, m
	}
	for i := range m {
		for j := range n {
			s := 0.0
			for l := range k {
				s += x[i*ai+l*ak] * w[l*bk+j*bj]
			}
			if accumulate {
				s += y[i*n+j]
			}
			y[i*n+j] = s
		}
	}
}

func (ops) AddRows(y, x, table kernel.Buffer, rows, cols, period int) {
	yy, xx, tt := floats(y), floats(x), floats(table)
	for i := range yy {
		yy[i] = xx[i] + tt[i%(period*cols)]
	}
}

func (ops) SumRows(dtable, dy kernel.Buffer, rows, cols, period int) {
	dt, dyy := floats(dtable), floats(dy)
	clear(dt)
	for i := range dyy {
		dt[i%(period*cols)] += dyy[i]
	}
}

func (ops) Add(y, a, b kernel.Buffer) {
	yy, aa, bb := floats(y), floats(a), floats(b)
	for i := range yy {
		yy[i] = aa[i] + bb[i]
	}
}

func (ops) Zero(y kernel.Buffer) {
	if y.Mem.DType() == kernel.I32 {
		clear(ints(y))
	} else {
		clear(floats(y))
	}
}

func (ops) Copy(dst, src kernel.Buffer) {
	if dst.Mem.DType() == kernel.I32 {
		copy(ints(dst), ints(src))
	} else {
		copy(floats(dst), floats(src))
	}
}

// unary computes y = f(x) element by element.
func unary(y, x kernel.Buffer, f func(float64) float64) {
	yy, xx := floats(y), floats(x)
	for i := range yy {
		yy[i] = f(xx[i])
	}
}

// unaryBackward computes dx = dy * df(x) element by element.
func unaryBackward(dx, x, dy kernel.Buffer, df func(float64) float64) {
	dxx, xx, dyy := floats(dx), floats(x), floats(dy)
	for i := range dxx {
		dxx[i] = dyy[i] * df(xx[i])
	}
}

// gelu(x) = x/2 * (1 + tanh(geluA * (x + geluB x^3)))
const (
	geluA = 0.7978845608028654 // sqrt(2/pi)
	geluB = 0.044715
)

func (ops) GELU(y, x kernel.Buffer) {
	unary(y, x, func(x float64) float64 {
		return 0.5 * x * (1 + math.Tanh(geluA*(x+geluB*x*x*x)))
	})
}

func (ops) GELUBackward(dx, x, dy kernel.Buffer) {
	unaryBackward(dx, x, dy, func(x float64) float64 {
		t := math.Tanh(geluA * (x + geluB*x*x*x))
		return 0.5*(1+t) + 0.5*x*(1-t*t)*geluA*(1+3*geluB*x*x)
	})
}

func (ops) ReLU(y, x kernel.Buffer) {
	unary(y, x, func(x float64) float64 { return max(x, 0) })
}

func (ops) ReLUBackward(dx, x, dy kernel.Buffer) {
	unaryBackward(dx, x, dy, func(x float64) float64 {
		if x > 0 {
			return 1
		}
		return 0
	})
}

func (ops) LayerNorm(y, mean, rstd, x, gamma, beta kernel.Buffer, rows, cols int) {
	yy, mu, rs, xx := floats(y), floats(mean), floats(rstd), floats(x)
	g, b := floats(gamma), floats(beta)
	for r := range rows {
		row, out := xx[r*cols:(r+1)*cols], yy[r*cols:(r+1)*cols]
		m, s := 0.0, 0.0
		for _, e := range row {
			m += e / float64(cols)
		}
		for _, e := range row {
			s += (e - m) * (e - m) / float64(cols)
		}
		mu[r], rs[r] = m, 1/math.Sqrt(s+kernel.LayerNormEps)
		for j, e := range row {
			out[j] = (e-m)*rs[r]*g[j] + b[j]
		}
	}
}

func (ops) LayerNormBackward(dx, dgamma, dbeta, dy, x, mean, rstd, gamma kernel.Buffer, rows, cols int) {
	dxx, dg, db := floats(dx), floats(dgamma), floats(dbeta)
	dyy, xx, mu, rs, g := floats(dy), floats(x), floats(mean), floats(rstd), floats(gamma)
	clear(dg)
	clear(db)
	hat, dhat := make([]float64, cols), make([]float64, cols)
	for r := range rows {
		s, t := 0.0, 0.0 // means over the row of dhat and of dhat*hat
		for j := range cols {
			i := r*cols + j
			hat[j], dhat[j] = (xx[i]-mu[r])*rs[r], dyy[i]*g[j]
			dg[j] += dyy[i] * hat[j]
			db[j] += dyy[i]
			s += dhat[j] / float64(cols)
			t += dhat[j] * hat[j] / float64(cols)
		}
		for j := range cols {
			dxx[r*cols+j] = rs[r] * (dhat[j] - s - hat[j]*t)
		}
	}
}

func (ops) Embedding(y, table, ids kernel.Buffer, rows, cols int) {
	yy, tt, id := floats(y), floats(table), ints(ids)
	clear(yy)
	for r, t := range id {
		if t >= 0 && int(t) < len(tt)/cols {
			copy(yy[r*cols:(r+1)*cols], tt[int(t)*cols:])
		}
	}
}

func (ops) EmbeddingBackward(dtable, dy, ids kernel.Buffer, rows, cols int) {
	dt, dyy, id := floats(dtable), floats(dy), ints(ids)
	clear(dt)
	for r, t := range id {
		if t >= 0 && int(t) < len(dt)/cols {
			for j := range cols {
				dt[int(t)*cols+j] += dyy[r*cols+j]
			}
		}
	}
}

func (ops) MeanRows(y, x kernel.Buffer, groups, n, cols int) {
	yy, xx := floats(y), floats(x)
	clear(yy)
	for i, e := range xx {
		yy[i/(n*cols)*cols+i%cols] += e / float64(n)
	}
}

func (ops) MeanRowsBackward(dx, dy kernel.Buffer, groups, n, cols int) {
	dxx, dyy := floats(dx), floats(dy)
	for i := range dxx {
		dxx[i] = dyy[i/(n*cols)*cols+i%cols] / float64(n)
	}
}

func (o ops) CrossEntropy(loss, dlogits, logits, labels kernel.Buffer, rows, cols int) {
	l, x, lab := floats(loss), floats(logits), ints(labels)
	var dx []float64
	if !dlogits.None() {
		dx = floats(dlogits)
	}
	for _, t := range lab {
		if int(t) >= cols {
			o.d.Fail(fmt.Errorf("f64: CrossEntropy: label %d of %d classes", t, cols))
			return
		}
	}
	for r, t := range lab {
		p := softmax(x[r*cols : (r+1)*cols])
		l[r] = 0
		if t >= 0 {
			l[r] = -math.Log(p[t])
			p[t]--
		} else {
			clear(p)
		}
		if dx != nil {
			copy(dx[r*cols:], p)
		}
	}
}

func softmax(x []float64) []float64 {
	p := make([]float64, len(x))
	hi, sum := math.Inf(-1), 0.0
	for _, e := range x {
		hi = max(hi, e)
	}
	for i, e := range x {
		p[i] = math.Exp(e - hi)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

func (ops) Argmax(idx, x kernel.Buffer, rows, cols int) {
	ii, xx := ints(idx), floats(x)
	for r := range rows {
		ii[r] = 0
		for j, e := range xx[r*cols : (r+1)*cols] {
			if e > xx[r*cols+int(ii[r])] {
				ii[r] = int32(j)
			}
		}
	}
}

func (ops) Sum(dst, x kernel.Buffer) {
	y, xx := floats(dst), floats(x)
	y[0] = 0
	for _, e := range xx {
		y[0] += e
	}
}

func (ops) MaxAbs(dst, x kernel.Buffer) {
	y, xx := floats(dst), floats(x)
	y[0] = 0
	for _, e := range xx {
		if math.IsNaN(e) {
			e = math.Inf(1)
		}
		y[0] = max(y[0], math.Abs(e))
	}
}

func (ops) Quantize(acc, g kernel.Buffer, shift int) {
	a, gg := ints(acc), floats(g)
	for i, e := range gg {
		q := math.RoundToEven(math.Ldexp(e, shift))
		if !math.IsNaN(q) {
			a[i] += int32(min(max(q, -1<<30), 1<<30))
		}
	}
}

func (ops) QuantizeStochastic(acc, g kernel.Buffer, shift int, key uint64) {
	a, gg := ints(acc), floats(g)
	for i, e := range gg {
		v := min(max(math.Ldexp(e, shift), -1<<30), 1<<30)
		if !math.IsNaN(v) {
			a[i] += int32(math.Ceil(v - math.Ldexp(float64(ref.RandomBits(key, i)), -24)))
		}
	}
}

func (ops) AddI32(acc, x kernel.Buffer) {
	a, xx := ints(acc), ints(x)
	for i, e := range xx {
		a[i] += e
	}
}

func (ops) SumSquares(dst, x kernel.Buffer) {
	y, xx := ints(dst), ints(x)
	var hi, lo, carry uint64
	for _, e := range xx {
		lo, carry = bits.Add64(lo, uint64(int64(e)*int64(e)), 0)
		hi += carry
	}
	y[0], y[1], y[2], y[3] = int32(uint32(lo)), int32(uint32(lo>>32)), int32(uint32(hi)), int32(uint32(hi>>32))
}

func (ops) AdamW(p, m, vv, q kernel.Buffer, h kernel.AdamW) {
	pp, mm, m2 := floats(p), floats(m), floats(vv)
	sum := func(i int) float64 { return floats(q)[i] }
	if q.Mem.DType() == kernel.I32 {
		sum = func(i int) float64 { return float64(ints(q)[i]) }
	}
	b1, b2 := float64(h.Beta1), float64(h.Beta2)
	for i := range pp {
		g := sum(i) * float64(h.Scale)
		mm[i] = b1*mm[i] + (1-b1)*g
		m2[i] = b2*m2[i] + (1-b2)*g*g
		step := mm[i] * float64(h.C1) / (math.Sqrt(m2[i]*float64(h.C2)) + float64(h.Eps))
		pp[i] -= float64(h.Decay)*pp[i] + float64(h.LR)*step
	}
}

// ToBF16 keeps the value as it is.
func (ops) ToBF16(dst, src kernel.Buffer) {
	unary(dst, src, func(x float64) float64 { return x })
}

func (ops) FromBF16(dst, src kernel.Buffer) {
	unary(dst, src, func(x float64) float64 { return x })
}
