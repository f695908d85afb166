package vit_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"shoal/kernel"
	"shoal/kernel/cpu"
	"shoal/kernel/ref"
	"shoal/model"
	"shoal/model/modeltest"
	"shoal/model/vit"
)

// golden is one file pair of testdata, made by scripts/goldens/vit.py, which explains the fields.
type golden struct {
	Config       vit.Config
	Steps, Batch int
	Beta1, Beta2 float32
	Eps          float32
	WeightDecay  float32 `json:"weight_decay"`
	Clip         float64
	Labels       []int32
	Losses       []float64
	StepLosses   []float64 `json:"step_losses"`
	Norms        []float64
	LR           []float32
	Tensors      []struct {
		Name   string
		Shape  []int
		Offset int
	}
	values map[string][]float32
}

func load(t *testing.T, name string) *golden {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("testdata/" + name + ".f32")
	if err != nil {
		t.Fatal(err)
	}
	g := &golden{values: map[string][]float32{}}
	if err := json.Unmarshal(text, g); err != nil {
		t.Fatal(err)
	}
	all := make([]float32, len(raw)/4)
	copy(kernel.Bytes(all), raw)
	for _, e := range g.Tensors {
		g.values[e.Name] = all[e.Offset : e.Offset+model.Param{Shape: e.Shape}.Len()]
	}
	return g
}

// batch is the batch of one step, encoded.
func (g *golden) batch(m *vit.Model, step int) *model.Batch {
	n := g.Batch * m.Sample().Floats
	b := &model.Batch{N: g.Batch,
		Floats: g.values["images"][step*n : (step+1)*n],
		Labels: g.Labels[step*g.Batch : (step+1)*g.Batch]}
	model.EncodeBatch(m, b)
	return b
}

// start makes the model with the golden's parameters on dev.
func (g *golden) start(t *testing.T, dev kernel.Device) (*vit.Model, *modeltest.Runner) {
	t.Helper()
	m, err := vit.New(g.Config)
	if err != nil {
		t.Fatal(err)
	}
	r := modeltest.NewRunner(dev, m)
	for _, p := range params(m) {
		v, ok := g.values["param/"+p.Name]
		if !ok || len(v) != p.Len() {
			t.Fatalf("the golden has %d values of parameter %q %v", len(v), p.Name, p.Shape)
		}
		dev.Upload(r.Param(p.Name), kernel.Bytes(v))
	}
	return m, r
}

func params(m model.Model) (all []model.Param) {
	for _, u := range m.Units() {
		all = append(all, u.Params...)
	}
	return all
}

var goldens = []string{"small", "odd"}

// devices are the float32 devices that the goldens are checked on.
var devices = map[string]func() (kernel.Device, error){
	"ref": func() (kernel.Device, error) { return ref.New(), nil },
	"cpu": func() (kernel.Device, error) { return cpu.New(cpu.Config{Threads: 2}) },
}

func eachGolden(t *testing.T, f func(t *testing.T, g *golden, dev kernel.Device)) {
	for _, name := range goldens {
		for backend, open := range devices {
			t.Run(name+"/"+backend, func(t *testing.T) {
				dev, err := open()
				if err != nil {
					t.Fatal(err)
				}
				defer dev.Close()
				f(t, load(t, name), dev)
			})
		}
	}
}

func TestGoldenLossAndGradients(t *testing.T) {
	eachGolden(t, func(t *testing.T, g *golden, dev kernel.Device) {
		m, r := g.start(t, dev)
		in := model.UploadBatch(dev, g.batch(m, 0))
		losses, err := r.Run(in, false)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]float32, g.Batch)
		for i, l := range g.Losses {
			want[i] = float32(l)
		}
		near(t, "losses", floats(t, r, losses), want)
		for _, p := range params(m) {
			near(t, "gradient of "+p.Name, floats(t, r, r.Grad(p.Name)), g.values["grad/"+p.Name])
		}
	})
}

func TestGoldenLogits(t *testing.T) {
	eachGolden(t, func(t *testing.T, g *golden, dev kernel.Device) {
		m, r := g.start(t, dev)
		in := model.UploadBatch(dev, g.batch(m, 0))
		near(t, "logits", floats(t, r, logits(m, r, dev, in)), g.values["logits"])
	})
}

