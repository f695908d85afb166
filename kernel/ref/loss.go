package ref

import "math"

// CrossEntropy: with m the row's maximum, e_j = exp(x_j - m) and l their sum (row reductions), loss = ln l - (x_label -
// m) and dlogits_j = e_j * (1/l), less 1 at the label. A label < 0 gives 0; a label >= cols gives NaN, so that it is
// noticed. dlogits may be logits, or nil.
func CrossEntropy(loss, dlogits, logits []float32, labels []int32, rows, cols int) {
	e := make([]float32, cols)
	for r := range rows {
		x, label := logits[r*cols:][:cols], int(labels[r])
		m := laneMax(x)
		for i := range x {
			e[i] = Exp(x[i] - m)
		}
		l := laneSum(cols, func(i int) float32 { return e[i] })
		inv := 1 / l
		switch {
		case label < 0:
			loss[r], inv = 0, 0
			clear(e)
		case label >= cols:
			loss[r], inv = float32(math.NaN()), float32(math.NaN())
		default:
			loss[r] = Log(l) - (x[label] - m)
		}
		if dlogits == nil {
			continue
		}
		d := dlogits[r*cols:][:cols]
		for i := range d {
			d[i] = e[i] * inv
		}
		if label >= 0 && label < cols {
			d[label] -= 1
		}
	}
}

// Argmax writes, for each row, the lowest column that holds its maximum; NaN is passed over, and a row without a number
// above -Inf gives 0.
func Argmax(idx []int32, x []float32, rows, cols int) {
	for r := range rows {
		best, at := negInf, 0
		for c, v := range x[r*cols:][:cols] {
			if v > best {
				best, at = v, c
			}
		}
		idx[r] = int32(at)
	}
}

// Sum is the row reduction of x.
func Sum(x []float32) float32 { return laneSum(len(x), func(i int) float32 { return x[i] }) }

// MaxAbs is max |x|, 0 for none, +Inf if any element is NaN or infinite.
func MaxAbs(x []float32) float32 {
	top := uint32(0) // the patterns of non-negative floats are ordered like their values, NaN above Inf
	for _, v := range x {
		top = max(top, math.Float32bits(v)&0x7fffffff)
	}
	return math.Float32frombits(min(top, 0x7f800000))
}
