package gpt_test

import (
	"testing"

	"shoal/internal/golden"
	"shoal/kernel"
	"shoal/model"
	"shoal/model/gpt"
)

// own are the fields that only a gpt's golden has, see scripts/goldens/gpt.py.
type own struct {
	Config         gpt.Config
	Tokens, Labels []int32
	Losses         []float32
}

// tolerance of logits, losses and gradients against PyTorch, relative to the tensor's norm.
const tolerance = 1e-5

// eachGolden runs f on every golden and device.
func eachGolden(t *testing.T, f func(t *testing.T, g *golden.File, o *own, m *gpt.Model, dev kernel.Device)) {
	for _, name := range []string{"small", "odd"} {
		t.Run(name, func(t *testing.T) {
			o := &own{}
			g := golden.Load(t, "testdata/"+name, o)
			m, err := gpt.New(o.Config)
			if err != nil {
				t.Fatal(err)
			}
			golden.EachDevice(t, func(t *testing.T, dev kernel.Device) { f(t, g, o, m, dev) })
		})
	}
}

// samples are those from lo to hi of all batches one after another.
func (o *own) samples(lo, hi int) *model.Batch {
	t := o.Config.Context
	return &model.Batch{N: hi - lo, Tokens: o.Tokens[lo*t : hi*t], Labels: o.Labels[lo*t : hi*t]}
}

func TestGoldenLossAndGradients(t *testing.T) {
	eachGolden(t, func(t *testing.T, g *golden.File, o *own, m *gpt.Model, dev kernel.Device) {
		r := g.Start(t, dev, m)
		losses, err := r.Run(model.UploadBatch(dev, o.samples(0, g.Batch)), false)
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
	eachGolden(t, func(t *testing.T, g *golden.File, o *own, m *gpt.Model, dev kernel.Device) {
		r := g.Start(t, dev, m)
		in := model.UploadBatch(dev, o.samples(0, g.Batch))
		var x kernel.Buffer
		for i, s := range m.Stages() {
			p := make([]kernel.Buffer, len(s.Params))
			for k, n := range s.Params {
				p[k] = r.Param(n)
			}
			c := model.NewCtx(dev, in)
			if i == len(m.Stages())-1 {
				x = m.Logits(c, p, x)
			} else {
				x = s.Layer.Forward(c, p, x)
			}
			c.EndCall()
		}
		golden.Near(t, "logits", golden.Floats(t, dev, x), g.Values["logits"], tolerance)
	})
}

func TestGoldenAdamW(t *testing.T) {
	eachGolden(t, func(t *testing.T, g *golden.File, o *own, m *gpt.Model, dev kernel.Device) {
		g.Train(t, dev, m, func(step int) *model.Batch { return o.samples(step*g.Batch, (step+1)*g.Batch) })
	})
}

// Microbatches with different counts of labels must add up to the gradient of the one big batch: a mean of means would
// not.
func TestMicrobatchesAddUp(t *testing.T) {
	eachGolden(t, func(t *testing.T, g *golden.File, o *own, m *gpt.Model, dev kernel.Device) {
		const size = 2
		r := g.Start(t, dev, m)
		gradients := func(lo, hi int) map[string][]float32 {
			losses, err := r.Run(model.UploadBatch(dev, o.samples(lo, hi)), false)
			if err != nil {
				t.Fatal(err)
			}
			dev.Free(losses)
			all := map[string][]float32{}
			for _, p := range golden.Params(m) {
				all[p.Name] = golden.Floats(t, dev, r.Grad(p.Name))
			}
			return all
		}
		whole, counts := gradients(0, g.Batch), map[int]bool{}
		sum := gradients(0, size)
		for lo := size; lo < g.Batch; lo += size {
			counts[o.samples(lo, lo+size).Count()] = true
			for name, part := range gradients(lo, lo+size) {
				for i, v := range part {
					sum[name][i] += v
				}
			}
		}
		if len(counts) < 2 {
			t.Errorf("all microbatches have %v labels: this shows nothing", counts)
		}
		for name := range sum {
			golden.Near(t, "gradient of "+name, sum[name], whole[name], 1e-6)
			golden.Near(t, "gradient of "+name+" against PyTorch", sum[name], g.Values["grad/"+name], tolerance)
		}
	})
}
