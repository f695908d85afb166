package nn

import (
	"shoal/kernel"
	"shoal/model"
)

// Linear is y = x W + b from rows of In values to rows of Out. Its weight is stored as (Out, In), the way of PyTorch's
// nn.Linear, or, if Conv1D is set, as (In, Out), the way of GPT-2.
type Linear struct {
	In, Out int
	Conv1D  bool
}

// Forward writes y (rows, Out) from x (rows, In).
func (l Linear) Forward(c *model.Ctx, y, x, w, b kernel.Buffer, rows int) {
	if l.Conv1D {
		c.MatMul(kernel.NN, y, x, w, rows, l.Out, l.In, false)
	} else {
		c.MatMul(kernel.NT, y, x, w, rows, l.Out, l.In, false)
	}
	c.AddRows(y, y, b, rows, l.Out, 1)
}

// Backward writes dw, db (Out), and dx (rows, In) unless it is the zero Buffer. dx may be x, since x is read before.
func (l Linear) Backward(c *model.Ctx, dx, dw, db, dy, x, w kernel.Buffer, rows int) {
	back := kernel.NN // dy (rows, Out) * W (Out, In)
	if l.Conv1D {
		back = kernel.NT
		c.MatMul(kernel.TN, dw, x, dy, l.In, l.Out, rows, false)
	} else {
		c.MatMul(kernel.TN, dw, dy, x, l.Out, l.In, rows, false)
	}
	c.SumRows(db, dy, rows, l.Out, 1)
	if !dx.None() {
		c.MatMul(back, dx, dy, w, rows, l.In, l.Out, false)
	}
}
