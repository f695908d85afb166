package fsdp

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"shoal/internal/data"
	"shoal/kernel"
	"shoal/kernel/ref"
	"shoal/model"
)

// tied is a model of awkward shapes: in features, a hidden layer of width mid in its own unit, and a head that shares
// its matrix with the embedding. poison makes the gradient of one sample NaN.
type tied struct{ in, mid int }

func (m tied) Sample() model.Spec { return model.Spec{Floats: m.in, Labels: 1} }
func (m tied) Units() []model.Unit {
	return []model.Unit{
		{Name: "root", Params: []model.Param{{Name: "embed", Shape: []int{m.mid, m.in}, Init: model.Init{Kind: model.Uniform, A: 0.5}, Decay: true}}},
		{Name: "middle", Params: []model.Param{{Name: "gain", Shape: []int{1, m.mid}, Init: model.Init{Kind: model.Ones}}}},
		{Name: "last", Params: []model.Param{{Name: "bias", Shape: []int{m.in}, Init: model.Init{Kind: model.Zeros}}}},
	}
}
func (m tied) Stages() []model.Stage {
	return []model.Stage{
		{Unit: 0, Params: []string{"embed"}, Layer: tiedIn(m)},
		{Unit: 1, Params: []string{"gain"}, Layer: tiedMid(m)},
		{Unit: 0, Params: []string{"embed"}, Layer: tiedOut(m)},
		{Unit: 2, Params: []string{"bias"}, Layer: tiedLoss(m)},
	}
}

type (
	tiedIn   tied
	tiedMid  tied
	tiedOut  tied
	tiedLoss tied
)

func (m tiedIn) Forward(c *model.Ctx, p []kernel.Buffer, _ kernel.Buffer) kernel.Buffer {
	y := c.Out(c.N * m.mid)
	c.MatMul(kernel.NT, y, c.Input, p[0], c.N, m.mid, m.in, false)
	return y
}

func (m tiedIn) Backward(c *model.Ctx, _, dp []kernel.Buffer, _, dy kernel.Buffer) kernel.Buffer {
	c.MatMul(kernel.TN, dp[0], dy, c.Input, m.mid, m.in, c.N, false)
	return kernel.Buffer{}
}

// The middle adds its gain to each row: y = x + gain.
func (m tiedMid) Forward(c *model.Ctx, p []kernel.Buffer, x kernel.Buffer) kernel.Buffer {
	y := c.Out(c.N * m.mid)
	c.AddRows(y, x, p[0], c.N, m.mid, 1)
	return y
}

func (m tiedMid) Backward(c *model.Ctx, _, dp []kernel.Buffer, _, dy kernel.Buffer) kernel.Buffer {
	c.SumRows(dp[0], dy, c.N, m.mid, 1)
	dx := c.Out(c.N * m.mid)
	c.Copy(dx, dy)
	return dx
}

func (m tiedOut) Forward(c *model.Ctx, p []kernel.Buffer, x kernel.Buffer) kernel.Buffer {
	y := c.Out(c.N * m.in)
	c.MatMul(kernel.NN, y, x, p[0], c.N, m.in, m.mid, false)
	return y
}

func (m tiedOut) Backward(c *model.Ctx, p, dp []kernel.Buffer, x, dy kernel.Buffer) kernel.Buffer {
	c.MatMul(kernel.TN, dp[0], x, dy, m.mid, m.in, c.N, false)
	dx := c.Out(c.N * m.mid)
	c.MatMul(kernel.NT, dx, dy, p[0], c.N, m.mid, m.in, false)
	return dx
}

func (m tiedLoss) Forward(c *model.Ctx, p []kernel.Buffer, x kernel.Buffer) kernel.Buffer {
	logits, d := c.Temp(c.N*m.in), c.Keep(c.N*m.in)
	c.AddRows(logits, x, p[0], c.N, m.in, 1)
	c.Predict(logits, c.N, m.in)
	loss := c.Out(c.N)
	c.CrossEntropy(loss, d, logits, c.Labels, c.N, m.in)
	return loss
}

func (m tiedLoss) Backward(c *model.Ctx, _, dp []kernel.Buffer, _, _ kernel.Buffer) kernel.Buffer {
	c.SumRows(dp[0], c.Kept(0), c.N, m.in, 1)
	dx := c.Out(c.N * m.in)
	c.Copy(dx, c.Kept(0))
	return dx
}

// onehots are samples whose class is where the large value is; bad ones are NaN or far too large.
type onehots struct {
	n, in int
	value func(i int) float32
}

