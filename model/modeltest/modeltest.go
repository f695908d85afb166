// Package modeltest checks that a model keeps the contract of package model, above all that its Backward is the
// gradient of its Forward: every layer computes through kernel.Ops only, so the same layers run on a float64 device
// (modeltest/f64), where central differences are exact to about 1e-9.
package modeltest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"shoal/kernel"
	"shoal/kernel/ref"
	"shoal/model"
	"shoal/model/modeltest/f64"
)

// Config says on what Check tries a model. Zero fields mean the default.
type Config struct {
	Samples int          // samples in the drawn batch; default 3
	Classes int          // labels are drawn from 0..Classes-1, one is -1 (ignored); default 2
	Vocab   int          // tokens are drawn from 0..Vocab-1; default 2
	Batch   *model.Batch // used instead of a drawn batch; as the data set has it, before Encode
	Seed    uint64       // of parameters and batch
}

// Check fails the test unless m keeps the contract:
//
//   - model.Validate and a second call of Units, Stages and Sample find nothing wrong;
//   - Forward gives the same bits twice, one loss per label, the same loss for a sample whatever batch it is in, 0 for
//     an ignored label;
//   - Backward writes every gradient, leaves its inputs alone, and agrees with central differences in float64 to 1e-5,
//     for sampled elements of each parameter and for one random direction through all of its elements;
//   - no memory is lost, and float32 (kernel/ref) agrees with float64 to 1e-3.
//
// Parameters are drawn at random, not by their Init: zeros and ones would hide faults.
func Check(t testing.TB, m model.Model, cfg Config) {
	t.Helper()
	if err := check(m, cfg); err != nil {
		t.Fatal(err)
	}
}

func check(m model.Model, cfg Config) error {
	if err := model.Validate(m); err != nil {
		return err
	}
	if before := model.Describe(m); model.Describe(m) != before {
		return errors.New("modeltest: Units, Stages or Sample differ from call to call")
	}
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x5e1f))
	b, err := cfg.batch(m, rng)
	if err != nil {
		return err
	}
	params := drawParams(m, rng)
	exact, err := evaluate(f64.New(), m, params, b)
	if err != nil {
		return fmt.Errorf("modeltest: in float64: %w", err)
	}
	if err := checkLosses(m, params, b, exact); err != nil {
		return err
	}
	if err := checkDifferences(m, params, b, exact, rng); err != nil {
		return err
	}
	single, err := evaluate(ref.New(), m, params, b)
	if err != nil {
		return fmt.Errorf("modeltest: on kernel/ref: %w", err)
	}
	return compare(m, single, exact)
}

// batch is the batch to test with, after Encode.
func (cfg Config) batch(m model.Model, rng *rand.Rand) (*model.Batch, error) {
	s := m.Sample()
	b := cfg.Batch
	if b == nil {
		b = cfg.draw(s, rng)
	}
	if b.N < 1 || len(b.Floats) != b.N*s.Floats || len(b.Tokens) != b.N*s.Tokens || len(b.Labels) != b.N*s.Labels {
		return nil, fmt.Errorf("modeltest: a batch of %d samples with %d floats, %d tokens, %d labels does not fit %+v",
			b.N, len(b.Floats), len(b.Tokens), len(b.Labels), s)
	}
	b = &model.Batch{N: b.N, Floats: b.Floats, Tokens: b.Tokens, Labels: b.Labels}
	raw := b.Floats
	model.EncodeBatch(m, b)
	again := &model.Batch{N: b.N, Floats: raw}
	if model.EncodeBatch(m, again); !bytes.Equal(kernel.Bytes(b.Floats), kernel.Bytes(again.Floats)) {
		return nil, errors.New("modeltest: Encode gives other values the second time: it must be a pure function of src")
	}
	return b, nil
}

func (cfg Config) draw(s model.Spec, rng *rand.Rand) *model.Batch {
	n, classes, vocab := cfg.Samples, cfg.Classes, cfg.Vocab
	if n == 0 {
		n = 3
	}
	if classes == 0 {
		classes = 2
	}
	if vocab == 0 {
		vocab = 2
	}
	b := &model.Batch{N: n, Floats: make([]float32, n*s.Floats), Tokens: make([]int32, n*s.Tokens), Labels: make([]int32, n*s.Labels)}
	for i := range b.Floats {
		b.Floats[i] = float32(rng.NormFloat64())
	}
	for i := range b.Tokens {
		b.Tokens[i] = int32(rng.IntN(vocab))
	}
	for i := range b.Labels {
		b.Labels[i] = int32(rng.IntN(classes))
	}
	if len(b.Labels) > 1 {
		b.Labels[len(b.Labels)-1] = -1
	}
	return b
}

// drawParams draws matrices with standard deviation 1/sqrt(last dimension) and vectors around 0 or, if they start as
// ones, 1.
func drawParams(m model.Model, rng *rand.Rand) map[string][]float32 {
	params := map[string][]float32{}
	for _, u := range m.Units() {
		for _, p := range u.Params {
			mean, std := 0.0, 0.3
			if len(p.Shape) > 1 {
				std = 1 / math.Sqrt(float64(p.Shape[len(p.Shape)-1]))
			}
			if p.Init.Kind == model.Ones {
				mean = 1
			}
			v := make([]float32, p.Len())
			for i := range v {
				v[i] = float32(mean + std*rng.NormFloat64())
			}
			params[p.Name] = v
		}
	}
	return params
}

