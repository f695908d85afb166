package cpu

import (
	"math"

	"shoal/kernel"
	"shoal/kernel/ref"
)

type crossEntropy struct {
	*ops
	loss, dlogits, logits []float32 // no dlogits if they are not wanted
	labels                []int32
	cols                  int
}

func (o *ops) CrossEntropy(loss, dlogits, logits, labels kernel.Buffer, rows, cols int) {
	a := crossEntropy{o, f32(loss), nil, f32(logits), i32(labels), cols}
	if !dlogits.None() {
		a.dlogits = f32(dlogits)
	}
	run(o, &o.args.crossEntropy, a, rows, grainHeavy/max(cols, 1))
}

func (a *crossEntropy) do(w, lo, hi int) {
	cols := a.cols
	e, stats := a.scratch[w].floats(0, cols), a.scratch[w].floats(1, 2)
	for r := lo; r < hi; r++ {
		x, label := a.logits[r*cols:][:cols], int(a.labels[r])
		copy(e, x)
		a.loops.softmax(e, ragged{rows: 1, ld: cols, n: cols}, 1, stats)
		m, l := stats[0], stats[1]
		inv := 1 / l
		known := label >= 0 && label < cols
		switch {
		case known:
			a.loss[r] = ref.Log(l) - (x[label] - m)
		case label < 0:
			a.loss[r], inv = 0, 0
			clear(e)
		default:
			a.loss[r], inv = float32(math.NaN()), float32(math.NaN())
		}
		if a.dlogits == nil {
			continue
		}
		d := a.dlogits[r*cols:][:cols]
		a.loops.scale(d, e, inv)
		if known {
			d[label] -= 1
		}
	}
}

type argmax struct {
	idx  []int32
	x    []float32
	cols int
}

func (o *ops) Argmax(idx, x kernel.Buffer, rows, cols int) {
	run(o, &o.args.argmax, argmax{i32(idx), f32(x), cols}, rows, grainLight/max(cols, 1))
}

func (a *argmax) do(_, lo, hi int) { ref.Argmax(a.idx[lo:hi], a.x[lo*a.cols:], hi-lo, a.cols) }

func (o *ops) Sum(dst, x kernel.Buffer) { f32(dst)[0] = sum(f32(x)) }

type maxAbs struct {
	*ops
	x []float32
}

// MaxAbs takes the largest of the pieces' maxima: a maximum of magnitudes is the same in any order, and the patterns of
// non-negative floats are ordered like their values, NaN above Inf.
func (o *ops) MaxAbs(dst, x kernel.Buffer) {
	for w := range o.scratch {
		o.scratch[w].max = 0
	}
	run(o, &o.args.maxAbs, maxAbs{o, f32(x)}, x.Len, grainLight)
	top := uint32(0)
	for w := range o.scratch {
		top = max(top, o.scratch[w].max)
	}
	f32(dst)[0] = math.Float32frombits(min(top, 0x7f800000))
}

func (a *maxAbs) do(w, lo, hi int) {
	s := &a.scratch[w]
	s.max = max(s.max, a.loops.maxAbs(a.x[lo:hi]))
}

func maxAbsGeneric(x []float32) uint32 {
	var a, b uint32
	for len(x) >= 2 {
		a = max(a, math.Float32bits(x[0])&0x7fffffff)
		b = max(b, math.Float32bits(x[1])&0x7fffffff)
		x = x[2:]
	}
	if len(x) > 0 {
		a = max(a, math.Float32bits(x[0])&0x7fffffff)
	}
	return max(a, b)
}
