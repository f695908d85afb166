package ref

import "shoal/kernel"

// MatMul writes c (m,n) = a*b, or adds to it, where t says how a (m,k) and b (k,n) are stored: each element is one chain
// of FMA over k ascending, from 0 or from the old value.
func MatMul(t kernel.Trans, c, a, b []float32, m, n, k int, accumulate bool) {
	if !accumulate {
		clear(c[:m*n])
	}
	for i := range m {
		row := c[i*n:][:n]
		for p := range k {
			x := at(a, t == kernel.TN, i, p, m, k)
			for j := range row {
				row[j] = FMA(x, at(b, t == kernel.NT, p, j, k, n), row[j])
			}
		}
	}
}

// at is element (i,j) of a matrix (rows,cols) that is stored transposed or not.
func at(x []float32, transposed bool, i, j, rows, cols int) float32 {
	if transposed {
		return x[j*rows+i]
	}
	return x[i*cols+j]
}

// dot is the FMA chain of n products from 0.
func dot(n int, a, b func(i int) float32) float32 {
	acc := float32(0)
	for i := range n {
		acc = FMA(a(i), b(i), acc)
	}
	return acc
}