func (d onehots) Len() int         { return d.n }
func (d onehots) Spec() model.Spec { return model.Spec{Floats: d.in, Labels: 1} }
func (d onehots) Read(indices []int, b *model.Batch) error {
	b.N, b.Floats, b.Labels = len(indices), nil, nil
	for _, i := range indices {
		x := make([]float32, d.in)
		ref.FillUniform(x, ref.Hash64(uint64(i), "x"), 0, 0.1)
		x[i%d.in] += d.value(i)
		b.Floats = append(b.Floats, x...)
		b.Labels = append(b.Labels, int32(i%d.in))
	}
	return nil
}

func oddSetup(t testing.TB, in, mid, samples, batch int, value func(int) float32) setup {
	s := base(t)
	s.model = tied{in, mid}
	s.train, s.eval = onehots{samples, in, value}, onehots{3, in, value}
	s.hyper.Batch, s.hyper.Microbatch, s.hyper.Steps = batch, 2, 9
	s.order = func(step int) []int {
		_, list := data.Batch(1, samples, batch, step)
		return list
	}
	return s
}

func one(int) float32 { return 1 }

func TestOddShapes(t *testing.T) {
	for _, c := range []struct {
		name                    string
		in, mid, samples, batch int
	}{
		{"dimensions of 1: fewer parameters than peers", 1, 1, 11, 4},
		{"dimensions 5 and 7, batch not divisible", 7, 5, 23, 5},
		{"data set smaller than a batch", 5, 7, 3, 8},
		{"last batch of an epoch is one sample", 5, 1, 9, 4},
		{"one sample", 3, 3, 1, 4},
		{"several leaves, the last one short", 33, 17, 20, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := oddSetup(t, c.in, c.mid, c.samples, c.batch, one)
			want := s.mustRun(t)[0]
			for _, weights := range [][]int64{{1, 1}, {1, 1, 1}, {5, 1, 1}, {1, 1, 1, 1, 1}} {
				s.weights = weights
				for _, got := range s.mustRun(t) {
					same(t, want, got)
				}
			}
			s.strategy = DDP
			same(t, want, s.mustRun(t)[2])
		})
	}
}

func TestTiedTensorLearns(t *testing.T) {
	s := oddSetup(t, 5, 7, 40, 10, one)
	s.hyper.Steps, s.hyper.LR = 60, 0.03
	res := s.mustRun(t)[0]
	if last := res.Losses[59]; !(last < 0.3*res.Losses[0]) {
		t.Errorf("loss went from %v to %v", res.Losses[0], last)
	}
	if res.Retries != 1 {
		t.Errorf("%d retries, want the one of the first step", res.Retries)
	}
}

func TestSpikeIsRetried(t *testing.T) {
	s := oddSetup(t, 5, 7, 40, 10, func(i int) float32 {
		if i == 3 {
			return -3000
		}
		return 1
	})
	s.hyper.Steps = 4
	s.order = func(step int) []int { return []int{step + 1, 10, 20, 30} }
	one := s.mustRun(t)[0]
	if one.Retries != 2 {
		t.Errorf("%d retries, want one at the first step and one at the spike", one.Retries)
	}
	s.weights = []int64{1, 2, 1}
	for _, got := range s.mustRun(t) {
		same(t, one, got)
		if got.Retries != one.Retries {
			t.Errorf("%d retries with 3 peers, %d with one", got.Retries, one.Retries)
		}
	}
}

func TestNotFinite(t *testing.T) {
	nan := float32(math.NaN())
	s := oddSetup(t, 5, 7, 40, 10, func(i int) float32 {
		if i == 17 {
			return nan
		}
		return 1
	})
	s.hyper.Steps, s.eval = 8, nil
	for _, weights := range [][]int64{{1}, {1, 1, 1}} {
		s.weights = weights
		res, _, err := s.run(t)
		if err != nil {
			t.Fatal(err)
		}
		if res[0].Skipped != 2 { // 40 samples in batches of 10: each epoch has the bad sample once
			t.Errorf("%d steps were skipped, want 2", res[0].Skipped)
		}
		bad := 0
		for _, l := range res[0].Losses {
			if math.IsNaN(l) {
				bad++
			}
		}
		if bad != 2 {
			t.Errorf("%d losses are NaN, want 2: %v", bad, res[0].Losses)
		}
	}

	s.train = onehots{40, 5, func(int) float32 { return nan }}
	s.hyper.Steps, s.weights = 50, []int64{1, 1}
	if _, _, err := s.run(t); !errors.Is(err, ErrNotFinite) {
		t.Errorf("a run of NaN gradients ended with %v, want ErrNotFinite", err)
	}
}

