package cpu

import (
	"shoal/kernel"
	"shoal/kernel/ref"
)

func (o *ops) LayerNorm(y, mean, rstd, x, gamma, beta kernel.Buffer, rows, cols int) {
	ys, ms, rs, xs, gs, bs := f32(y), f32(mean), f32(rstd), f32(x), f32(gamma), f32(beta)
	n := float32(cols)
	o.crew.split(rows, grainMedium/max(cols, 1), func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			x := xs[r*cols:][:cols]
			mu := sum(x) / n
			sd := 1 / ref.Sqrt(sumSquares(x, mu)/n+kernel.LayerNormEps)
			y, gamma, beta := ys[r*cols:][:len(x)], gs[:len(x)], bs[:len(x)]
			for i, v := range x {
				y[i] = float32(float32((v-mu)*sd)*gamma[i]) + beta[i]
			}
			ms[r], rs[r] = mu, sd
		}
	})
}

// LayerNormBackward makes dgamma and dbeta by columns first, because dx may take dy's place.
func (o *ops) LayerNormBackward(dx, dgamma, dbeta, dy, x, mean, rstd, gamma kernel.Buffer, rows, cols int) {
	dxs, dgs, dbs, dys, xs := f32(dx), f32(dgamma), f32(dbeta), f32(dy), f32(x)
	ms, rs, gs := f32(mean), f32(rstd), f32(gamma)
	o.byColumns(rows, cols, func(lo, hi int) {
		sumColumns(dbs[lo:hi], dys[min(lo, len(dys)):], cols, rows)
		dg := dgs[lo:hi]
		clear(dg)
		for r := range rows {
			mu, sd := ms[r], rs[r]
			x, dy := xs[r*cols+lo:][:len(dg)], dys[r*cols+lo:][:len(dg)]
			for i := range dg {
				dg[i] += float32(dy[i] * float32((x[i]-mu)*sd))
			}
		}
	})
	n := float32(cols)
	o.crew.split(rows, grainMedium/max(cols, 1), func(w, lo, hi int) {
		xhat, g := o.scratch[w].floats(0, cols), o.scratch[w].floats(1, cols)
		for r := lo; r < hi; r++ {
			mu, sd := ms[r], rs[r]
			dx := dxs[r*cols:][:cols]
			x, dy, gamma := xs[r*cols:][:cols], dys[r*cols:][:cols], gs[:cols]
			for i := range xhat {
				xhat[i] = float32((x[i] - mu) * sd)
				g[i] = float32(dy[i] * gamma[i])
			}
			mg, mgx := sum(g)/n, dot(g, xhat)/n
			for i := range dx {
				dx[i] = sd * ((g[i] - mg) - float32(xhat[i]*mgx))
			}
		}
	})
}
