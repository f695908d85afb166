package cpu

import (
	"math"

	"shoal/kernel"
	"shoal/kernel/ref"
)

func (o *ops) CrossEntropy(loss, dlogits, logits, labels kernel.Buffer, rows, cols int) {
	ls, xs, ids := f32(loss), f32(logits), i32(labels)
	var ds []float32
	if !dlogits.None() {
		ds = f32(dlogits)
	}
	o.crew.split(rows, grainHeavy/max(cols, 1), func(w, lo, hi int) {
		e, stats := o.scratch[w].floats(0, cols), o.scratch[w].floats(1, 2)
		for r := lo; r < hi; r++ {
			x, label := xs[r*cols:][:cols], int(ids[r])
			copy(e, x)
			o.loops.softmax(e, ragged{rows: 1, ld: cols, n: cols}, 1, stats)
			m, l := stats[0], stats[1]
			inv := 1 / l
			known := label >= 0 && label < cols
			switch {
			case known:
				ls[r] = ref.Log(l) - (x[label] - m)
			case label < 0:
				ls[r], inv = 0, 0
				clear(e)
			default:
				ls[r], inv = float32(math.NaN()), float32(math.NaN())
			}
			if ds == nil {
				continue
			}
			d := ds[r*cols:][:cols]
			o.loops.scale(d, e, inv)
			if known {
				d[label] -= 1
			}
		}
	})
}

func (o *ops) Argmax(idx, x kernel.Buffer, rows, cols int) {
	is, xs := i32(idx), f32(x)
	o.crew.split(rows, grainLight/max(cols, 1), func(_, lo, hi int) {
		ref.Argmax(is[lo:hi], xs[lo*cols:], hi-lo, cols)
	})
}

func (o *ops) Sum(dst, x kernel.Buffer) { f32(dst)[0] = sum(f32(x)) }

// MaxAbs takes the largest of the pieces' maxima: a maximum of magnitudes is the same in any order, and the patterns of
// non-negative floats are ordered like their values, NaN above Inf.
func (o *ops) MaxAbs(dst, x kernel.Buffer) {
	for w := range o.scratch {
		o.scratch[w].max = 0
	}
	xs := f32(x)
	o.crew.split(len(xs), grainLight, func(w, lo, hi int) {
		s := &o.scratch[w]
		s.max = max(s.max, o.loops.maxAbs(xs[lo:hi]))
	})
	top := uint32(0)
	for w := range o.scratch {
		top = max(top, o.scratch[w].max)
	}
	f32(dst)[0] = math.Float32frombits(min(top, 0x7f800000))
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
