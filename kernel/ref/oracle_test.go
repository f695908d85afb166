package ref_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"shoal/kernel"
	"shoal/kernel/ref"
)

// The reference itself is checked against independent float64: gonum for products, the textbook formulas for the rest,
// and central differences of those formulas for every backward op.

func normal(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(float32(r.NormFloat64()))
	}
	return x
}

func narrow(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// near fails unless got is within tol of want, relative to the size of want as a whole.
func near(t *testing.T, what string, got []float32, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	norm := floats.Norm(want, 2) / math.Sqrt(float64(max(len(want), 1)))
	for i := range want {
		if d := math.Abs(float64(got[i]) - want[i]); !(d <= tol*(norm+math.Abs(want[i]))) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// gradient is the gradient of sum(w * f(x)) by central differences.
func gradient(f func(x []float64) []float64, x, w []float64) []float64 {
	const h = 1e-5
	g, at := make([]float64, len(x)), append([]float64(nil), x...)
	for i := range x {
		at[i] = x[i] + h
		up := floats.Dot(w, f(at))
		at[i] = x[i] - h
		g[i] = (up - floats.Dot(w, f(at))) / (2 * h)
		at[i] = x[i]
	}
	return g
}

func TestMatMulAgainstGonum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, s := range [][3]int{{1, 1, 1}, {5, 7, 33}, {17, 64, 15}, {33, 16, 300}} {
		m, n, k := s[0], s[1], s[2]
		for trans := kernel.NN; trans <= kernel.TN; trans++ {
			a, b, c := normal(r, m*k), normal(r, k*n), normal(r, m*n)
			var am, bm mat.Matrix = mat.NewDense(m, k, a), mat.NewDense(k, n, b)
			switch trans {
			case kernel.NT:
				bm = mat.NewDense(n, k, b).T()
			case kernel.TN:
				am = mat.NewDense(k, m, a).T()
			}
			var want mat.Dense
			want.Mul(am, bm)
			want.Add(&want, mat.NewDense(m, n, c))
			got := narrow(c)
			ref.MatMul(trans, got, narrow(a), narrow(b), m, n, k, true)
			near(t, trans.String(), got, want.RawMatrix().Data, 1e-5)
		}
	}
}

func layerNorm64(x, gamma, beta []float64, cols int) []float64 {
	y := make([]float64, len(x))
	for r := 0; r < len(x); r += cols {
		row := x[r:][:cols]
		mean, variance := floats.Sum(row)/float64(cols), 0.0
		for _, v := range row {
			variance += (v - mean) * (v - mean) / float64(cols)
		}
		for i, v := range row {
			y[r+i] = (v-mean)/math.Sqrt(variance+kernel.LayerNormEps)*gamma[i] + beta[i]
		}
	}
	return y
}

func TestLayerNorm(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, s := range [][2]int{{1, 5}, {7, 17}, {3, 64}} {
		rows, cols := s[0], s[1]
		x, gamma, beta, dy := normal(r, rows*cols), normal(r, cols), normal(r, cols), normal(r, rows*cols)
		y, mean, rstd := make([]float32, rows*cols), make([]float32, rows), make([]float32, rows)
		ref.LayerNorm(y, mean, rstd, narrow(x), narrow(gamma), narrow(beta), rows, cols)
		near(t, "y", y, layerNorm64(x, gamma, beta, cols), 1e-5)

		dx, dgamma, dbeta := make([]float32, rows*cols), make([]float32, cols), make([]float32, cols)
		ref.LayerNormBackward(dx, dgamma, dbeta, narrow(dy), narrow(x), mean, rstd, narrow(gamma), rows, cols)
		near(t, "dx", dx, gradient(func(x []float64) []float64 { return layerNorm64(x, gamma, beta, cols) }, x, dy), 1e-5)
		near(t, "dgamma", dgamma, gradient(func(g []float64) []float64 { return layerNorm64(x, g, beta, cols) }, gamma, dy), 1e-5)
		near(t, "dbeta", dbeta, gradient(func(b []float64) []float64 { return layerNorm64(x, gamma, b, cols) }, beta, dy), 1e-5)
	}
}

// attention64 is softmax(Q K^T / sqrt(D)) V by the formula, row by row.
func attention64(qkv []float64, s kernel.AttentionShape) []float64 {
	c := s.H * s.D
	y := make([]float64, s.B*s.T*c)
	at := func(b, t, part, h int) []float64 { return qkv[((b*s.T+t)*3+part)*c+h*s.D:][:s.D] }
	for b := range s.B {
		for h := range s.H {
			for t := range s.T {
				n := s.T
				if s.Causal {
					n = t + 1
				}
				w := make([]float64, n)
				for j := range w {
					w[j] = math.Exp(floats.Dot(at(b, t, 0, h), at(b, j, 1, h)) / math.Sqrt(float64(s.D)))
				}
				floats.Scale(1/floats.Sum(w), w)
				for j := range w {
					floats.AddScaled(y[(b*s.T+t)*c+h*s.D:][:s.D], w[j], at(b, j, 2, h))
				}
			}
		}
	}
	return y
}

func TestAttention(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, s := range []kernel.AttentionShape{{B: 2, T: 1, H: 1, D: 3}, {B: 2, T: 5, H: 2, D: 4},
		{B: 1, T: 17, H: 2, D: 5, Causal: true}, {B: 1, T: 70, H: 1, D: 3}, {B: 1, T: 70, H: 1, D: 3, Causal: true}} {
		n := s.B * s.T * s.H * s.D
		qkv, dy := normal(r, 3*n), normal(r, n)
		y, stats, dqkv := make([]float32, n), make([]float32, s.B*s.H*s.T*2), make([]float32, 3*n)
		ref.Attention(y, stats, narrow(qkv), s)
		near(t, "y", y, attention64(qkv, s), 1e-5)
		ref.AttentionBackward(dqkv, narrow(dy), y, narrow(qkv), stats, s)
		near(t, "dqkv", dqkv, gradient(func(x []float64) []float64 { return attention64(x, s) }, qkv, dy), 2e-5)
	}
}

func crossEntropy64(x []float64, labels []int32, cols int) []float64 {
	loss := make([]float64, len(labels))
	for r, l := range labels {
		if row := x[r*cols:][:cols]; l >= 0 {
			loss[r] = floats.LogSumExp(row) - row[l]
		}
	}
	return loss
}

func TestCrossEntropy(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	const rows, cols = 9, 21
	x, labels, ones := normal(r, rows*cols), make([]int32, rows), make([]float64, rows)
	for i := range labels {
		labels[i], ones[i] = int32(i*5%cols)-1, 1
	}
	loss, dx := make([]float32, rows), make([]float32, rows*cols)
	ref.CrossEntropy(loss, dx, narrow(x), labels, rows, cols)
	near(t, "loss", loss, crossEntropy64(x, labels, cols), 1e-6)
	near(t, "dlogits", dx, gradient(func(x []float64) []float64 { return crossEntropy64(x, labels, cols) }, x, ones), 1e-5)
}

func TestRowOps(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	const rows, cols, period = 10, 7, 3
	x, table := normal(r, rows*cols), normal(r, period*cols)
	sums, added := make([]float64, period*cols), make([]float64, rows*cols)
	for i := range rows {
		for c := range cols {
			sums[i%period*cols+c] += x[i*cols+c]
			added[i*cols+c] = x[i*cols+c] + table[i%period*cols+c]
		}
	}
	y, dtable := make([]float32, rows*cols), make([]float32, period*cols)
	ref.AddRows(y, narrow(x), narrow(table), rows, cols, period)
	near(t, "AddRows", y, added, 1e-6)
	ref.SumRows(dtable, narrow(x), rows, cols, period)
	near(t, "SumRows", dtable, sums, 1e-6)

	mean := func(x []float64) []float64 { // two groups of five rows
		m := make([]float64, 2*cols)
		for i, v := range x {
			m[i/(5*cols)*cols+i%cols] += v / 5
		}
		return m
	}
	means, dy, dx := make([]float32, 2*cols), normal(r, 2*cols), make([]float32, rows*cols)
	ref.MeanRows(means, narrow(x), 2, 5, cols)
	near(t, "MeanRows", means, mean(x), 1e-6)
	ref.MeanRowsBackward(dx, narrow(dy), 2, 5, cols)
	near(t, "MeanRowsBackward", dx, gradient(mean, x, dy), 1e-6)

	ids := []int32{2, -1, 0, 2, 7, 1, 1, 1, 0, 2}
	embed := func(table []float64) []float64 {
		y := make([]float64, rows*cols)
		for i, id := range ids {
			if id >= 0 && id < period {
				copy(y[i*cols:], table[int(id)*cols:][:cols])
			}
		}
		return y
	}
	ref.Embedding(y, narrow(table), ids, cols)
	near(t, "Embedding", y, embed(table), 0)
	ref.EmbeddingBackward(dtable, narrow(x), ids, cols)
	near(t, "EmbeddingBackward", dtable, gradient(embed, table, x), 1e-6)
}

func TestReductions(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	x := normal(r, 1000)
	near(t, "Sum", []float32{ref.Sum(narrow(x))}, []float64{floats.Sum(x)}, 1e-5)
	near(t, "MaxAbs", []float32{ref.MaxAbs(narrow(x))}, []float64{floats.Norm(x, math.Inf(1))}, 0)
	q := []int32{math.MinInt32, math.MaxInt32, 3, math.MinInt32, math.MinInt32, math.MinInt32}
	// 4 * 2^62 + (2^31-1)^2 + 9 = 2^64 + 2^62 - 2^32 + 10
	if got, want := ref.SumSquares(q), [4]int32{10, 1<<30 - 1, 1, 0}; got != want {
		t.Errorf("SumSquares: %v, want %v", got, want)
	}
}

func TestQuantum(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		g     float32
		shift int
		want  int32
	}{{1, 24, 1 << 24}, {-1, 24, -1 << 24}, {0.5, 0, 0}, {1.5, 0, 2}, {2.5, 0, 2}, {-2.5, 0, -2}, {0.75, 1, 2}, {nan, 5, 0},
		{inf, 0, 1 << 30}, {-inf, -400, -1 << 30}, {1, 31, 1 << 30}, {-1, 30, -1 << 30}, {0x1p-149, 149, 1}, {0x1p-149, 150, 2},
		{0x1p127, -127, 1}, {0x1.8p127, -126, 3}, {1 << 29, 1, 1 << 30}, {1<<24 - 1, 5, (1<<24 - 1) << 5}, {0, 1 << 60, 0}} {
		if got := ref.Quantum(c.g, c.shift); got != c.want {
			t.Errorf("Quantum(%v, %d) = %d, want %d", c.g, c.shift, got, c.want)
		}
	}
}

func TestStochasticQuantum(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		g     float32
		shift int
		r     uint32
		want  int32
	}{{3, 0, 0, 3}, {3, 0, 1<<24 - 1, 3}, {-3, 0, 0, -3}, {0, 5, 0, 0}, {0.5, 0, 1 << 23, 0}, {0.5, 0, 1<<23 - 1, 1},
		{-0.25, 0, 3 << 22, -1}, {-0.25, 0, 3<<22 - 1, 0}, {-0x1p-100, 0, 1<<24 - 1, 0}, {0x1p-100, 0, 1, 0}, {nan, 0, 0, 0},
		{inf, 0, 0, 1 << 30}, {-inf, 0, 0, -1 << 30}, {1<<24 - 1, -1, 1 << 23, 1<<23 - 1}} {
		if got := ref.StochasticQuantum(c.g, c.shift, c.r); got != c.want {
			t.Errorf("StochasticQuantum(%v, %d, %#x) = %d, want %d", c.g, c.shift, c.r, got, c.want)
		}
	}
	const n = 100_000
	for _, g := range []float32{0.3, -0.3, 7.9, -1e-3} {
		var sum int
		for i := range n {
			sum += int(ref.StochasticQuantum(g, 2, ref.RandomBits(99, i)))
		}
		// The standard deviation of the mean is at most 1/2 / sqrt(n).
		if mean := float64(sum) / n / 4; math.Abs(mean-float64(g)) > 4*0.5/math.Sqrt(n)/4 {
			t.Errorf("the mean of %d roundings of %v to quarters is %v", n, g, mean)
		}
	}
}

