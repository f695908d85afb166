package gemm

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"shoal/kernel"
	"shoal/kernel/ref"
)

// bigFMA is a*b + c rounded once to float32, by exact arithmetic. It is slow and obviously right.
func bigFMA(a, b, c float32) float32 {
	for _, v := range []float32{a, b, c} {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return float32(float64(a)*float64(b) + float64(c))
		}
	}
	if a == 0 || b == 0 || c == 0 {
		// big.Float has no rules for signs of zero sums; with a zero term one float64 operation is exact here.
		return float32(float64(a)*float64(b) + float64(c))
	}
	exact := func(v float32) *big.Float { return new(big.Float).SetPrec(1000).SetFloat64(float64(v)) }
	s := exact(a)
	s.Mul(s, exact(b)).Add(s, exact(c))
	r, _ := s.Float32()
	return r
}

// chain computes a product as its definition says, one element after the other.
func chain(fma func(a, b, c float32) float32, p product) {
	for i := range p.m {
		for j := range p.n {
			var s float32
			if p.accumulate {
				s = p.c[i*p.ldc+j]
			}
			for q := range p.k {
				s = fma(p.a[i*p.ars+q*p.acs], p.b[q*p.brs+j*p.bcs], s)
			}
			p.c[i*p.ldc+j] = s
		}
	}
}

// same says whether two results are the same bits, or both NaN: a NaN's payload is not part of the contract.
func same(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// special are values at the edges of float32: zeros, subnormals, overflow, infinities, NaN, and neighbours of one whose
// products fall on rounding midpoints.
var special = []float32{0, float32(math.Copysign(0, -1)), 1, -1, 1 + 0x1p-23, 1 - 0x1p-24, 1 + 0x1p-12, -1 - 0x1p-12,
	0x1p-24, -0x1p-24, 0x1p-126, 0x1p-149, -0x1p-149, 0x1.8p-140, 0x1.fffffcp-127, 0x1p-75, -0x1p-74, 0x1.000002p-63,
	0x1.fffffep127, -0x1.fffffep127, 0x1p104, 0x1p64, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())}

// filler draws the elements of a matrix.
type filler struct {
	name string
	draw func(r *rand.Rand) float32
}

var fillers = []filler{
	{"normal", func(r *rand.Rand) float32 { return float32(r.NormFloat64()) }},
	{"special", func(r *rand.Rand) float32 { return special[r.IntN(len(special))] }},
	{"finite special", func(r *rand.Rand) float32 { return special[r.IntN(len(special)-7)] }},
	{"few bits", func(r *rand.Rand) float32 { // sums that are often exact ties
		return float32(r.IntN(9)-4) * float32(math.Ldexp(1, -12*r.IntN(3)))
	}},
	{"tiny", func(r *rand.Rand) float32 { return float32(r.NormFloat64() * 0x1p-70) }},
	{"any bits", func(r *rand.Rand) float32 { return math.Float32frombits(r.Uint32()) }},
}

func fill(r *rand.Rand, f filler, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = f.draw(r)
	}
	return s
}

// shape is one product for tests: strides exceed the rows by pad elements.
type shape struct {
	trans   kernel.Trans
	m, n, k int
	pad     int
	acc     bool
}

func (s shape) String() string {
	return fmt.Sprintf("%v %dx%dx%d pad %d accumulate %v", s.trans, s.m, s.n, s.k, s.pad, s.acc)
}

