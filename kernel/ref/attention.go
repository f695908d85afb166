package ref

import "shoal/kernel"

// Attention (Vaswani et al. 2017, arXiv 1706.03762), one head of one sequence at a time. q, k, v and y are T rows of D;
// the "sees" of row t are positions 0..t if causal, else all.
//
// A causal row's chains over positions do not end at t but at the end of t's group of attentionGroup rows, with weight
// +0 for what the row does not see: so 64 rows make one matrix product of full speed, and half the work is still
// skipped. The same holds for chains over rows in the backward pass, which begin at their position's group.
const attentionGroup = 64

// keys is how many positions the chains of row t run over.
func keys(t int, s kernel.AttentionShape) int {
	if !s.Causal {
		return s.T
	}
	return min(s.T, (t/attentionGroup+1)*attentionGroup)
}

// seen is how many positions row t sees.
func seen(t int, s kernel.AttentionShape) int {
	if s.Causal {
		return t + 1
	}
	return s.T
}

// firstRow is the first row of the chains of position j.
func firstRow(j int, s kernel.AttentionShape) int {
	if !s.Causal {
		return 0
	}
	return j / attentionGroup * attentionGroup
}

// AttentionScale is 1/sqrt(D), each operation rounded.
func AttentionScale(d int) float32 { return 1 / Sqrt(float32(d)) }

// head is one head's view of the buffers of both passes.
type head struct {
	s          kernel.AttentionShape
	scale      float32
	qkv, stats []float32 // from the sequence's first row on; this head's (T,2)
	q, k, v    int       // offsets in a row of qkv
	y          int       // offset in a row of y
	width      int       // C
	p, ds      []float32 // (T,T) weights, and the gradient of the scaled scores
}

func (h *head) at(off, t, d int) float32 { return h.qkv[t*3*h.width+off+d] }

// eachHead calls f for every head of every sequence, with its number of the sequence.
func eachHead(qkv, stats []float32, s kernel.AttentionShape, f func(h *head, b int)) {
	c := s.H * s.D
	for b := range s.B {
		for i := range s.H {
			f(&head{
				s: s, scale: AttentionScale(s.D), width: c, qkv: qkv[b*s.T*3*c:][:s.T*3*c],
				stats: stats[(b*s.H+i)*s.T*2:][:s.T*2],
				q:     i * s.D, k: c + i*s.D, v: 2*c + i*s.D, y: i * s.D,
				p: make([]float32, s.T*s.T), ds: make([]float32, s.T*s.T),
			}, b)
		}
	}
}

// scores fills row t of p with scale * q.k for the positions that row t sees.
func (h *head) scores(t int) []float32 {
	row := h.p[t*h.s.T:][:seen(t, h.s)]
	for j := range row {
		row[j] = dot(h.s.D, func(d int) float32 { return h.at(h.q, t, d) }, func(d int) float32 { return h.at(h.k, j, d) })
		row[j] *= h.scale
	}
	return row
}

// Attention writes, for each row t, with s_j = scale * q_t.k_j: m = max s_j, e_j = exp(s_j - m), l = sum of e_j (row
// reductions over what t sees), y_t = (chain over j of e_j v_j) * (1/l). stats keeps m and l.
func Attention(y, stats, qkv []float32, s kernel.AttentionShape) {
	eachHead(qkv, stats, s, func(h *head, b int) {
		yb := y[b*s.T*h.width:][:s.T*h.width]
		for t := range s.T {
			e := h.scores(t)
			m := laneMax(e)
			for j := range e {
				e[j] = Exp(e[j] - m)
			}
			l := laneSum(len(e), func(j int) float32 { return e[j] })
			h.stats[2*t], h.stats[2*t+1] = m, l
			inv := 1 / l
			for d := range s.D {
				acc := dot(keys(t, s), func(j int) float32 { return h.p[t*s.T+j] },
					func(j int) float32 { return h.at(h.v, j, d) })
				yb[t*h.width+h.y+d] = acc * inv
			}
		}
	})
}

// AttentionBackward recomputes s_j as Attention does. With p_j = exp(s_j - m) * (1/l), dp_j = dy_t.v_j (an FMA chain
// over d) and delta = sum over d of dy_t*y_t (a row reduction):
//
//	ds_j = (p_j * (dp_j - delta)) * scale
//	dq_t = chain over j of ds_tj k_j,  dk_j = chain over t of ds_tj q_t,  dv_j = chain over t of p_tj dy_t
func AttentionBackward(dqkv, dy, y, qkv, stats []float32, s kernel.AttentionShape) {
	eachHead(qkv, stats, s, func(h *head, b int) {
		n := s.T * h.width
		yb, dyb, db := y[b*n:][:n], dy[b*n:][:n], dqkv[b*3*n:][:3*n]
		dyAt := func(t, d int) float32 { return dyb[t*h.width+h.y+d] }
		for t := range s.T {
			p := h.scores(t)
			m, inv := h.stats[2*t], 1/h.stats[2*t+1]
			delta := laneSum(s.D, func(d int) float32 { return float32(dyAt(t, d) * yb[t*h.width+h.y+d]) })
			for j := range p {
				p[j] = Exp(p[j]-m) * inv
				dp := dot(s.D, func(d int) float32 { return dyAt(t, d) }, func(d int) float32 { return h.at(h.v, j, d) })
				h.ds[t*s.T+j] = float32(p[j]*(dp-delta)) * h.scale
			}
		}
		for t := range s.T { // t is a row for dq, a position for dk and dv
			lo := firstRow(t, s)
			column := func(m []float32) func(i int) float32 {
				return func(i int) float32 { return m[(lo+i)*s.T+t] }
			}
			for d := range s.D {
				out := db[t*3*h.width+d:]
				out[h.q] = dot(keys(t, s), func(j int) float32 { return h.ds[t*s.T+j] },
					func(j int) float32 { return h.at(h.k, j, d) })
				out[h.k] = dot(s.T-lo, column(h.ds), func(i int) float32 { return h.at(h.q, lo+i, d) })
				out[h.v] = dot(s.T-lo, column(h.p), func(i int) float32 { return dyAt(lo+i, d) })
			}
		}
	})
}
