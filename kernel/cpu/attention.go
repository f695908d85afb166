package cpu

import (
	"shoal/kernel"
	"shoal/kernel/ref"
)

// attentionGroup rows make one product, as in ref.
const attentionGroup = 64

// attn is one attention op; its heads are independent.
type attn struct {
	*ops
	s          kernel.AttentionShape
	c, ld      int // H*D, and the distance 3C between rows of qkv
	scale      float32
	qkv, stats []float32
}

func (o *ops) attn(qkv, stats kernel.Buffer, s kernel.AttentionShape) attn {
	c := s.H * s.D
	return attn{ops: o, s: s, c: c, ld: 3 * c, scale: ref.AttentionScale(s.D), qkv: f32(qkv), stats: f32(stats)}
}

// heads is how attention is split: its items are heads.
func heads(s kernel.AttentionShape) (total, grain int) {
	return s.B * s.H, multiplyGrain / 8 / max(s.T*s.T*(s.D+32), 1)
}

// head is where a head's q, k and v begin, with its part of stats.
func (a *attn) head(b, h int) (q, k, v, stats []float32) {
	row := a.qkv[b*a.s.T*a.ld+h*a.s.D:]
	return row, row[a.c:], row[2*a.c:], a.stats[(b*a.s.H+h)*a.s.T*2:]
}

// group is how many rows the group at row t0 has, and over how many positions its chains run.
func (a *attn) group(t0 int) (rows, keys int) {
	rows = min(attentionGroup, a.s.T-t0)
	if a.s.Causal {
		return rows, t0 + rows
	}
	return rows, a.s.T
}

// rows describes what the group's rows see of a matrix (rows, keys).
func (a *attn) rows(t0, rows, keys int) ragged {
	if a.s.Causal {
		return ragged{rows: rows, ld: apart(keys), n: t0 + 1, grow: 1}
	}
	return ragged{rows: rows, ld: apart(keys), n: keys}
}

// apart is how far apart rows of n scores are: the last vector of a row must not reach into the next row, since a processor that
// loads what it has just stored a part of waits for it.
func apart(n int) int { return (n + 15) &^ 15 }

// clearUnseen sets to +0 what the rows don't see of so many keys.
func (r ragged) clearUnseen(m []float32, keys int) {
	if r.grow == 0 {
		return
	}
	for i := range r.rows {
		clear(m[i*r.ld:][r.n+i*r.grow : keys])
	}
}

type attention struct {
	attn
	y []float32
}

// Attention is ref.Attention by products over groups of rows.
func (o *ops) Attention(y, stats, qkv kernel.Buffer, s kernel.AttentionShape) {
	total, grain := heads(s)
	run(o, &o.args.attention, attention{o.attn(qkv, stats, s), f32(y)}, total, grain)
}

func (a *attention) do(w, lo, hi int) {
	for i := lo; i < hi; i++ {
		a.forward(&a.scratch[w], i/a.s.H, i%a.s.H)
	}
}

// forward computes head h of sequence b.
func (a *attention) forward(sc *scratch, b, h int) {
	q, k, v, st := a.head(b, h)
	s, yh := a.s, a.y[b*a.s.T*a.c+h*a.s.D:]
	for t0 := 0; t0 < s.T; t0 += attentionGroup {
		rows, keys := a.group(t0)
		seen := a.rows(t0, rows, keys)
		e := sc.floats(0, rows*seen.ld)
		a.gemm.Gemm(kernel.NT, e, seen.ld, q[t0*a.ld:], a.ld, k, a.ld, rows, keys, s.D, false, &sc.gemm)
		a.loops.softmax(e, seen, a.scale, st[2*t0:])
		seen.clearUnseen(e, keys)
		a.gemm.Gemm(kernel.NN, yh[t0*a.c:], a.c, e, seen.ld, v, a.ld, rows, s.D, keys, false, &sc.gemm)
		a.loops.divideRows(yh[t0*a.c:], rows, a.c, s.D, st[2*t0:])
	}
}

type attentionBackward struct {
	attn
	dqkv, dy, y []float32
}

// AttentionBackward is ref.AttentionBackward by products over groups of rows.
func (o *ops) AttentionBackward(dqkv, dy, y, qkv, stats kernel.Buffer, s kernel.AttentionShape) {
	total, grain := heads(s)
	run(o, &o.args.attentionBackward, attentionBackward{o.attn(qkv, stats, s), f32(dqkv), f32(dy), f32(y)}, total, grain)
}

func (a *attentionBackward) do(w, lo, hi int) {
	for i := lo; i < hi; i++ {
		a.backward(&a.scratch[w], i/a.s.H, i%a.s.H)
	}
}

// backward computes head h of sequence b. The chains of dk and dv over rows go from group to group; a position's first group
// starts them from 0.
func (a *attentionBackward) backward(sc *scratch, b, h int) {
	q, k, v, st := a.head(b, h)
	s, at := a.s, b*a.s.T*a.c+h*a.s.D
	yh, dyh := a.y[at:], a.dy[at:]
	dq := a.dqkv[b*s.T*a.ld+h*s.D:]
	dk, dv := dq[a.c:], dq[2*a.c:]
	for t0 := 0; t0 < s.T; t0 += attentionGroup {
		rows, keys := a.group(t0)
		seen := a.rows(t0, rows, keys)
		p, ds, delta := sc.floats(0, rows*seen.ld), sc.floats(1, rows*seen.ld), sc.floats(2, rows)
		a.gemm.Gemm(kernel.NT, p, seen.ld, q[t0*a.ld:], a.ld, k, a.ld, rows, keys, s.D, false, &sc.gemm)
		a.gemm.Gemm(kernel.NT, ds, seen.ld, dyh[t0*a.c:], a.c, v, a.ld, rows, keys, s.D, false, &sc.gemm)
		a.loops.dotRows(delta, dyh[t0*a.c:], yh[t0*a.c:], a.c, s.D)
		a.loops.softmaxBackward(p, ds, seen, a.scale, st[2*t0:], delta)
		seen.clearUnseen(p, keys)
		seen.clearUnseen(ds, keys)
		a.gemm.Gemm(kernel.NN, dq[t0*a.ld:], a.ld, ds, seen.ld, k, a.ld, rows, s.D, keys, false, &sc.gemm)
		a.columns(sc, dk, ds, q[t0*a.ld:], a.ld, t0, rows, keys)
		a.columns(sc, dv, p, dyh[t0*a.c:], a.c, t0, rows, keys)
	}
}

// columns continues the chains of d (keys, D) over the rows of one group: d += m^T x, m (rows, keys), x (rows, D).
// Positions that no group before has reached start from 0.
func (a *attn) columns(s *scratch, d, m, x []float32, ldx, t0, rows, keys int) {
	old := t0
	if t0 > 0 && !a.s.Causal {
		old = keys
	}
	if old > 0 {
		a.gemm.Gemm(kernel.TN, d, a.ld, m, apart(keys), x, ldx, old, a.s.D, rows, true, &s.gemm)
	}
	if old < keys {
		a.gemm.Gemm(kernel.TN, d[old*a.ld:], a.ld, m[old:], apart(keys), x, ldx, keys-old, a.s.D, rows, false, &s.gemm)
	}
}
