package gemm

import "time"

// Peak measures, for about d, how many floating-point operations a second this path's fused multiply-adds (2 each) can
// do on one core: all operands are in registers, and no result is waited for. Of "generic" they are a multiplication
// and an addition in plain Go.
func (k *Kernel) Peak(d time.Duration) float64 {
	const rounds = 1 << 14
	k.spin(rounds) // wakes the core
	n := 0
	start := time.Now()
	for time.Since(start) < d {
		k.spin(rounds)
		n += rounds
	}
	return float64(n) * float64(k.spinOps) / time.Since(start).Seconds()
}

// spinGeneric has eight chains.
func spinGeneric(n int) {
	var a, b, c, d, e, f, g, h float32
	x, y := kept, kept+1
	for range n {
		a, b, c, d = a*x+y, b*x+y, c*x+y, d*x+y
		e, f, g, h = e*x+y, f*x+y, g*x+y, h*x+y
	}
	kept = (a + b + c + d + e + f + g + h) * 0
}

// kept makes the compiler believe that spinGeneric's results are wanted.
var kept float32