// run fills matrices for s, multiplies by every path and by the chain, and compares all bits of C, those between its
// rows and around it included.
func (s shape) run(t *testing.T, r *rand.Rand, f filler, fma func(a, b, c float32) float32) {
	t.Helper()
	aRows, aCols, bRows, bCols := s.m, s.k, s.k, s.n
	if s.trans == kernel.NT {
		bRows, bCols = s.n, s.k
	}
	if s.trans == kernel.TN {
		aRows, aCols = s.k, s.m
	}
	lda, ldb, ldc := max(1, aCols+s.pad), max(1, bCols+s.pad), max(1, s.n+s.pad)
	// Slices end with their last row, so that the end of the allocation is near.
	a := fill(r, f, max(0, (aRows-1)*lda+aCols))
	b := fill(r, f, max(0, (bRows-1)*ldb+bCols))
	const canary = 40
	old := fill(r, f, 2*canary+s.m*ldc)
	inside := func(c []float32) []float32 { return c[canary : canary+max(0, (s.m-1)*ldc+s.n)] }

	want := append([]float32(nil), old...)
	p := product{c: inside(want), a: a, b: b, ldc: ldc, ars: lda, acs: 1, brs: ldb, bcs: 1, m: s.m, n: s.n, k: s.k,
		accumulate: s.acc}
	if s.trans == kernel.NT {
		p.brs, p.bcs = 1, ldb
	}
	if s.trans == kernel.TN {
		p.ars, p.acs = 1, lda
	}
	chain(fma, p)
	var scratch Scratch
	for _, k := range kernels() {
		got := append([]float32(nil), old...)
		for i := range got {
			if !s.acc && math.Float32bits(got[i])&1 == 0 { // what C held must not matter
				got[i] = float32(math.NaN())
			}
		}
		before := append([]float32(nil), got...)
		k.Gemm(s.trans, inside(got), ldc, a, lda, b, ldb, s.m, s.n, s.k, s.acc, &scratch)
		for i := range got {
			row, col := (i-canary)/ldc, (i-canary)%ldc
			in := i >= canary && row < s.m && col < s.n
			if in && !same(got[i], want[i]) {
				t.Fatalf("%s, %s, %v: c[%d][%d] = %x, want %x", k.Name(), f.name, s, row, col, got[i], want[i])
			}
			if !in && math.Float32bits(got[i]) != math.Float32bits(before[i]) {
				t.Fatalf("%s, %s, %v: wrote outside c, at %d", k.Name(), f.name, s, i-canary)
			}
		}
	}
}

var transes = []kernel.Trans{kernel.NN, kernel.NT, kernel.TN}

func TestSmallShapesAgainstExactArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	sizes := []int{0, 1, 5, 7}
	for _, f := range fillers {
		for _, trans := range transes {
			for _, m := range sizes {
				for _, n := range sizes {
					for _, k := range sizes {
						shape{trans, m, n, k, r.IntN(4), r.IntN(2) == 0}.run(t, r, f, bigFMA)
					}
				}
			}
		}
	}
}

func TestShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	sizes := []int{1, 2, 3, 8, 11, 13, 16, 17, 24, 29, 31, 32, 33, 37, 47, 48, 49, 61, 64, 67, 97}
	pick := func() int { return sizes[r.IntN(len(sizes))] }
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	for _, f := range fillers {
		for _, trans := range transes {
			for range rounds {
				shape{trans, pick(), pick(), pick(), r.IntN(2) * r.IntN(70), r.IntN(2) == 0}.run(t, r, f, ref.FMA)
			}
		}
	}
}

// The default model's products, and sizes beyond one block of k.
func TestLargeShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, d := range [][3]int{{128, 192, 64}, {64, 192, 128}, {16, 16, 16}, {3, 5, 1031}, {37, 150, 521}} {
		for _, trans := range transes {
			shape{trans, d[0], d[1], d[2], 0, false}.run(t, r, fillers[0], ref.FMA)
			shape{trans, d[0], d[1], d[2], 3, true}.run(t, r, fillers[0], ref.FMA)
		}
	}
}

// Sizes beyond every block of the assembly paths, and rows of A a page apart.
func TestBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, s := range []shape{
		{kernel.NN, 243, 260, 261, 1024 - 261, true},
		{kernel.TN, 243, 260, 261, 1024 - 243, false},
		{kernel.NN, 3, 1030, 5, 0, false},
		{kernel.NN, 101, 1041, 7, 1, true},
		{kernel.NT, 2, 1043, 9, 0, true},
	} {
		s.run(t, r, fillers[0], ref.FMA)
	}
}