// result is what a model computes from a batch, on the host.
type result struct {
	losses []float64
	grads  map[string][]float64
}

// evaluate runs m strictly: once as it is, once with recomputing, which must give the same bits and lose no memory.
func evaluate(dev kernel.Device, m model.Model, params map[string][]float32, b *model.Batch) (*result, error) {
	defer dev.Close()
	r := NewRunner(dev, m)
	r.strict = true
	for name, v := range params {
		dev.Upload(r.Param(name), kernel.Bytes(v))
	}
	in := model.UploadBatch(dev, b)
	held := dev.Meter().Live(kernel.Activations)
	first, err := r.runOnce(in, false)
	if err != nil {
		return nil, err
	}
	second, err := r.runOnce(in, true)
	if err != nil {
		return nil, err
	}
	if n := dev.Meter().Live(kernel.Activations) - held; n != 0 {
		return nil, fmt.Errorf("two runs leave %d bytes behind: a buffer from c.Out that is not returned is nobody's, use c.Temp", n)
	}
	if !sameBits(first.losses, second.losses) {
		return nil, errors.New("two runs give different losses: Forward must be a pure function of parameters, input and batch")
	}
	for _, u := range m.Units() {
		for _, p := range u.Params {
			if !sameBits(first.grads[p.Name], second.grads[p.Name]) {
				return nil, fmt.Errorf("parameter %q: two runs give different gradients", p.Name)
			}
		}
	}
	return first, nil
}

func (r *Runner) runOnce(in model.DeviceBatch, recompute bool) (*result, error) {
	losses, err := r.Run(in, recompute)
	if err != nil {
		return nil, err
	}
	defer r.dev.Free(losses)
	res := &result{grads: map[string][]float64{}}
	if res.losses, err = r.float64s(losses); err != nil {
		return nil, err
	}
	for name, g := range r.grads {
		if res.grads[name], err = r.float64s(g); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// float64s copies b to the host without rounding where the device is f64's.
func (r *Runner) float64s(b kernel.Buffer) ([]float64, error) {
	if d, ok := r.dev.(*f64.Device); ok {
		return append([]float64(nil), d.Values(b)...), d.Sync()
	}
	f, err := r.Floats(b)
	v := make([]float64, len(f))
	for i := range f {
		v[i] = float64(f[i])
	}
	return v, err
}

func sameBits(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return false
		}
	}
	return true
}

// checkLosses checks that ignored labels cost nothing and that each sample's losses are its own.
func checkLosses(m model.Model, params map[string][]float32, b *model.Batch, whole *result) error {
	for i, l := range b.Labels {
		if l < 0 && whole.losses[i] != 0 {
			return fmt.Errorf("modeltest: the loss of label %d is %g: want 0, since the label is %d (ignored)", i, whole.losses[i], l)
		}
	}
	s := m.Sample()
	for k := range b.N {
		alone := &model.Batch{N: 1,
			Floats: b.Floats[k*s.Floats : (k+1)*s.Floats],
			Tokens: b.Tokens[k*s.Tokens : (k+1)*s.Tokens],
			Labels: b.Labels[k*s.Labels : (k+1)*s.Labels]}
		got, err := evaluate(f64.New(), m, params, alone)
		if err != nil {
			return fmt.Errorf("modeltest: sample %d in a batch of its own: %w", k, err)
		}
		for i, l := range got.losses {
			want := whole.losses[k*s.Labels+i]
			if math.Abs(l-want) > 1e-9*max(1, math.Abs(want)) {
				return fmt.Errorf("modeltest: sample %d has loss %g in a batch of its own, %g among %d: layers must not mix samples",
					k, l, want, b.N)
			}
		}
	}
	return nil
}

// compare tells where float32 results are further than 1e-3 of the tensor's norm from float64 ones.
func compare(m model.Model, single, exact *result) error {
	const tol = 1e-3
	var biggest float64
	for _, g := range exact.grads {
		biggest = max(biggest, norm(g))
	}
	if err := near("losses", single.losses, exact.losses, tol*norm(exact.losses)); err != nil {
		return err
	}
	for _, u := range m.Units() {
		for _, p := range u.Params {
			g := exact.grads[p.Name]
			what := fmt.Sprintf("gradient of %q", p.Name)
			if err := near(what, single.grads[p.Name], g, tol*norm(g)+1e-6*biggest); err != nil {
				return err
			}
		}
	}
	return nil
}

// near reports the element that differs most if the distance of got from want is above tol.
func near(what string, got, want []float64, tol float64) error {
	diff, worst := make([]float64, len(got)), 0
	for i := range got {
		diff[i] = got[i] - want[i]
		if !(math.Abs(diff[i]) <= math.Abs(diff[worst])) {
			worst = i
		}
	}
	if d := norm(diff); !(d <= tol) {
		return fmt.Errorf("modeltest: %s: kernel/ref is %.3g away from float64 (allowed %.3g), most at element %d: %g, want %g",
			what, d, tol, worst, got[worst], want[worst])
	}
	return nil
}

func norm(v []float64) float64 {
	s := 0.0
	for _, e := range v {
		s += e * e
	}
	return math.Sqrt(s)
}
