package vit_test

import (
	"testing"

	"shoal/internal/golden"
	"shoal/kernel"
	"shoal/model"
	"shoal/model/modeltest"
	"shoal/model/vit"
)

// own are the fields that only a vit's golden has, see scripts/goldens/vit.py.
type own struct {
	Config vit.Config
	Labels []int32
	Losses []float32
}

// tolerance of logits, losses and gradients against PyTorch, relative to the tensor's norm.
const tolerance = 1e-5

// eachGolden runs f on every golden and device, with a function that gives the encoded batch of a step.
func eachGolden(t *testing.T, f func(t *testing.T, g *golden.File, o *own, m *vit.Model, dev kernel.Device, batch func(step int) *model.Batch)) {
	for _, name := range []string{"small", "odd"} {
		t.Run(name, func(t *testing.T) {
			o := &own{}
			g := golden.Load(t, "testdata/"+name, o)
			m, err := vit.New(o.Config)
			if err != nil {
				t.Fatal(err)
			}
			n := g.Batch * m.Sample().Floats
			batch := func(step int) *model.Batch {
				b := &model.Batch{N: g.Batch,
					Floats: g.Values["images"][step*n : (step+1)*n],
					Labels: o.Labels[step*g.Batch : (step+1)*g.Batch]}
				model.EncodeBatch(m, b)
				return b
			}
			golden.EachDevice(t, func(t *testing.T, dev kernel.Device) { f(t, g, o, m, dev, batch) })
		})
	}
}

func TestGoldenLossAndGradients(t *testing.T) {
	eachGolden(t, func(t *testing.T, g *golden.File, o *own, m *vit.Model, dev kernel.Device, batch func(int) *model.Batch) {
		r := g.Start(t, dev, m)
		losses, err := r.Run(model.UploadBatch(dev, batch(0)), false)
		if err != nil {
			t.Fatal(err)
		}
		golden.Near(t, "losses", golden.Floats(t, dev, losses), o.Losses, tolerance)
		for _, p := range golden.Params(m) {
			golden.Near(t, "gradient of "+p.Name, golden.Floats(t, dev, r.Grad(p.Name)), g.Values["grad/"+p.Name], tolerance)
		}
	})
}

func TestGoldenLogits(t *testing.T) {
	eachGolden(t, func(t *testing.T, g *golden.File, o *own, m *vit.Model, dev kernel.Device, batch func(int) *model.Batch) {
		got := logits(m, g.Start(t, dev, m), dev, model.UploadBatch(dev, batch(0)))
		golden.Near(t, "logits", golden.Floats(t, dev, got), g.Values["logits"], tolerance)
	})
}

// logits runs all stages and takes what the head gave to Predict.
func logits(m *vit.Model, r *modeltest.Runner, dev kernel.Device, in model.DeviceBatch) kernel.Buffer {
	spy := &predictSpy{Device: dev}
	var x kernel.Buffer
	for _, s := range m.Stages() {
		p := make([]kernel.Buffer, len(s.Params))
		for i, n := range s.Params {
			p[i] = r.Param(n)
		}
		x = s.Layer.Forward(model.NewCtx(spy, in), p, x)
	}
	return spy.logits
}

// predictSpy copies what Argmax sees.
type predictSpy struct {
	kernel.Device
	logits kernel.Buffer
}

func (s *predictSpy) Argmax(idx, x kernel.Buffer, rows, cols int) {
	s.logits = s.Alloc(kernel.Other, kernel.F32, rows*cols)
	s.Copy(s.logits, x)
	s.Device.Argmax(idx, x, rows, cols)
}

func TestGoldenAdamW(t *testing.T) {
	eachGolden(t, func(t *testing.T, g *golden.File, o *own, m *vit.Model, dev kernel.Device, batch func(int) *model.Batch) {
		g.Train(t, dev, m, batch)
	})
}
