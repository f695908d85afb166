package model_test

import (
	"slices"
	"strings"
	"testing"

	"shoal/kernel"
	"shoal/kernel/ref"
	"shoal/model"
)

// plan is a model made of given parts.
type plan struct {
	units  []model.Unit
	stages []model.Stage
	spec   model.Spec
}

func (p plan) Units() []model.Unit   { return p.units }
func (p plan) Stages() []model.Stage { return p.stages }
func (p plan) Sample() model.Spec    { return p.spec }

// idle is a layer that only counts its way through.
type idle struct{}

func (idle) Forward(*model.Ctx, []kernel.Buffer, kernel.Buffer) kernel.Buffer { return kernel.Buffer{} }
func (idle) Backward(*model.Ctx, []kernel.Buffer, []kernel.Buffer, kernel.Buffer, kernel.Buffer) kernel.Buffer {
	return kernel.Buffer{}
}

// told is a layer with a setting.
type told struct {
	idle
	s string
}

func (t told) String() string { return t.s }

func good() plan {
	return plan{
		units: []model.Unit{
			{Name: "root", Params: []model.Param{{Name: "w", Shape: []int{2, 3}, Decay: true}, {Name: "b", Shape: []int{2}}}},
			{Name: "middle", Params: []model.Param{{Name: "m", Shape: []int{5}}}},
		},
		stages: []model.Stage{
			{Unit: 0, Params: []string{"w"}, Layer: idle{}},
			{Unit: 1, Params: []string{"m"}, Layer: idle{}},
			{Unit: 0, Params: []string{"b", "w"}, Layer: idle{}},
		},
		spec: model.Spec{Floats: 3, Labels: 1},
	}
}

func TestValidate(t *testing.T) {
	for _, e := range []struct {
		name   string
		change func(*plan)
		want   string // "" means valid
	}{
		{"good", func(*plan) {}, ""},
		{"no units", func(p *plan) { p.units = nil }, "at least one unit"},
		{"no stages", func(p *plan) { p.stages = nil }, "at least one unit and one stage"},
		{"name used twice", func(p *plan) { p.units[1].Params[0].Name = "w" }, `"w" is used twice`},
		{"no name", func(p *plan) { p.units[1].Params[0].Name = "" }, "has no name"},
		{"dimension 0", func(p *plan) { p.units[0].Params[1].Shape = []int{0} }, "every dimension must be at least 1"},
		{"too large", func(p *plan) { p.units[0].Params[1].Shape = []int{1 << 20, 1 << 20} }, "more than"},
		{"no such unit", func(p *plan) { p.stages[1].Unit = 2 }, "names unit 2 of 2"},
		{"no layer", func(p *plan) { p.stages[1].Layer = nil }, "has no layer"},
		{"parameter of another unit", func(p *plan) { p.stages[0].Params = []string{"m"} }, `uses parameter "m", which is not in its unit "root"`},
		{"unused parameter", func(p *plan) { p.stages[2].Params = []string{"w"} }, `parameter "b" is used by no stage`},
		{"negative sample", func(p *plan) { p.spec.Tokens = -1 }, "sample"},
		{"no labels", func(p *plan) { p.spec.Labels = 0 }, "at least one label"},
	} {
		t.Run(e.name, func(t *testing.T) {
			p := good()
			e.change(&p)
			err := model.Validate(p)
			if (err == nil) != (e.want == "") || err != nil && !strings.Contains(err.Error(), e.want) {
				t.Errorf("got %v, want %q", err, e.want)
			}
		})
	}
}

// Whatever makes peers compute something else must show in the description.
func TestDescribeShowsEveryDifference(t *testing.T) {
	base := model.Describe(good())
	if model.Describe(good()) != base {
		t.Fatal("two descriptions of one model differ")
	}
	for name, change := range map[string]func(*plan){
		"sample": func(p *plan) { p.spec.Floats = 4 },
		"shape":  func(p *plan) { p.units[0].Params[0].Shape = []int{3, 2} },
		"init":   func(p *plan) { p.units[0].Params[0].Init = model.Init{Kind: model.Normal, A: 0.5} },
		"decay":  func(p *plan) { p.units[0].Params[0].Decay = false },
		"order":  func(p *plan) { p.stages[2].Params = []string{"w", "b"} },
		"layer":  func(p *plan) { p.stages[1].Layer = told{} },
		"unit":   func(p *plan) { p.units[1].Name = "other" },
	} {
		p := good()
		change(&p)
		if model.Describe(p) == base {
			t.Errorf("%s does not show", name)
		}
	}
	a, b := good(), good()
	a.stages[1].Layer, b.stages[1].Layer = told{s: "heads 2"}, told{s: "heads 4"}
	if model.Describe(a) == model.Describe(b) {
		t.Error("what a layer tells of itself does not show")
	}
}

// reversed is a plan whose Encode turns each sample around.
type reversed struct{ plan }

func (reversed) Encode(dst, src []float32) {
	for i, v := range src {
		dst[len(dst)-1-i] = v
	}
}

func TestEncodeBatchWorksSampleBySample(t *testing.T) {
	src := []float32{1, 2, 3, 4, 5, 6}
	b := &model.Batch{N: 2, Floats: src}
	model.EncodeBatch(reversed{good()}, b)
	if want := []float32{3, 2, 1, 6, 5, 4}; !slices.Equal(b.Floats, want) || src[0] != 1 {
		t.Errorf("got %v, want %v; source now %v", b.Floats, want, src)
	}
	b = &model.Batch{N: 2, Floats: src}
	if model.EncodeBatch(good(), b); &b.Floats[0] != &src[0] {
		t.Error("a model without Encode got other floats")
	}
}

func TestCount(t *testing.T) {
	if n := (&model.Batch{Labels: []int32{0, -1, 3, -7}}).Count(); n != 2 {
		t.Errorf("got %d labels, want 2", n)
	}
}

func TestCtxFreesWhatItGave(t *testing.T) {
	dev := ref.New()
	defer dev.Close()
	in := model.UploadBatch(dev, &model.Batch{N: 1, Floats: []float32{1, 2, 3}, Tokens: []int32{4}, Labels: []int32{5}})
	live := func() int64 { return dev.Meter().Live(kernel.Activations) }
	base := live()
	if base != 20 {
		t.Errorf("a batch of 5 numbers takes %d bytes", base)
	}
	c := model.NewCtx(dev, in)
	c.Temp(10)
	kept, logits := c.Keep(20), c.Out(30)
	dev.Zero(logits)
	c.Predict(logits, 3, 10)
	c.Predict(logits, 5, 6)
	if c.Kept(0) != kept || c.Predictions().Len != 5 {
		t.Error("Kept or Predictions give another buffer")
	}
	if c.EndCall(); live()-base != 4*(20+30+5) {
		t.Errorf("%d bytes live after EndCall", live()-base)
	}
	if c.Drop(); live()-base != 4*30 || !c.Predictions().None() {
		t.Errorf("%d bytes live after Drop, want only the result's", live()-base)
	}
	dev.Free(logits)
	in.Free(dev)
	if err := dev.Sync(); err != nil || live() != 0 {
		t.Errorf("%d bytes left, %v", live(), err)
	}
}
