package ref

import "shoal/kernel"

// LayerNorm (Ba, Kiros and Hinton 2016, arXiv 1607.06450) of each row of x (rows, cols): y = (x - mean) * rstd * gamma +
// beta with mean and variance by row reductions.
func LayerNorm(y, mean, rstd, x, gamma, beta []float32, rows, cols int) {
	n := float32(cols)
	for r := range rows {
		xr, yr := x[r*cols:][:cols], y[r*cols:][:cols]
		mu := laneSum(cols, func(i int) float32 { return xr[i] }) / n
		variance := laneSum(cols, func(i int) float32 {
			d := xr[i] - mu
			return float32(d * d)
		}) / n
		rs := 1 / Sqrt(variance+kernel.LayerNormEps)
		for i := range xr {
			yr[i] = float32(float32((xr[i]-mu)*rs)*gamma[i]) + beta[i]
		}
		mean[r], rstd[r] = mu, rs
	}
}

// LayerNormBackward: with xhat = (x - mean) * rstd and g = dy * gamma,
//
//	dx = rstd * ((g - mean(g)) - xhat * mean(g*xhat)),  dgamma = sum of dy*xhat,  dbeta = sum of dy
//
// where the means are row reductions and the sums chains over rows from 0. dx may be dy.
func LayerNormBackward(dx, dgamma, dbeta, dy, x, mean, rstd, gamma []float32, rows, cols int) {
	clear(dgamma)
	clear(dbeta)
	n := float32(cols)
	for r := range rows {
		dyr, dxr := dy[r*cols:][:cols], dx[r*cols:][:cols]
		xhat := func(i int) float32 { return float32((x[r*cols+i] - mean[r]) * rstd[r]) }
		g := func(i int) float32 { return float32(dyr[i] * gamma[i]) }
		for i := range dyr {
			dgamma[i] += float32(dyr[i] * xhat(i))
			dbeta[i] += dyr[i]
		}
		mg := laneSum(cols, g) / n
		mgx := laneSum(cols, func(i int) float32 { return float32(g(i) * xhat(i)) }) / n
		for i := range dyr {
			dxr[i] = rstd[r] * ((g(i) - mg) - float32(xhat(i)*mgx))
		}
	}
}
