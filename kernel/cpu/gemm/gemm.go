package gemm

import (
	"fmt"
	"math/bits"
	"strings"

	"shoal/kernel"
)

// Kernel multiplies matrices by one code path. It holds no state: goroutines may share it.
type Kernel struct {
	name    string
	run     func(p product, s *Scratch)
	spin    func(n int) // does spinOps operations n times
	spinOps int
}

var kernelGeneric = &Kernel{"generic", runGeneric, spinGeneric, 8 * 2}

// Name is the code path: "avx512", "avx2", "neon" or "generic".
func (k *Kernel) Name() string { return k.name }

// Scratch holds the packing buffers of one goroutine. The zero Scratch is ready; it grows to what it needs once.
type Scratch struct {
	generic genericScratch
	tiled   tiledScratch
}

// Paths lists the code paths that this CPU, its operating system and this build can run, best first.
func Paths() []string {
	var names []string
	for _, k := range kernels() {
		names = append(names, k.name)
	}
	return names
}

// Select returns the kernel of the named code path, or the best one if path is empty. A path that can't run here is an
// error that says which can.
func Select(path string) (*Kernel, error) {
	for _, k := range kernels() {
		if path == "" || path == k.name {
			return k, nil
		}
	}
	return nil, fmt.Errorf("gemm: code path %q can't run here: use one of %s", path, strings.Join(Paths(), ", "))
}

// product is one product with its transpositions resolved into strides. Element (i,p) of A is a[i*ars+p*acs], (p,j) of
// B is b[p*brs+j*bcs], (i,j) of C is c[i*ldc+j].
type product struct {
	c, a, b                 []float32
	ldc, ars, acs, brs, bcs int
	m, n, k                 int
	accumulate              bool
}

// Gemm computes C (m,n) = A*B, or C += A*B if accumulate; kk is the inner dimension. t says how A and B are stored; ldc,
// lda and ldb are the distances in elements between the rows of the stored matrices. c must not overlap a or b. With
// kk = 0, C becomes 0 or stays. Nothing outside the m*n elements of C is written. Like an index out of range, a slice
// too short for its shape is a panic.
func (k *Kernel) Gemm(t kernel.Trans, c []float32, ldc int, a []float32, lda int, b []float32, ldb int, m, n, kk int,
	accumulate bool, s *Scratch) {
	if m <= 0 || n <= 0 {
		return
	}
	check("c", len(c), ldc, m, n)
	if kk <= 0 {
		for i := 0; i < m && !accumulate; i++ {
			clear(c[i*ldc:][:n])
		}
		return
	}
	p := product{c: c, a: a, b: b, ldc: ldc, ars: lda, acs: 1, brs: ldb, bcs: 1, m: m, n: n, k: kk, accumulate: accumulate}
	aRows, aCols, bRows, bCols := m, kk, kk, n
	switch t {
	case kernel.NT:
		p.brs, p.bcs = 1, ldb
		bRows, bCols = n, kk
	case kernel.TN:
		p.ars, p.acs = 1, lda
		aRows, aCols = kk, m
	}
	check("a", len(a), lda, aRows, aCols)
	check("b", len(b), ldb, bRows, bCols)
	k.run(p, s)
}

// check panics unless rows >= 1 of cols >= 1 elements, ld apart, lie inside a slice of have elements. The assembly relies on it.
func check(name string, have, ld, rows, cols int) {
	over, last := bits.Mul64(uint64(rows-1), uint64(ld))
	if ld < cols || have < cols || over > 0 || last > uint64(have-cols) {
		panic(fmt.Sprintf("gemm: %s has %d elements, too few for %d rows of %d, %d apart", name, have, rows, cols, ld))
	}
}

// grow returns a slice of n elements, s itself if it is large enough. The contents are undefined.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
