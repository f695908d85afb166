package cpu

import (
	"shoal/kernel"
	"shoal/kernel/ref"
)

// Plain Go for the loops over rows.

func softmaxGeneric(e []float32, r ragged, scale float32, stats []float32) {
	softmaxBy(expGeneric, e, r, scale, stats)
}

func softmaxBackwardGeneric(e, ds []float32, r ragged, scale float32, stats, delta []float32) {
	softmaxBackwardBy(expGeneric, e, ds, r, scale, stats, delta)
}

// exponential is e = exp(x - sub); e may be x.
type exponential func(e, x []float32, sub float32)

func softmaxBy(exp exponential, e []float32, r ragged, scale float32, stats []float32) {
	for i := range r.rows {
		row := r.row(e, i)
		for j := range row {
			row[j] *= scale
		}
		m := greatest(row)
		exp(row, row, m)
		stats[2*i], stats[2*i+1] = m, sum(row)
	}
}

func softmaxBackwardBy(exp exponential, e, ds []float32, r ragged, scale float32, stats, delta []float32) {
	for i := range r.rows {
		p, d := r.row(e, i), r.row(ds, i)
		for j := range p {
			p[j] *= scale
		}
		exp(p, p, stats[2*i])
		inv, del := 1/stats[2*i+1], delta[i]
		for j, x := range p {
			x = float32(x * inv)
			p[j] = x
			d[j] = float32(x*(d[j]-del)) * scale
		}
	}
}

func divideRowsGeneric(y []float32, rows, ld, n int, stats []float32) {
	for i := range rows {
		row := y[i*ld:][:n]
		scaleGeneric(row, row, 1/stats[2*i+1])
	}
}

func dotRowsGeneric(dots, a, b []float32, ld, n int) {
	for i := range dots {
		dots[i] = dot(a[i*ld:][:n], b[i*ld:][:n])
	}
}

func layerNormGeneric(y, mean, rstd, x, gamma, beta []float32) {
	cols := len(gamma)
	n := float32(cols)
	for r := range mean {
		x, y, beta := x[r*cols:][:cols], y[r*cols:][:cols], beta[:cols]
		mu := sum(x) / n
		rs := 1 / ref.Sqrt(sumSquares(x, mu)/n+kernel.LayerNormEps)
		for i, v := range x {
			y[i] = float32(float32((v-mu)*rs)*gamma[i]) + beta[i]
		}
		mean[r], rstd[r] = mu, rs
	}
}

func layerNormBackwardGeneric(dx, dy, x, mean, rstd, gamma []float32) {
	cols := len(gamma)
	n := float32(cols)
	for r, mu := range mean {
		rs := rstd[r]
		x, dy, dx := x[r*cols:][:cols], dy[r*cols:][:cols], dx[r*cols:][:cols]
		var sumG, sumGX lanes
		for i, v := range x {
			g := float32(dy[i] * gamma[i])
			sumG[i&15] += g
			sumGX[i&15] += float32(g * float32((v-mu)*rs))
		}
		mg, mgx := sumG.fold()/n, sumGX.fold()/n
		for i, v := range x {
			dx[i] = rs * ((float32(dy[i]*gamma[i]) - mg) - float32(float32((v-mu)*rs)*mgx))
		}
	}
}

func normColumnsGeneric(dgamma, dbeta, dy, x, mean, rstd []float32, stride int) {
	clear(dgamma)
	clear(dbeta)
	for r, mu := range mean {
		rs := rstd[r]
		x, dy, dbeta := x[r*stride:][:len(dgamma)], dy[r*stride:][:len(dgamma)], dbeta[:len(dgamma)]
		for i := range dgamma {
			dgamma[i] += float32(dy[i] * float32((x[i]-mu)*rs))
			dbeta[i] += dy[i]
		}
	}
}
