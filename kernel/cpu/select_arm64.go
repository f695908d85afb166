//go:build !noasm

package cpu

// selectLoops picks the inner loops for a code path, which gemm.Select has found to be possible here.
func selectLoops(path string) loops {
	if path == "neon" {
		return loopsNEON()
	}
	return loopsGeneric
}

// loopsNEON has assembly for what is slowest in plain Go. It does whole vectors; plain Go does what is left behind them.
func loopsNEON() loops {
	l := loopsGeneric
	l.add = func(y, a, b []float32) {
		n := whole(len(y))
		if n > 0 {
			add128(&y[0], first(a, n), first(b, n), n)
		}
		addGeneric(y[n:], a[n:], b[n:])
	}
	l.scale = func(y, x []float32, by float32) {
		n := whole(len(x))
		if n > 0 {
			scale128(first(y, n), &x[0], n, by)
		}
		scaleGeneric(y[n:], x[n:], by)
	}
	l.gelu = func(y, x []float32) {
		n := whole(len(x))
		if n > 0 {
			gelu128(first(y, n), &x[0], n)
		}
		geluGeneric(y[n:], x[n:])
	}
	l.geluBackward = func(dx, x, dy []float32) {
		n := whole(len(x))
		if n > 0 {
			geluBackward128(first(dx, n), &x[0], first(dy, n), n)
		}
		geluBackwardGeneric(dx[n:], x[n:], dy[n:])
	}
	l.softmax = func(e []float32, r ragged, scale float32, stats []float32) { softmaxBy(expNEON, e, r, scale, stats) }
	l.softmaxBackward = func(e, ds []float32, r ragged, scale float32, stats, delta []float32) {
		softmaxBackwardBy(expNEON, e, ds, r, scale, stats, delta)
	}
	l.quantize = func(acc []int32, g []float32, a, b float32) {
		n := whole(len(g))
		if n > 0 {
			quantize128(first(acc, n), &g[0], n, a, b)
		}
		quantizeGeneric(acc[n:], g[n:], a, b)
	}
	l.adamW = func(p, m, v []float32, q []int32, h *adamScalars) {
		n := whole(len(p))
		if n > 0 {
			adamW128(&p[0], first(m, n), first(v, n), first(q, n), n, &h[0])
		}
		adamWGeneric(p[n:], m[n:], v[n:], q[n:], h)
	}
	return l
}

func expNEON(e, x []float32, sub float32) {
	n := whole(len(x))
	if n > 0 {
		exp128(first(e, n), &x[0], n, sub)
	}
	expGeneric(e[n:], x[n:], sub)
}

// whole is how many of n elements are in whole vectors of 8.
func whole(n int) int { return n &^ 7 }
