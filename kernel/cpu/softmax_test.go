package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"shoal/kernel"
	"shoal/kernel/cpu/gemm"
	"shoal/kernel/ref"
)

// eachPath runs f with the loops of every code path that can run here.
func eachPath(t *testing.T, f func(t *testing.T, l loops)) {
	for _, path := range gemm.Paths() {
		t.Run(path, func(t *testing.T) { f(t, selectLoops(path)) })
	}
}

// differs is the first element whose bits differ, NaN being one number; -1 for none.
func differs(got, want []float32) int {
	for i, x := range got {
		if math.Float32bits(x) != math.Float32bits(want[i]) && (x == x || want[i] == want[i]) {
			return i
		}
	}
	return -1
}

// TestSoftmaxRows: rows of every length around what the assembly takes at once, more of them than it takes side by side, with
// elements behind each row that must stay.
func TestSoftmaxRows(t *testing.T) {
	const scale = 0.25
	eachPath(t, func(t *testing.T, l loops) {
		r := rand.New(rand.NewPCG(1, 2))
		values := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(r.NormFloat64() * math.Exp2(float64(r.IntN(12)-3)))
				switch r.IntN(400) {
				case 0:
					x[i] = float32(math.Inf(r.IntN(2)*2 - 1))
				case 1:
					x[i] = float32(math.NaN())
				case 2:
					x[i] = float32(math.Copysign(1e-45, float64(r.IntN(2))-0.5)) // scaled it is a zero with a sign
				case 3:
					x[i] = -float32(math.Exp2(r.Float64() * 128)) // far below the exponential's lower limit
				}
			}
			return x
		}
		lengths := []int{127, 128, 129, 250, 256, 300}
		for n := range 70 {
			lengths = append(lengths, n+1)
		}
		for _, n := range lengths {
			for _, c := range [][2]int{{7, 0}, {7, 1}, {4, 0}, {2, 0}} {
				rows, grow := c[0], c[1]
				shape := ragged{rows: rows, ld: n + rows*grow + 3, n: n, grow: grow}
				size := rows * shape.ld
				e, stats := values(size), values(2*rows)
				ds, delta := values(size), values(rows)
				same := func(what string, got, want []float32) {
					if i := differs(got, want); i >= 0 {
						t.Fatalf("%+v: %s[%d] = %v, want %v", shape, what, i, got[i], want[i])
					}
				}
				clone := func(x []float32) []float32 { return append([]float32(nil), x...) }

				p, q, pds, qds := clone(e), clone(e), clone(ds), clone(ds)
				l.softmaxBackward(p, pds, shape, scale, stats, delta)
				softmaxBackwardGeneric(q, qds, shape, scale, stats, delta)
				same("p", p, q)
				same("ds", pds, qds)

				p, q = clone(e), clone(e)
				pst, qst := clone(stats), clone(stats)
				l.softmax(p, shape, scale, pst)
				softmaxGeneric(q, shape, scale, qst)
				same("e", p, q)
				same("stats", pst, qst)
			}
		}
	})
}

// TestSoftmaxOfDevice: what is measured by itself is the loop over rows, on any number of threads.
func TestSoftmaxOfDevice(t *testing.T) {
	const rows, cols, scale = 700, 17, 0.25
	d, err := New(Config{Threads: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	buffer := func(x []float32) kernel.Buffer {
		b := d.Alloc(kernel.Other, kernel.F32, len(x))
		d.Upload(b, kernel.Bytes(x))
		return b
	}
	read := func(b kernel.Buffer) []float32 {
		x := make([]float32, b.Len)
		if err := d.Download(kernel.Bytes(x), b); err != nil {
			t.Fatal(err)
		}
		return x
	}
	e, ds, delta := make([]float32, SoftmaxLen(rows, cols)), make([]float32, SoftmaxLen(rows, cols)), make([]float32, rows)
	ref.FillNormal(e, 1, 0, 1)
	ref.FillNormal(ds, 2, 0, 1)
	ref.FillNormal(delta, 3, 0, 1)
	be, bds, bdelta, bstats := buffer(e), buffer(ds), buffer(delta), buffer(make([]float32, 2*rows))
	shape, stats := ragged{rows: rows, ld: len(e) / rows, n: cols}, make([]float32, 2*rows)

	d.Softmax(be, bstats, rows, cols, scale)
	softmaxGeneric(e, shape, scale, stats)
	if differs(read(be), e) >= 0 || differs(read(bstats), stats) >= 0 {
		t.Error("Softmax differs")
	}
	d.SoftmaxBackward(be, bds, bstats, bdelta, rows, cols, scale)
	softmaxBackwardGeneric(e, ds, shape, scale, stats, delta)
	if differs(read(be), e) >= 0 || differs(read(bds), ds) >= 0 {
		t.Error("SoftmaxBackward differs")
	}
}

// TestExponential: e^x of numbers from all of float32, and of many in the range where it is a number above 0 itself.
func TestExponential(t *testing.T) {
	var xs []float32
	for u := uint32(0); u < math.MaxUint32-99_991; u += 99_991 {
		xs = append(xs, math.Float32frombits(u))
	}
	for x := float32(-110); x < 95; x += 0.0037 {
		xs = append(xs, x)
	}
	xs = append(xs, float32(math.Inf(1)), float32(math.Inf(-1)), 0, float32(math.Copysign(0, -1)))
	want := append([]float32(nil), xs...)
	expGeneric(want, want, 0)
	eachPath(t, func(t *testing.T, l loops) {
		for _, n := range []int{16, len(xs)} { // a row's length decides the way that it goes
			for at := 0; at+n <= len(xs); at += n {
				got, ds := append([]float32(nil), xs[at:at+n]...), make([]float32, n)
				l.softmaxBackward(got, ds, ragged{rows: 1, ld: n, n: n}, 1, []float32{0, 1}, []float32{0})
				if i := differs(got, want[at:]); i >= 0 {
					t.Fatalf("e^%v = %v, want %v", xs[at+i], got[i], want[at+i])
				}
			}
		}
	})
}

func BenchmarkSoftmax(b *testing.B) {
	for _, s := range [][2]int{{4352, 16}, {4352, 17}, {4352, 20}, {3072, 32}, {3072, 65}, {3072, 256}} {
		rows, n := s[0], s[1]
		for _, path := range gemm.Paths() {
			l := selectLoops(path)
			e, ds, stats, delta := make([]float32, rows*apart(n)), make([]float32, rows*apart(n)), make([]float32, 2*rows), make([]float32, rows)
			for i := range e {
				e[i], ds[i] = float32(i%5), float32(i%7)
			}
			for i := range delta {
				delta[i] = 1
			}
			shape := ragged{rows: rows, ld: apart(n), n: n}
			per := func(b *testing.B) {
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
			}
			b.Run(fmt.Sprintf("forward/%dx%d/%s", rows, n, path), func(b *testing.B) {
				for b.Loop() {
					l.softmax(e, shape, 0.125, stats)
				}
				per(b)
			})
			b.Run(fmt.Sprintf("backward/%dx%d/%s", rows, n, path), func(b *testing.B) {
				for b.Loop() {
					l.softmaxBackward(e, ds, shape, 0.125, stats, delta)
				}
				per(b)
			})
		}
	}
}
