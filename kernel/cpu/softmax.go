package cpu

import "shoal/kernel"

// SoftmaxLen is how many elements a matrix of scores (rows, cols) of Softmax has: rows are some further apart than they are long.
func SoftmaxLen(rows, cols int) int { return rows * apart(cols) }

// Softmax is the loop over rows inside Attention by itself, for who measures it: of each row of scores e (rows, cols) it makes
// exp(scale*e - max), which Attention divides by their sum later, and stats (rows, 2), their maxima and sums.
func (d *Device) Softmax(e, stats kernel.Buffer, rows, cols int, scale float32) {
	es, st, ld := f32(e), f32(stats), apart(cols)
	d.crew.split(rows, grainHeavy/max(cols, 1), taskFunc(func(_, lo, hi int) {
		d.loops.softmax(es[lo*ld:hi*ld], ragged{rows: hi - lo, ld: ld, n: cols}, scale, st[2*lo:2*hi])
	}))
}

// SoftmaxBackward is the loop over rows inside AttentionBackward by itself. Of each row of scores e (rows, cols) it makes
// the weights p = exp(scale*e - max)/sum again, with stats (rows, 2) as Softmax leaves them, and of ds, the gradient of the
// weights, that of the scores: p*(ds - delta)*scale, with delta (rows).
func (d *Device) SoftmaxBackward(e, ds, stats, delta kernel.Buffer, rows, cols int, scale float32) {
	es, dss, st, dl, ld := f32(e), f32(ds), f32(stats), f32(delta), apart(cols)
	d.crew.split(rows, grainHeavy/max(cols, 1), taskFunc(func(_, lo, hi int) {
		d.loops.softmaxBackward(es[lo*ld:hi*ld], dss[lo*ld:hi*ld], ragged{rows: hi - lo, ld: ld, n: cols}, scale,
			st[2*lo:2*hi], dl[lo:hi])
	}))
}
