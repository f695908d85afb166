package golden

import (
	"fmt"
	"math"
	"testing"

	"shoal/kernel"
	"shoal/model"
	"shoal/model/modeltest"
)

// Train takes the golden's AdamW steps with gradients summed as integers, tensor by tensor, as the ops are meant to be
// used, and wants the golden's losses and norms. batch gives the batch of a step.
func (f *File) Train(t testing.TB, dev kernel.Device, m model.Model, batch func(step int) *model.Batch) {
	t.Helper()
	o := newOptimizer(dev, f.Start(t, dev, m), m)
	for step := range f.Steps {
		loss, norm, err := o.step(f, step, batch(step))
		if err != nil {
			t.Fatal(err)
		}
		f.Like(t, step, loss, norm)
	}
}

// optimizer is AdamW on integer gradients with exponents from the gradients at hand.
type optimizer struct {
	dev    kernel.Device
	r      *modeltest.Runner
	params []model.Param
	m, v   []kernel.Buffer // F32
	q      []kernel.Buffer // I32
}

func newOptimizer(dev kernel.Device, r *modeltest.Runner, m model.Model) *optimizer {
	o := &optimizer{dev: dev, r: r, params: Params(m)}
	for _, p := range o.params {
		o.m = append(o.m, dev.Alloc(kernel.Optimizer, kernel.F32, p.Len()))
		o.v = append(o.v, dev.Alloc(kernel.Optimizer, kernel.F32, p.Len()))
		o.q = append(o.q, dev.Alloc(kernel.Gradients, kernel.I32, p.Len()))
		dev.Zero(o.m[len(o.m)-1])
		dev.Zero(o.v[len(o.v)-1])
	}
	return o
}

// step returns the mean loss before the update and the norm of its gradient before clipping.
func (o *optimizer) step(f *File, step int, b *model.Batch) (loss, norm float64, err error) {
	in := model.UploadBatch(o.dev, b)
	defer in.Free(o.dev)
	losses, err := o.r.Run(in, step%2 == 1)
	if err != nil {
		return 0, 0, err
	}
	defer o.dev.Free(losses)
	each, err := o.r.Floats(losses)
	if err != nil {
		return 0, 0, err
	}
	for _, l := range each {
		loss += float64(l) / float64(b.Count())
	}
	shifts, norm, err := o.quantise(b.Count())
	if err != nil {
		return 0, 0, err
	}
	o.update(f, step, shifts, min(1, f.Clip/norm)/float64(b.Count()))
	return loss, norm, o.dev.Sync()
}

// quantise fills q with the gradients times 2^shift and returns the norm of the mean gradient.
func (o *optimizer) quantise(count int) (shifts []int, norm float64, err error) {
	biggest, squares := o.dev.Alloc(kernel.Other, kernel.F32, 1), o.dev.Alloc(kernel.Other, kernel.I32, 4)
	defer o.dev.Free(biggest)
	defer o.dev.Free(squares)
	sum := 0.0
	for i, p := range o.params {
		o.dev.MaxAbs(biggest, o.r.Grad(p.Name))
		top, err := o.r.Floats(biggest)
		if err != nil {
			return nil, 0, err
		}
		if top[0] == 0 || math.IsInf(float64(top[0]), 0) {
			return nil, 0, fmt.Errorf("largest gradient of %q is %v", p.Name, top[0])
		}
		shift := 24 - int(math.Ceil(math.Log2(float64(top[0]))))
		o.dev.Zero(o.q[i])
		o.dev.Quantize(o.q[i], o.r.Grad(p.Name), shift)
		o.dev.SumSquares(squares, o.q[i])
		words := make([]int32, 4)
		if err := o.dev.Download(kernel.Bytes(words), squares); err != nil {
			return nil, 0, err
		}
		for k, w := range words {
			sum += math.Ldexp(float64(uint32(w)), 32*k-2*shift)
		}
		shifts = append(shifts, shift)
	}
	return shifts, math.Sqrt(sum) / float64(count), nil
}

func (o *optimizer) update(f *File, step int, shifts []int, scale float64) {
	at := float64(step + 1)
	for i, p := range o.params {
		h := kernel.AdamW{
			Scale: float32(math.Ldexp(scale, -shifts[i])), LR: f.LR[step],
			Beta1: float32(f.Beta1), Beta2: float32(f.Beta2), Eps: float32(f.Eps),
			C1: float32(1 / (1 - math.Pow(f.Beta1, at))), C2: float32(1 / (1 - math.Pow(f.Beta2, at))),
		}
		if p.Decay {
			h.Decay = f.LR[step] * float32(f.WeightDecay)
		}
		o.dev.AdamW(o.r.Param(p.Name), o.m[i], o.v[i], o.q[i], h)
	}
}
