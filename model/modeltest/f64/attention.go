package f64

import (
	"math"

	"shoal/kernel"
)

// Attention: stats holds each row's maximum and sum, as on any device.
func (ops) Attention(y, stats, qkv kernel.Buffer, s kernel.AttentionShape) {
	c := s.H * s.D
	yy, st, x := floats(y), floats(stats), floats(qkv)
	clear(yy)
	eachRow(s, func(b, h, t, seen int) {
		p, hi, sum := attentionRow(x, s, b, h, t, seen)
		row := (b*s.H+h)*s.T + t
		st[2*row], st[2*row+1] = hi, sum
		out := yy[(b*s.T+t)*c+h*s.D:]
		for u := range p {
			for e, w := range part(x, s, b, h, u, 2) {
				out[e] += p[u] * w
			}
		}
	})
}

// AttentionBackward computes the softmax again and does not look at y and stats.
func (ops) AttentionBackward(dqkv, dy, y, qkv, stats kernel.Buffer, s kernel.AttentionShape) {
	c := s.H * s.D
	dx, dyy, x := floats(dqkv), floats(dy), floats(qkv)
	clear(dx)
	scale := 1 / math.Sqrt(float64(s.D))
	eachRow(s, func(b, h, t, seen int) {
		p, _, _ := attentionRow(x, s, b, h, t, seen)
		dout := dyy[(b*s.T+t)*c+h*s.D:][:s.D]
		dp, sum := make([]float64, seen), 0.0
		for u := range p {
			dp[u] = dot(dout, part(x, s, b, h, u, 2))
			sum += p[u] * dp[u]
		}
		q, dq := part(x, s, b, h, t, 0), part(dx, s, b, h, t, 0)
		for u := range p {
			ds := p[u] * (dp[u] - sum) * scale
			k, dk, dv := part(x, s, b, h, u, 1), part(dx, s, b, h, u, 1), part(dx, s, b, h, u, 2)
			for e := range s.D {
				dq[e] += ds * k[e]
				dk[e] += ds * q[e]
				dv[e] += p[u] * dout[e]
			}
		}
	})
}

// eachRow calls f for each sequence, head and position, with the number of positions that it sees.
func eachRow(s kernel.AttentionShape, f func(b, h, t, seen int)) {
	for b := range s.B {
		for h := range s.H {
			for t := range s.T {
				seen := s.T
				if s.Causal {
					seen = t + 1
				}
				f(b, h, t, seen)
			}
		}
	}
}

// attentionRow is the softmax of one row, with its scores' maximum and its exponentials' sum.
func attentionRow(x []float64, s kernel.AttentionShape, b, h, t, seen int) (p []float64, hi, sum float64) {
	p, hi = make([]float64, seen), math.Inf(-1)
	q := part(x, s, b, h, t, 0)
	for u := range p {
		p[u] = dot(q, part(x, s, b, h, u, 1)) / math.Sqrt(float64(s.D))
		hi = max(hi, p[u])
	}
	for _, e := range p {
		sum += math.Exp(e - hi)
	}
	for u := range p {
		p[u] = math.Exp(p[u]-hi) / sum
	}
	return p, hi, sum
}

// part is q (0), k (1) or v (2) of one head and position in qkv, as D elements.
func part(qkv []float64, s kernel.AttentionShape, b, h, t, which int) []float64 {
	c := s.H * s.D
	return qkv[((b*s.T+t)*3+which)*c+h*s.D:][:s.D]
}

func dot(a, b []float64) float64 {
	s := 0.0
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}
