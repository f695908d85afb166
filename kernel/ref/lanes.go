package ref

// lanes is how many partial results a reduction along a row keeps: lane j takes elements j, j+16, j+32, ... ascending.
const lanes = 16

var negInf = float32(-inf)

// fold combines the lanes by the fixed tree 16 -> 8 -> 4 -> 2 -> 1: lane j with lane j+half.
func fold(l *[lanes]float32, f func(a, b float32) float32) float32 {
	for half := lanes / 2; half > 0; half /= 2 {
		for j := range half {
			l[j] = f(l[j], l[j+half])
		}
	}
	return l[0]
}

// reduce folds f(value(i)) for i < n, each lane starting from start. A short row leaves lanes at start.
func reduce(n int, start float32, f func(a, b float32) float32, value func(i int) float32) float32 {
	var l [lanes]float32
	for j := range l {
		l[j] = start
	}
	for i := range n {
		l[i%lanes] = f(l[i%lanes], value(i))
	}
	return fold(&l, f)
}

// laneSum is the row reduction by addition, from 0.
func laneSum(n int, value func(i int) float32) float32 {
	return reduce(n, 0, func(a, b float32) float32 { return a + b }, value)
}

// laneMax is the row reduction by maximum, from -Inf: it keeps the old value unless the new one is greater, so NaN is
// passed over and of +0 and -0 the earlier stays.
func laneMax(x []float32) float32 {
	return reduce(len(x), negInf, func(a, b float32) float32 {
		if b > a {
			return b
		}
		return a
	}, func(i int) float32 { return x[i] })
}