// An independent check: gonum in float64. The error of a chain is at most k roundings of its largest partial sum.
func TestAgainstGonum(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	const m, n, k = 45, 70, 300
	a, b := fill(r, fillers[0], m*k), fill(r, fillers[0], k*n)
	a64, b64 := mat.NewDense(m, k, nil), mat.NewDense(k, n, nil)
	a64.Apply(func(i, j int, _ float64) float64 { return float64(a[i*k+j]) }, a64)
	b64.Apply(func(i, j int, _ float64) float64 { return float64(b[i*n+j]) }, b64)
	var want, scale mat.Dense
	want.Mul(a64, b64)
	abs := func(_, _ int, v float64) float64 { return math.Abs(v) }
	a64.Apply(abs, a64)
	b64.Apply(abs, b64)
	scale.Mul(a64, b64)
	var scratch Scratch
	for _, kern := range kernels() {
		c := make([]float32, m*n)
		kern.Gemm(kernel.NN, c, n, a, k, b, n, m, n, k, false, &scratch)
		for i := range m {
			for j := range n {
				if e := math.Abs(float64(c[i*n+j]) - want.At(i, j)); e > k*0x1p-24*scale.At(i, j) {
					t.Fatalf("%s: c[%d][%d] = %v, gonum has %v", kern.Name(), i, j, c[i*n+j], want.At(i, j))
				}
			}
		}
	}
}

func FuzzGemm(f *testing.F) {
	f.Add(uint64(1), uint8(0), uint8(5), uint8(7), uint8(9), uint8(0), false)
	f.Add(uint64(2), uint8(1), uint8(33), uint8(17), uint8(16), uint8(3), true)
	f.Add(uint64(3), uint8(2), uint8(13), uint8(63), uint8(1), uint8(1), true)
	f.Fuzz(func(t *testing.T, seed uint64, kind, m, n, k, pad uint8, acc bool) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := shape{transes[kind%3], int(m % 70), int(n % 70), int(k % 70), int(pad % 40), acc}
		s.run(t, r, fillers[int(kind/3)%len(fillers)], ref.FMA)
	})
}

func TestSelect(t *testing.T) {
	best, err := Select("")
	if err != nil || best.Name() != Paths()[0] {
		t.Fatalf("Select(\"\") = %v, %v, want %s", best, err, Paths()[0])
	}
	for _, name := range Paths() {
		if k, err := Select(name); err != nil || k.Name() != name {
			t.Errorf("Select(%q) = %v, %v", name, k, err)
		}
	}
	if _, err := Select("sse9"); err == nil || !strings.Contains(err.Error(), strings.Join(Paths(), ", ")) {
		t.Errorf("Select(\"sse9\"): error %v does not say what is available", err)
	}
}

func TestShortSlicesPanic(t *testing.T) {
	k, _ := Select("")
	var s Scratch
	x := make([]float32, 12)
	for name, call := range map[string]func(){
		"short c":     func() { k.Gemm(kernel.NN, x[:11], 4, x, 1, x, 4, 3, 4, 1, false, &s) },
		"short a":     func() { k.Gemm(kernel.NN, x, 4, x[:2], 1, x, 4, 3, 4, 1, false, &s) },
		"short b":     func() { k.Gemm(kernel.NT, x, 4, x, 1, x[:3], 1, 3, 4, 1, false, &s) },
		"stride < n":  func() { k.Gemm(kernel.NN, x, 3, x, 1, x, 4, 3, 4, 1, false, &s) },
		"huge stride": func() { k.Gemm(kernel.NN, x, math.MaxInt, x, 1, x, 4, 3, 4, 1, false, &s) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "gemm: ") {
					t.Errorf("recovered %v, want a gemm panic", r)
				}
			}()
			call()
		})
	}
}

// TestPeak holds the rates of all paths to what a core of today may have.
func TestPeak(t *testing.T) {
	for _, k := range kernels() {
		rate := 0.0
		for range 5 { // a busy machine has other things to do in most of them
			rate = max(rate, k.Peak(time.Millisecond))
		}
		if !(rate > 1e8 && rate < 1e12) {
			t.Errorf("%s: %g operations a second", k.Name(), rate)
		}
	}
}