// TestSkippedStepChangesNothing compares the state hash before and after a step whose gradient is NaN.
func TestSkippedStepChangesNothing(t *testing.T) {
	s := oddSetup(t, 5, 7, 40, 10, func(i int) float32 {
		if i >= 30 {
			return float32(math.Inf(1))
		}
		return 1
	})
	s.order = func(step int) []int {
		if step == 2 {
			return []int{0, 1, 35}
		}
		return []int{step, 5, 6, 7}
	}
	s.hyper.Steps, s.hyper.HashEvery, s.eval = 4, 1, nil
	res := s.mustRun(t)[0]
	if h := res.StepHashes; len(h) != 4 || h[1].Hash != h[2].Hash || h[0].Hash == h[1].Hash || h[2].Hash.String() == res.StateHash {
		t.Errorf("hashes after steps 1 to 4: %v, %v; only 2 and 3 should be equal", res.StepHashes, res.StateHash)
	}
}

func TestGradientNorm(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const f, count = 20, 64
	var squares []u128
	var exps []int16
	var want float64
	for tensor := range 40 {
		e := int16(rng.IntN(40) - 30)
		q := make([]int32, 1000)
		for i := range q {
			g := rng.NormFloat64() * math.Ldexp(0.3, int(e))
			q[i] = int32(math.RoundToEven(math.Ldexp(g, f-int(e))))
			v := math.Ldexp(float64(q[i]), int(e)-f) / count
			want += v * v
		}
		if tensor == 7 {
			e, q = expZero, nil
		}
		if tensor == 7 {
			want = sumOf(squares, exps, f, count)
		}
		squares, exps = append(squares, u128Of(ref.SumSquares(q))), append(exps, e)
	}
	got, _ := gradientNorm(squares, exps, f, count).Float64()
	if want = math.Sqrt(want); math.Abs(got/want-1) > 1e-12 {
		t.Errorf("norm %v, want %v", got, want)
	}
	if n := gradientNorm([]u128{{}, {}}, []int16{expZero, 3}, f, count); n.Sign() != 0 {
		t.Errorf("norm of nothing is %v", n)
	}
	tiny, _ := gradientNorm([]u128{{0, 4}}, []int16{-140}, 24, 1).Float64()
	if want := math.Ldexp(2, -164); tiny != want {
		t.Errorf("norm %v, want %v", tiny, want)
	}
}

func (a u128) big() *big.Int {
	b := new(big.Int).SetUint64(a.Hi)
	return b.Or(b.Lsh(b, 64), new(big.Int).SetUint64(a.Lo))
}

func sumOf(squares []u128, exps []int16, f int, count float64) float64 {
	var s float64
	for t, q := range squares {
		x, _ := new(big.Float).SetInt(q.big()).Float64()
		s += math.Ldexp(x, 2*(int(exps[t])-f)) / (count * count)
	}
	return s
}

func TestSumSquares(t *testing.T) {
	q := slices.Repeat([]int32{math.MinInt32, math.MaxInt32, -1}, 5)
	want := new(big.Int)
	for _, v := range q {
		want.Add(want, new(big.Int).Mul(big.NewInt(int64(v)), big.NewInt(int64(v))))
	}
	if got := u128Of(ref.SumSquares(q)).big(); got.Cmp(want) != 0 {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestExponentOf(t *testing.T) {
	for _, c := range []struct {
		x    float32
		want int16
	}{{0, expZero}, {1, 0}, {1.5, 1}, {2, 1}, {0.5, -1}, {0.75, 0}, {math.MaxFloat32, 128},
		{math.SmallestNonzeroFloat32, -149}, {float32(math.Inf(1)), expNotFinite}, {float32(math.NaN()), expNotFinite}} {
		if got := exponentOf(c.x); got != c.want {
			t.Errorf("exponentOf(%v) = %d, want %d", c.x, got, c.want)
		}
	}
}

func TestFractionBits(t *testing.T) {
	for _, c := range []struct{ m, uses, want, want16 int }{{1, 1, 24, 11}, {4, 1, 24, 11}, {5, 1, 23, 11}, {8, 1, 23, 11},
		{8, 2, 22, 11}, {9, 1, 22, 11}, {1024, 1, 16, 11}, {65536, 2, 9, 9}} {
		if got := fractionBits(11, c.m, c.uses); got != c.want16 {
			t.Errorf("F of fixed16 for %d microbatches, %d uses: %d, want %d", c.m, c.uses, got, c.want16)
		}
		if got := fractionBits(24, c.m, c.uses); got != c.want {
			t.Errorf("F for %d microbatches, %d uses: %d, want %d", c.m, c.uses, got, c.want)
		}
		// Every summand at the limit still fits.
		if sum := float64(c.m*c.uses) * math.Ldexp(1, fractionBits(24, c.m, c.uses)+headroom); sum > 1<<30 {
			t.Errorf("%d microbatches can sum to %v", c.m, sum)
		}
	}
}
