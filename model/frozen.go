package model

import "shoal/kernel"

// frozenOps are a device's ops for a stage with frozen parameters, whose gradients nobody wants: Backward gets the zero
// Buffer for them, and an op that would write nothing else is left out. So layers need not know what is frozen.
type frozenOps struct {
	kernel.Ops
	c *Ctx
}

func (o *frozenOps) MatMul(t kernel.Trans, c, a, b kernel.Buffer, m, n, k int, accumulate bool) {
	if !c.None() {
		o.Ops.MatMul(t, c, a, b, m, n, k, accumulate)
	}
}

func (o *frozenOps) SumRows(dtable, dy kernel.Buffer, rows, cols, period int) {
	if !dtable.None() {
		o.Ops.SumRows(dtable, dy, rows, cols, period)
	}
}

func (o *frozenOps) EmbeddingBackward(dtable, dy, ids kernel.Buffer, rows, cols int) {
	if !dtable.None() {
		o.Ops.EmbeddingBackward(dtable, dy, ids, rows, cols)
	}
}

func (o *frozenOps) Add(y, a, b kernel.Buffer) {
	if !y.None() {
		o.Ops.Add(y, a, b)
	}
}

func (o *frozenOps) Zero(y kernel.Buffer) {
	if !y.None() {
		o.Ops.Zero(y)
	}
}

func (o *frozenOps) Copy(dst, src kernel.Buffer) {
	if !dst.None() {
		o.Ops.Copy(dst, src)
	}
}

func (o *frozenOps) LayerNormBackward(dx, dgamma, dbeta, dy, x, mean, rstd, gamma kernel.Buffer, rows, cols int) {
	for _, d := range []*kernel.Buffer{&dgamma, &dbeta} {
		if d.None() {
			*d = o.c.Temp(cols)
		}
	}
	o.Ops.LayerNormBackward(dx, dgamma, dbeta, dy, x, mean, rstd, gamma, rows, cols)
}
