package f64

import (
	"math"
	"math/big"

	"shoal/kernel"
)

// MatMul implements kernel.Ops.
func (d *Device) MatMul(t kernel.Trans, c, a, b kernel.Buffer, m, n, k int, accumulate bool) {
	v := d.op("MatMul")
	y, x, w := v.f(c, m*n), v.f(a, m*k), v.f(b, k*n)
	v.apart(c, a, b)
	if !v.ok() {
		return
	}
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

// AddRows implements kernel.Ops.
func (d *Device) AddRows(y, x, table kernel.Buffer, rows, cols, period int) {
	v := d.op("AddRows")
	if period < 1 {
		v.fail("period %d", period)
	}
	yy, xx, tt := v.f(y, rows*cols), v.f(x, rows*cols), v.f(table, period*cols)
	v.same(y, x)
	v.apart(y, table)
	if !v.ok() {
		return
	}
	for i := range yy {
		yy[i] = xx[i] + tt[i%(period*cols)]
	}
}

// SumRows implements kernel.Ops.
func (d *Device) SumRows(dtable, dy kernel.Buffer, rows, cols, period int) {
	v := d.op("SumRows")
	if period < 1 {
		v.fail("period %d", period)
	}
	dt, dyy := v.f(dtable, period*cols), v.f(dy, rows*cols)
	v.apart(dtable, dy)
	if !v.ok() {
		return
	}
	clear(dt)
	for i := range dyy {
		dt[i%(period*cols)] += dyy[i]
	}
}

// Add implements kernel.Ops.
func (d *Device) Add(y, a, b kernel.Buffer) {
	v := d.op("Add")
	yy, aa, bb := v.f(y, y.Len), v.f(a, y.Len), v.f(b, y.Len)
	v.same(y, a, b)
	if !v.ok() {
		return
	}
	for i := range yy {
		yy[i] = aa[i] + bb[i]
	}
}

// Zero implements kernel.Ops.
func (d *Device) Zero(y kernel.Buffer) {
	v := d.op("Zero")
	m := v.window(y, y.Len)
	if m == nil {
		return
	}
	if m.t == kernel.I32 {
		clear(m.i[y.Off : y.Off+y.Len])
	} else {
		clear(m.f[y.Off : y.Off+y.Len])
	}
}

// Copy implements kernel.Ops.
func (d *Device) Copy(dst, src kernel.Buffer) {
	v := d.op("Copy")
	to, from := v.window(dst, dst.Len), v.window(src, dst.Len)
	v.same(dst, src)
	if v.ok() && to.t != from.t {
		v.fail("from %v to %v", from.t, to.t)
	}
	if !v.ok() {
		return
	}
	if to.t == kernel.I32 {
		copy(to.i[dst.Off:], from.i[src.Off:src.Off+src.Len])
	} else {
		copy(to.f[dst.Off:], from.f[src.Off:src.Off+src.Len])
	}
}

// unary computes y = f(x) element by element.
func (d *Device) unary(op string, y, x kernel.Buffer, f func(float64) float64) {
	v := d.op(op)
	yy, xx := v.f(y, x.Len), v.f(x, x.Len)
	v.same(y, x)
	if !v.ok() {
		return
	}
	for i := range yy {
		yy[i] = f(xx[i])
	}
}

// unaryBackward computes dx = dy * df(x) element by element.
func (d *Device) unaryBackward(op string, dx, x, dy kernel.Buffer, df func(float64) float64) {
	v := d.op(op)
	dxx, xx, dyy := v.f(dx, x.Len), v.f(x, x.Len), v.f(dy, x.Len)
	v.same(dx, dy)
	v.apart(dx, x)
	if !v.ok() {
		return
	}
	for i := range dxx {
		dxx[i] = dyy[i] * df(xx[i])
	}
}

// gelu(x) = x/2 * (1 + tanh(geluA * (x + geluB x^3)))
const (
	geluA = 0.7978845608028654 // sqrt(2/pi)
	geluB = 0.044715
)

// GELU implements kernel.Ops.
func (d *Device) GELU(y, x kernel.Buffer) {
	d.unary("GELU", y, x, func(x float64) float64 {
		return 0.5 * x * (1 + math.Tanh(geluA*(x+geluB*x*x*x)))
	})
}

// GELUBackward implements kernel.Ops.
func (d *Device) GELUBackward(dx, x, dy kernel.Buffer) {
	d.unaryBackward("GELUBackward", dx, x, dy, func(x float64) float64 {
		t := math.Tanh(geluA * (x + geluB*x*x*x))
		return 0.5*(1+t) + 0.5*x*(1-t*t)*geluA*(1+3*geluB*x*x)
	})
}

// ReLU implements kernel.Ops.
func (d *Device) ReLU(y, x kernel.Buffer) {
	d.unary("ReLU", y, x, func(x float64) float64 { return max(x, 0) })
}

// ReLUBackward implements kernel.Ops.
func (d *Device) ReLUBackward(dx, x, dy kernel.Buffer) {
	d.unaryBackward("ReLUBackward", dx, x, dy, func(x float64) float64 {
		if x > 0 {
			return 1
		}
		return 0
	})
}

// LayerNorm implements kernel.Ops.
func (d *Device) LayerNorm(y, mean, rstd, x, gamma, beta kernel.Buffer, rows, cols int) {
	v := d.op("LayerNorm")
	yy, mu, rs, xx := v.f(y, rows*cols), v.f(mean, rows), v.f(rstd, rows), v.f(x, rows*cols)
	g, b := v.f(gamma, cols), v.f(beta, cols)
	for _, out := range []kernel.Buffer{y, mean, rstd} {
		v.apart(out, x, gamma, beta)
	}
	if !v.ok() {
		return
	}
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

// LayerNormBackward implements kernel.Ops.
func (d *Device) LayerNormBackward(dx, dgamma, dbeta, dy, x, mean, rstd, gamma kernel.Buffer, rows, cols int) {
	v := d.op("LayerNormBackward")
	dxx, dg, db := v.f(dx, rows*cols), v.f(dgamma, cols), v.f(dbeta, cols)
	dyy, xx, mu, rs, g := v.f(dy, rows*cols), v.f(x, rows*cols), v.f(mean, rows), v.f(rstd, rows), v.f(gamma, cols)
	v.same(dx, dy)
	v.apart(dx, x, mean, rstd, gamma)
	v.apart(dgamma, dy, x, mean, rstd, gamma)
	v.apart(dbeta, dy, x, mean, rstd, gamma)
	if !v.ok() {
		return
	}
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

// Embedding implements kernel.Ops.
func (d *Device) Embedding(y, table, ids kernel.Buffer, rows, cols int) {
	v := d.op("Embedding")
	yy, tt, id := v.f(y, rows*cols), v.f(table, table.Len), v.i(ids, rows)
	v.apart(y, table)
	if !v.ok() || cols == 0 {
		return
	}
	clear(yy)
	for r, t := range id {
		if t >= 0 && int(t) < len(tt)/cols {
			copy(yy[r*cols:(r+1)*cols], tt[int(t)*cols:])
		}
	}
}

// EmbeddingBackward implements kernel.Ops.
func (d *Device) EmbeddingBackward(dtable, dy, ids kernel.Buffer, rows, cols int) {
	v := d.op("EmbeddingBackward")
	dt, dyy, id := v.f(dtable, dtable.Len), v.f(dy, rows*cols), v.i(ids, rows)
	v.apart(dtable, dy)
	if !v.ok() || cols == 0 {
		return
	}
	clear(dt)
	for r, t := range id {
		if t >= 0 && int(t) < len(dt)/cols {
			for j := range cols {
				dt[int(t)*cols+j] += dyy[r*cols+j]
			}
		}
	}
}

// MeanRows implements kernel.Ops.
func (d *Device) MeanRows(y, x kernel.Buffer, groups, n, cols int) {
	v := d.op("MeanRows")
	yy, xx := v.f(y, groups*cols), v.f(x, groups*n*cols)
	v.apart(y, x)
	if !v.ok() {
		return
	}
	clear(yy)
	for i, e := range xx {
		yy[i/(n*cols)*cols+i%cols] += e / float64(n)
	}
}

// MeanRowsBackward implements kernel.Ops.
func (d *Device) MeanRowsBackward(dx, dy kernel.Buffer, groups, n, cols int) {
	v := d.op("MeanRowsBackward")
	dxx, dyy := v.f(dx, groups*n*cols), v.f(dy, groups*cols)
	v.apart(dx, dy)
	if !v.ok() {
		return
	}
	for i := range dxx {
		dxx[i] = dyy[i/(n*cols)*cols+i%cols] / float64(n)
	}
}

// CrossEntropy implements kernel.Ops.
func (d *Device) CrossEntropy(loss, dlogits, logits, labels kernel.Buffer, rows, cols int) {
	v := d.op("CrossEntropy")
	l, x, lab := v.f(loss, rows), v.f(logits, rows*cols), v.i(labels, rows)
	var dx []float64
	if !dlogits.None() {
		dx = v.f(dlogits, rows*cols)
	}
	v.same(dlogits, logits)
	v.apart(loss, logits)
	for _, t := range lab {
		if int(t) >= cols {
			v.fail("label %d of %d classes", t, cols)
		}
	}
	if !v.ok() {
		return
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

// Argmax implements kernel.Ops.
func (d *Device) Argmax(idx, x kernel.Buffer, rows, cols int) {
	v := d.op("Argmax")
	ii, xx := v.i(idx, rows), v.f(x, rows*cols)
	if !v.ok() {
		return
	}
	for r := range rows {
		ii[r] = 0
		for j, e := range xx[r*cols : (r+1)*cols] {
			if e > xx[r*cols+int(ii[r])] {
				ii[r] = int32(j)
			}
		}
	}
}

// Sum implements kernel.Ops.
func (d *Device) Sum(dst, x kernel.Buffer) {
	v := d.op("Sum")
	y, xx := v.f(dst, 1), v.f(x, x.Len)
	v.apart(dst, x)
	if !v.ok() {
		return
	}
	y[0] = 0
	for _, e := range xx {
		y[0] += e
	}
}

// MaxAbs implements kernel.Ops.
func (d *Device) MaxAbs(dst, x kernel.Buffer) {
	v := d.op("MaxAbs")
	y, xx := v.f(dst, 1), v.f(x, x.Len)
	v.apart(dst, x)
	if !v.ok() {
		return
	}
	y[0] = 0
	for _, e := range xx {
		if math.IsNaN(e) {
			e = math.Inf(1)
		}
		y[0] = max(y[0], math.Abs(e))
	}
}

// Quantize implements kernel.Ops.
func (d *Device) Quantize(acc, g kernel.Buffer, shift int) {
	v := d.op("Quantize")
	a, gg := v.i(acc, g.Len), v.f(g, g.Len)
	if !v.ok() {
		return
	}
	for i, e := range gg {
		q := math.RoundToEven(math.Ldexp(e, shift))
		if !math.IsNaN(q) {
			a[i] += int32(min(max(q, -1<<30), 1<<30))
		}
	}
}

// AddI32 implements kernel.Ops.
func (d *Device) AddI32(acc, x kernel.Buffer) {
	v := d.op("AddI32")
	a, xx := v.i(acc, x.Len), v.i(x, x.Len)
	v.same(acc, x)
	if !v.ok() {
		return
	}
	for i, e := range xx {
		a[i] += e
	}
}

// SumSquares implements kernel.Ops.
func (d *Device) SumSquares(dst, x kernel.Buffer) {
	v := d.op("SumSquares")
	y, xx := v.i(dst, 4), v.i(x, x.Len)
	v.apart(dst, x)
	if !v.ok() {
		return
	}
	sum, sq, word := new(big.Int), new(big.Int), new(big.Int)
	for _, e := range xx {
		sq.SetInt64(int64(e))
		sum.Add(sum, sq.Mul(sq, sq))
	}
	for i := range y {
		y[i] = int32(uint32(word.Rsh(sum, uint(32*i)).Uint64()))
	}
}

// AdamW implements kernel.Ops.
func (d *Device) AdamW(p, m, vv, q kernel.Buffer, h kernel.AdamW) {
	v := d.op("AdamW")
	pp, mm, m2, qq := v.f(p, q.Len), v.f(m, q.Len), v.f(vv, q.Len), v.i(q, q.Len)
	v.apart(p, m, vv)
	v.apart(m, vv)
	if !v.ok() {
		return
	}
	b1, b2 := float64(h.Beta1), float64(h.Beta2)
	for i := range pp {
		g := float64(qq[i]) * float64(h.Scale)
		mm[i] = b1*mm[i] + (1-b1)*g
		m2[i] = b2*m2[i] + (1-b2)*g*g
		step := mm[i] * float64(h.C1) / (math.Sqrt(m2[i]*float64(h.C2)) + float64(h.Eps))
		pp[i] -= float64(h.Decay)*pp[i] + float64(h.LR)*step
	}
}

// ToBF16 implements kernel.Ops. It keeps the value as it is.
func (d *Device) ToBF16(dst, src kernel.Buffer) {
	d.unary("ToBF16", dst, src, func(x float64) float64 { return x })
}

// FromBF16 implements kernel.Ops.
func (d *Device) FromBF16(dst, src kernel.Buffer) {
	d.unary("FromBF16", dst, src, func(x float64) float64 { return x })
}