func TestAdamW(t *testing.T) {
	h := kernel.AdamW{Scale: 0x1p-18, LR: 1e-2, Decay: 5e-4, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}
	p, m, v := 0.7, 0.0, 0.0
	p32, m32, v32 := float32(p), float32(0), float32(0)
	for step := 1; step <= 20; step++ {
		q := int32(1000 * step * (step%3 - 1))
		h.C1, h.C2 = ref.BiasCorrection(h.Beta1, step), ref.BiasCorrection(h.Beta2, step)
		ref.AdamW(&p32, &m32, &v32, float32(q), h)
		g := float64(q) * float64(h.Scale)
		m = 0.9*m + 0.1*g
		v = 0.999*v + 0.001*g*g
		p -= 5e-4 * p
		p -= 1e-2 * (m / (1 - math.Pow(0.9, float64(step)))) / (math.Sqrt(v/(1-math.Pow(0.999, float64(step)))) + 1e-8)
		near(t, "p, m, v", []float32{p32}, []float64{p}, 1e-5)
		near(t, "m", []float32{m32}, []float64{m}, 1e-4)
		near(t, "v", []float32{v32}, []float64{v}, 1e-4)
	}
}

func TestBF16(t *testing.T) {
	for _, c := range []struct {
		x    float32
		want uint16
	}{{1, 0x3f80}, {1 + 0x1p-8, 0x3f80}, {1 + 0x1.8p-7, 0x3f82}, {1 + 0x1.0002p-8, 0x3f81}, {-1, 0xbf80}, {math.MaxFloat32, 0x7f80},
		{float32(math.Inf(-1)), 0xff80}, {float32(math.NaN()), 0x7fc0}, {0x1p-149, 0}, {0x1p-133, 1}, {float32(math.Copysign(0, -1)), 0x8000}} {
		if got := ref.ToBF16(c.x); got != c.want {
			t.Errorf("ToBF16(%v) = %#x, want %#x", c.x, got, c.want)
		}
	}
	for u := range uint16(0x7f81) {
		if got := ref.ToBF16(ref.FromBF16(u)); got != u {
			t.Fatalf("ToBF16(FromBF16(%#x)) = %#x", u, got)
		}
	}
}

func TestArgmax(t *testing.T) {
	nan := float32(math.NaN())
	x := []float32{1, 3, 3, nan, 5, 2, nan, nan, nan}
	idx := make([]int32, 3)
	ref.Argmax(idx, x, 3, 3)
	if idx[0] != 1 || idx[1] != 1 || idx[2] != 0 {
		t.Errorf("Argmax: %v, want [1 1 0]", idx)
	}
}
