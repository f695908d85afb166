package ref

import (
	"shoal/kernel"
	"shoal/kernel/host"
)

// Device is the reference device: one goroutine, Go memory, fresh float memory poisoned with NaN.
type Device struct {
	*host.Heap
	kernel.Checked
}

var _ kernel.Device = (*Device)(nil)

// New opens a reference device.
func New() *Device {
	h := host.New(true)
	return &Device{Heap: h, Checked: kernel.Checked{Raw: Ops{}, Host: h}}
}

// Name implements kernel.Device.
func (*Device) Name() string { return "ref" }

// Ops are the ops on buffers of package host, unchecked. A faster device embeds them and overrides what it does better.
type Ops struct{}

var _ kernel.Ops = Ops{}

var f32, i32, bf16 = host.F32, host.I32, host.BF16

func (Ops) MatMul(t kernel.Trans, c, a, b kernel.Buffer, m, n, k int, accumulate bool) {
	MatMul(t, f32(c), f32(a), f32(b), m, n, k, accumulate)
}

func (Ops) AddRows(y, x, table kernel.Buffer, rows, cols, period int) {
	AddRows(f32(y), f32(x), f32(table), rows, cols, period)
}

func (Ops) SumRows(dtable, dy kernel.Buffer, rows, cols, period int) {
	SumRows(f32(dtable), f32(dy), rows, cols, period)
}

func (Ops) Add(y, a, b kernel.Buffer) {
	ys, as, bs := f32(y), f32(a), f32(b)
	for i := range ys {
		ys[i] = as[i] + bs[i]
	}
}

func (Ops) Zero(y kernel.Buffer) {
	switch y.Mem.DType() {
	case kernel.F32:
		clear(f32(y))
	case kernel.I32:
		clear(i32(y))
	case kernel.BF16:
		clear(bf16(y))
	}
}

func (Ops) Copy(dst, src kernel.Buffer) {
	switch dst.Mem.DType() {
	case kernel.F32:
		copy(f32(dst), f32(src))
	case kernel.I32:
		copy(i32(dst), i32(src))
	case kernel.BF16:
		copy(bf16(dst), bf16(src))
	}
}

func (Ops) GELU(y, x kernel.Buffer)              { unary(f32(y), f32(x), GELU) }
func (Ops) GELUBackward(dx, x, dy kernel.Buffer) { binary(f32(dx), f32(x), f32(dy), GELUBackward) }
func (Ops) ReLU(y, x kernel.Buffer)              { unary(f32(y), f32(x), ReLU) }
func (Ops) ReLUBackward(dx, x, dy kernel.Buffer) { binary(f32(dx), f32(x), f32(dy), ReLUBackward) }
func (Ops) ToBF16(dst, src kernel.Buffer)        { unary(bf16(dst), f32(src), ToBF16) }
func (Ops) FromBF16(dst, src kernel.Buffer)      { unary(f32(dst), bf16(src), FromBF16) }

func unary[X, Y any](y []Y, x []X, f func(X) Y) {
	for i := range y {
		y[i] = f(x[i])
	}
}

func binary(y, a, b []float32, f func(a, b float32) float32) {
	for i := range y {
		y[i] = f(a[i], b[i])
	}
}

func (Ops) LayerNorm(y, mean, rstd, x, gamma, beta kernel.Buffer, rows, cols int) {
	LayerNorm(f32(y), f32(mean), f32(rstd), f32(x), f32(gamma), f32(beta), rows, cols)
}

func (Ops) LayerNormBackward(dx, dgamma, dbeta, dy, x, mean, rstd, gamma kernel.Buffer, rows, cols int) {
	LayerNormBackward(f32(dx), f32(dgamma), f32(dbeta), f32(dy), f32(x), f32(mean), f32(rstd), f32(gamma), rows, cols)
}

func (Ops) Attention(y, stats, qkv kernel.Buffer, s kernel.AttentionShape) {
	Attention(f32(y), f32(stats), f32(qkv), s)
}

func (Ops) AttentionBackward(dqkv, dy, y, qkv, stats kernel.Buffer, s kernel.AttentionShape) {
	AttentionBackward(f32(dqkv), f32(dy), f32(y), f32(qkv), f32(stats), s)
}

func (Ops) Embedding(y, table, ids kernel.Buffer, rows, cols int) {
	Embedding(f32(y), f32(table), i32(ids), cols)
}

func (Ops) EmbeddingBackward(dtable, dy, ids kernel.Buffer, rows, cols int) {
	EmbeddingBackward(f32(dtable), f32(dy), i32(ids), cols)
}

func (Ops) MeanRows(y, x kernel.Buffer, groups, n, cols int) {
	MeanRows(f32(y), f32(x), groups, n, cols)
}

func (Ops) MeanRowsBackward(dx, dy kernel.Buffer, groups, n, cols int) {
	MeanRowsBackward(f32(dx), f32(dy), groups, n, cols)
}

func (Ops) CrossEntropy(loss, dlogits, logits, labels kernel.Buffer, rows, cols int) {
	var d []float32
	if !dlogits.None() {
		d = f32(dlogits)
	}
	CrossEntropy(f32(loss), d, f32(logits), i32(labels), rows, cols)
}

func (Ops) Argmax(idx, x kernel.Buffer, rows, cols int) { Argmax(i32(idx), f32(x), rows, cols) }

func (Ops) Sum(dst, x kernel.Buffer)    { f32(dst)[0] = Sum(f32(x)) }
func (Ops) MaxAbs(dst, x kernel.Buffer) { f32(dst)[0] = MaxAbs(f32(x)) }

func (Ops) Quantize(acc, g kernel.Buffer, shift int) {
	as, gs := i32(acc), f32(g)
	for i := range as {
		as[i] += Quantum(gs[i], shift)
	}
}

func (Ops) QuantizeStochastic(acc, g kernel.Buffer, shift int, key uint64) {
	as, gs := i32(acc), f32(g)
	for i := range as {
		as[i] += StochasticQuantum(gs[i], shift, RandomBits(key, i))
	}
}

func (Ops) AddI32(acc, x kernel.Buffer) {
	as, xs := i32(acc), i32(x)
	for i := range as {
		as[i] += xs[i]
	}
}

func (Ops) SumSquares(dst, x kernel.Buffer) {
	s := SumSquares(i32(x))
	copy(i32(dst), s[:])
}

func (Ops) AdamW(p, m, v, q kernel.Buffer, h kernel.AdamW) {
	ps, ms, vs := f32(p), f32(m), f32(v)
	sum := func(i int) float32 { return float32(i32(q)[i]) }
	if q.Mem.DType() == kernel.F32 {
		sum = func(i int) float32 { return f32(q)[i] }
	}
	for i := range ps {
		AdamW(&ps[i], &ms[i], &vs[i], sum(i), h)
	}
}
