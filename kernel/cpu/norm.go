package cpu

import "shoal/kernel"

func (o *ops) LayerNorm(y, mean, rstd, x, gamma, beta kernel.Buffer, rows, cols int) {
	ys, ms, rs, xs, gs, bs := f32(y), f32(mean), f32(rstd), f32(x), f32(gamma), f32(beta)
	o.crew.split(rows, grainMedium/max(cols, 1), func(_, lo, hi int) {
		o.loops.layerNorm(ys[lo*cols:hi*cols], ms[lo:hi], rs[lo:hi], xs[lo*cols:hi*cols], gs, bs)
	})
}

// LayerNormBackward reads rows once, if one worker does all of it and can. Otherwise it makes dgamma and dbeta by columns first, because dx
// may take dy's place.
func (o *ops) LayerNormBackward(dx, dgamma, dbeta, dy, x, mean, rstd, gamma kernel.Buffer, rows, cols int) {
	dxs, dgs, dbs, dys, xs := f32(dx), f32(dgamma), f32(dbeta), f32(dy), f32(x)
	ms, rs, gs := f32(mean), f32(rstd), f32(gamma)
	if o.crew.size == 1 && o.loops.layerNormBackwardColumns != nil {
		o.loops.layerNormBackwardColumns(dxs, dgs, dbs, dys, xs, ms, rs, gs)
		return
	}
	o.byColumns(rows, cols, func(lo, hi int) {
		at := min(lo, len(dys)) // no rows, no elements
		o.loops.normColumns(dgs[lo:hi], dbs[lo:hi], dys[at:], xs[at:], ms, rs, cols)
	})
	o.crew.split(rows, grainMedium/max(cols, 1), func(_, lo, hi int) {
		o.loops.layerNormBackward(dxs[lo*cols:hi*cols], dys[lo*cols:hi*cols], xs[lo*cols:hi*cols], ms[lo:hi], rs[lo:hi], gs)
	})
}
