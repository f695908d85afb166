package fsdp

import (
	"math"
	"testing"

	"shoal/kernel"
	"shoal/kernel/ref"
	"shoal/model"
)

// referenceNorm is the norm of the mean gradient of step 0, summed over microbatches in float64.
func referenceNorm(t *testing.T, s setup, order []int) float64 {
	t.Helper()
	dev := fast(t)
	defer dev.Close()
	params := map[string]kernel.Buffer{}
	for _, u := range s.model.Units() {
		for _, p := range u.Params {
			v := make([]float32, p.Len())
			fill(p.Init, ref.Hash64(s.hyper.Seed, p.Name), 0, v)
			for i := range v {
				v[i] = ref.FromBF16(ref.ToBF16(v[i]))
			}
			params[p.Name] = dev.Alloc(kernel.Parameters, kernel.F32, p.Len())
			dev.Upload(params[p.Name], kernel.Bytes(v))
		}
	}
	sums := map[string][]float64{}
	count := 0
	for _, mb := range microbatches(len(order), s.hyper.Microbatch) {
		var b model.Batch
		if err := s.train.Read(order[mb[0]:mb[1]], &b); err != nil {
			t.Fatal(err)
		}
		model.EncodeBatch(s.model, &b)
		count += b.Count()
		in := model.UploadBatch(dev, &b)
		stages := s.model.Stages()
		xs, ctxs := []kernel.Buffer{{}}, []*model.Ctx{}
		tensors := func(st model.Stage) (p []kernel.Buffer) {
			for _, name := range st.Params {
				p = append(p, params[name])
			}
			return p
		}
		for i, st := range stages {
			c := model.NewCtx(dev, in)
			xs = append(xs, st.Layer.Forward(c, tensors(st), xs[i]))
			ctxs = append(ctxs, c)
		}
		var dy kernel.Buffer
		for i := len(stages) - 1; i >= 0; i-- {
			st := stages[i]
			var dp []kernel.Buffer
			for _, p := range tensors(st) {
				dp = append(dp, dev.Alloc(kernel.GradientWork, kernel.F32, p.Len))
			}
			dy = st.Layer.Backward(ctxs[i], tensors(st), dp, xs[i], dy)
			for j, name := range st.Params {
				g := make([]float32, dp[j].Len)
				if err := dev.Download(kernel.Bytes(g), dp[j]); err != nil {
					t.Fatal(err)
				}
				if sums[name] == nil {
					sums[name] = make([]float64, len(g))
				}
				for k, x := range g {
					sums[name][k] += float64(x)
				}
			}
		}
	}
	var squares float64
	for _, sum := range sums {
		for _, x := range sum {
			squares += (x / float64(count)) * (x / float64(count))
		}
	}
	return math.Sqrt(squares)
}

// TestClipNorm compares the norm in the log, and the factor made from it, with a float64 reference, whatever the
// sharding.
func TestClipNorm(t *testing.T) {
	for _, clip := range []float64{0.01, 1e6} {
		for _, c := range []struct {
			name     string
			weights  []int64
			strategy Strategy
			in       bool // the model of odd shapes with a tied tensor
			reduce   Format
		}{
			{"1 peer", []int64{1}, FSDP, false, Fixed32},
			{"3 peers", []int64{1, 1, 1}, FSDP, false, Fixed32},
			{"weights 5,1,1", []int64{5, 1, 1}, FSDP, false, Fixed32},
			{"ddp", []int64{1, 1}, DDP, false, Fixed32},
			{"tied, 3 peers", []int64{1, 1, 1}, FSDP, true, Fixed32},
			{"fp32", []int64{1}, FSDP, false, Float32},
			{"fp32, tied, 3 peers", []int64{3, 1, 1}, FSDP, true, Float32},
			{"fp32, ddp", []int64{1, 1}, DDP, false, Float32},
		} {
			t.Run(c.name, func(t *testing.T) {
				s := base(t)
				if c.in {
					s = oddSetup(t, 7, 5, 40, 10, one)
				}
				s.weights, s.strategy, s.hyper.Clip, s.hyper.Steps, s.hyper.Reduce = c.weights, c.strategy, clip, 1, c.reduce
				order := []int{3, 1, 4, 15, 9, 2, 6, 5, 35, 8, 7}
				s.order = func(int) []int { return order }
				var got *Outcome
				s.progress = func(o *Outcome, _ []float64, _ []StepHash) {
					if o.Kind == EntryCommit {
						got = o
					}
				}
				s.mustRun(t)
				want := referenceNorm(t, s, order)
				if math.Abs(got.Norm/want-1) > 1e-6 {
					t.Errorf("norm %.9g, reference %.9g", got.Norm, want)
				}
				scale := min(1, clip/want) / float64(len(order))
				if math.Abs(float64(got.Scale)/scale-1) > 1e-6 {
					t.Errorf("scale %.9g, reference %.9g", got.Scale, scale)
				}
			})
		}
	}
}