// logits runs all stages and takes what the head gave to Predict.
func logits(m *vit.Model, r *modeltest.Runner, dev kernel.Device, in *model.DeviceBatch) kernel.Buffer {
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

func floats(t *testing.T, r *modeltest.Runner, b kernel.Buffer) []float32 {
	t.Helper()
	f, err := r.Floats(b)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// near wants got within 1e-5 of want, relative to want's norm.
func near(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	var diff, norm float64
	for i := range want {
		d := float64(got[i]) - float64(want[i])
		diff += d * d
		norm += float64(want[i]) * float64(want[i])
	}
	if rel := math.Sqrt(diff / norm); !(rel <= 1e-5) {
		t.Errorf("%s: %.2g away from PyTorch's, relative to its norm", what, rel)
	}
}

// TestGoldenAdamW takes the steps of the golden with gradients summed as integers, exponents from
// the gradients at hand.
func TestGoldenAdamW(t *testing.T) {
	eachGolden(t, func(t *testing.T, g *golden, dev kernel.Device) {
		m, r := g.start(t, dev)
		o := newOptimizer(dev, m)
		for step := range g.Steps {
			loss, err := o.step(m, r, g, step)
			if err != nil {
				t.Fatal(err)
			}
			if rel := math.Abs(loss-g.StepLosses[step]) / g.StepLosses[step]; !(rel <= 1e-4) {
				t.Errorf("step %d: loss %.7g, PyTorch has %.7g", step, loss, g.StepLosses[step])
			}
			if rel := math.Abs(o.norm-g.Norms[step]) / g.Norms[step]; !(rel <= 1e-3) {
				t.Errorf("step %d: gradient norm %.7g, PyTorch has %.7g", step, o.norm, g.Norms[step])
			}
		}
	})
}

// optimizer is AdamW on integer gradients, tensor by tensor, as the ops are meant to be used.
type optimizer struct {
	dev    kernel.Device
	params []model.Param
	m, v   []kernel.Buffer // F32
	q      []kernel.Buffer // I32
	norm   float64         // of the last step's mean gradient, before clipping
}

func newOptimizer(dev kernel.Device, m model.Model) *optimizer {
	o := &optimizer{dev: dev, params: params(m)}
	for _, p := range o.params {
		o.m = append(o.m, dev.Alloc(kernel.Optimizer, kernel.F32, p.Len()))
		o.v = append(o.v, dev.Alloc(kernel.Optimizer, kernel.F32, p.Len()))
		o.q = append(o.q, dev.Alloc(kernel.Gradients, kernel.I32, p.Len()))
		dev.Zero(o.m[len(o.m)-1])
		dev.Zero(o.v[len(o.v)-1])
	}
	return o
}

func (o *optimizer) step(m *vit.Model, r *modeltest.Runner, g *golden, step int) (meanLoss float64, err error) {
	in := model.UploadBatch(o.dev, g.batch(m, step))
	defer in.Free(o.dev)
	losses, err := r.Run(in, step%2 == 1)
	if err != nil {
		return 0, err
	}
	f, err := r.Floats(losses)
	if err != nil {
		return 0, err
	}
	for _, l := range f {
		meanLoss += float64(l) / float64(g.Batch)
	}
	shifts, err := o.quantise(r, g.Batch)
	if err != nil {
		return 0, err
	}
	o.update(r, g, step, shifts)
	return meanLoss, o.dev.Sync()
}

// quantise fills q with the gradients times 2^shift and computes norm.
func (o *optimizer) quantise(r *modeltest.Runner, batch int) (shifts []int, err error) {
	biggest, squares := o.dev.Alloc(kernel.Other, kernel.F32, 1), o.dev.Alloc(kernel.Other, kernel.I32, 4)
	defer o.dev.Free(biggest)
	defer o.dev.Free(squares)
	sum := 0.0
	for i, p := range o.params {
		o.dev.MaxAbs(biggest, r.Grad(p.Name))
		top, err := r.Floats(biggest)
		if err != nil {
			return nil, err
		}
		if top[0] == 0 || math.IsInf(float64(top[0]), 0) {
			return nil, fmt.Errorf("largest gradient of %q is %v", p.Name, top[0])
		}
		shift := 24 - int(math.Ceil(math.Log2(float64(top[0]))))
		o.dev.Zero(o.q[i])
		o.dev.Quantize(o.q[i], r.Grad(p.Name), shift)
		o.dev.SumSquares(squares, o.q[i])
		words := make([]uint32, 4)
		if err := download(o.dev, words, squares); err != nil {
			return nil, err
		}
		for k, w := range words {
			sum += math.Ldexp(float64(w), 32*k-2*shift)
		}
		shifts = append(shifts, shift)
	}
	o.norm = math.Sqrt(sum) / float64(batch)
	return shifts, nil
}

func download(dev kernel.Device, words []uint32, b kernel.Buffer) error {
	s := make([]int32, len(words))
	err := dev.Download(kernel.Bytes(s), b)
	for i, w := range s {
		words[i] = uint32(w)
	}
	return err
}

func (o *optimizer) update(r *modeltest.Runner, g *golden, step int, shifts []int) {
	t := float64(step + 1)
	clip := min(1, g.Clip/o.norm) / float64(g.Batch)
	for i, p := range o.params {
		h := kernel.AdamW{
			Scale: float32(math.Ldexp(clip, -shifts[i])), LR: g.LR[step],
			Beta1: g.Beta1, Beta2: g.Beta2, Eps: g.Eps,
			C1: float32(1 / (1 - math.Pow(float64(g.Beta1), t))), C2: float32(1 / (1 - math.Pow(float64(g.Beta2), t))),
		}
		if p.Decay {
			h.Decay = g.LR[step] * g.WeightDecay
		}
		o.dev.AdamW(r.Param(p.Name), o.m[i], o.v[i], o.q[i], h)
	}
}
