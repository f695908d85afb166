package cpu

import "shoal/kernel"

type layerNorm struct {
	*ops
	y, mean, rstd, x, gamma, beta []float32
	cols                          int
}

func (o *ops) LayerNorm(y, mean, rstd, x, gamma, beta kernel.Buffer, rows, cols int) {
	run(o, &o.args.layerNorm, layerNorm{o, f32(y), f32(mean), f32(rstd), f32(x), f32(gamma), f32(beta), cols},
		rows, grainMedium/max(cols, 1))
}

func (a *layerNorm) do(_, lo, hi int) {
	i, j := lo*a.cols, hi*a.cols
	a.loops.layerNorm(a.y[i:j], a.mean[lo:hi], a.rstd[lo:hi], a.x[i:j], a.gamma, a.beta)
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
	total, grain := byColumns(rows, cols)
	run(o, &o.args.normColumns, normColumns{o, dgs, dbs, dys, xs, ms, rs, cols}, total, grain)
	run(o, &o.args.normRows, normRows{o, dxs, dys, xs, ms, rs, gs, cols}, rows, grainMedium/max(cols, 1))
}

type normColumns struct {
	*ops
	dgamma, dbeta, dy, x, mean, rstd []float32
	cols                             int
}

func (a *normColumns) do(_, lo, hi int) {
	lo, hi = columns(lo, hi, a.cols)
	at := min(lo, len(a.dy)) // no rows, no elements
	a.loops.normColumns(a.dgamma[lo:hi], a.dbeta[lo:hi], a.dy[at:], a.x[at:], a.mean, a.rstd, a.cols)
}

type normRows struct {
	*ops
	dx, dy, x, mean, rstd, gamma []float32
	cols                         int
}

func (a *normRows) do(_, lo, hi int) {
	i, j := lo*a.cols, hi*a.cols
	a.loops.layerNormBackward(a.dx[i:j], a.dy[i:j], a.x[i:j], a.mean[lo:hi], a.rstd[lo:hi], a.gamma)
}
