package cpu

import "math"

// Row reductions, in the order of ref: 16 lanes, then a tree.

type lanes [16]float32

// fold is the sum of the lanes by the tree 16 -> 8 -> 4 -> 2 -> 1.
func (l *lanes) fold() float32 {
	for j := range 8 {
		l[j] += l[j+8]
	}
	for j := range 4 {
		l[j] += l[j+4]
	}
	return (l[0] + l[2]) + (l[1] + l[3])
}

// sum is ref's laneSum of x.
func sum(x []float32) float32 {
	var l lanes
	for len(x) >= 16 {
		for j, v := range x[:16] {
			l[j] += v
		}
		x = x[16:]
	}
	for j, v := range x {
		l[j] += v
	}
	return l.fold()
}

// sumSquares is ref's laneSum of (x-mean)^2.
func sumSquares(x []float32, mean float32) float32 {
	var l lanes
	for len(x) >= 16 {
		for j, v := range x[:16] {
			d := v - mean
			l[j] += float32(d * d)
		}
		x = x[16:]
	}
	for j, v := range x {
		d := v - mean
		l[j] += float32(d * d)
	}
	return l.fold()
}

// dot is ref's laneSum of a*b.
func dot(a, b []float32) float32 {
	var l lanes
	b = b[:len(a)]
	for i, v := range a {
		l[i&15] += float32(v * b[i])
	}
	return l.fold()
}

// greatest is ref's laneMax: with ties only between +0 and -0, which lane wins matters, so it keeps lanes as well.
func greatest(x []float32) float32 {
	var l lanes
	for j := range l {
		l[j] = float32(math.Inf(-1))
	}
	for len(x) >= 16 {
		for j, v := range x[:16] {
			if v > l[j] {
				l[j] = v
			}
		}
		x = x[16:]
	}
	for j, v := range x {
		if v > l[j] {
			l[j] = v
		}
	}
	for half := 8; half > 0; half /= 2 {
		for j := range half {
			if l[j+half] > l[j] {
				l[j] = l[j+half]
			}
		}
	}
	return l[0]
}
