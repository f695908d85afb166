// Package golden compares models with what PyTorch computed for them. It is for tests: it reads the files that
// scripts/goldens writes, and runs a model on one device with plain AdamW. Each script explains its fields.
package golden

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"shoal/kernel"
	"shoal/kernel/cpu"
	"shoal/kernel/ref"
	"shoal/model"
	"shoal/model/modeltest"
)

// File is what every golden has.
type File struct {
	Steps, Batch int
	Beta1, Beta2 float64
	Eps          float64
	WeightDecay  float64 `json:"weight_decay"`
	Clip         float64
	Warmup       int
	Course
	Tensors []struct {
		Name   string
		Shape  []int
		Offset int
	}
	Values map[string][]float32 `json:"-"` // by tensor name
}

// Course is how a training run went.
type Course struct {
	StepLosses []float64 `json:"step_losses"` // mean loss before each step
	Norms      []float64 // of the mean gradient, before clipping
	LR         []float32
}

// Load reads path.json and path.f32. The fields of the JSON that only one model's goldens have go to own.
func Load(t testing.TB, path string, own any) *File {
	t.Helper()
	text, err := os.ReadFile(path + ".json")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path + ".f32")
	if err != nil {
		t.Fatal(err)
	}
	f := &File{Values: map[string][]float32{}}
	for _, part := range []any{f, own} {
		if err := json.Unmarshal(text, part); err != nil {
			t.Fatalf("%s.json: %v", path, err)
		}
	}
	all := make([]float32, len(raw)/4)
	copy(kernel.Bytes(all), raw)
	for _, e := range f.Tensors {
		f.Values[e.Name] = all[e.Offset : e.Offset+model.Param{Shape: e.Shape}.Len()]
	}
	return f
}

// Param is the golden's initial value of p.
func (f *File) Param(t testing.TB, p model.Param) []float32 {
	t.Helper()
	v, ok := f.Values["param/"+p.Name]
	if !ok || len(v) != p.Len() {
		t.Fatalf("the golden has %d values of parameter %q %v", len(v), p.Name, p.Shape)
	}
	return v
}

// Start puts m with the golden's initial parameters on dev.
func (f *File) Start(t testing.TB, dev kernel.Device, m model.Model) *modeltest.Runner {
	t.Helper()
	r := modeltest.NewRunner(dev, m)
	for _, p := range Params(m) {
		dev.Upload(r.Param(p.Name), kernel.Bytes(f.Param(t, p)))
	}
	return r
}

// Params lists all parameters of m.
func Params(m model.Model) (all []model.Param) {
	for _, u := range m.Units() {
		all = append(all, u.Params...)
	}
	return all
}

// EachDevice runs f as a subtest on each float32 device that goldens are checked on.
func EachDevice(t *testing.T, f func(t *testing.T, dev kernel.Device)) {
	for name, open := range map[string]func() (kernel.Device, error){
		"ref": func() (kernel.Device, error) { return ref.New(), nil },
		"cpu": func() (kernel.Device, error) { return cpu.New(cpu.Config{Threads: 2}) },
	} {
		t.Run(name, func(t *testing.T) {
			dev, err := open()
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			f(t, dev)
		})
	}
}

// Floats downloads b.
func Floats(t testing.TB, dev kernel.Device, b kernel.Buffer) []float32 {
	t.Helper()
	v := make([]float32, b.Len)
	if err := dev.Download(kernel.Bytes(v), b); err != nil {
		t.Fatal(err)
	}
	return v
}

// Near wants got within tol of want, relative to want's norm.
func Near(t testing.TB, what string, got, want []float32, tol float64) {
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
	if rel := math.Sqrt(diff / norm); !(rel <= tol) {
		t.Errorf("%s: %.2g away from what it should be, relative to its norm; %.2g is allowed", what, rel, tol)
	}
}

// Like wants one step's loss within 1e-4 of the golden's and its gradient norm within 1e-3.
func (c *Course) Like(t testing.TB, step int, loss, norm float64) {
	t.Helper()
	if rel := math.Abs(loss-c.StepLosses[step]) / c.StepLosses[step]; !(rel <= 1e-4) {
		t.Errorf("step %d: loss %.7g, PyTorch has %.7g", step, loss, c.StepLosses[step])
	}
	if rel := math.Abs(norm-c.Norms[step]) / c.Norms[step]; !(rel <= 1e-3) {
		t.Errorf("step %d: gradient norm %.7g, PyTorch has %.7g", step, norm, c.Norms[step])
	}
}
