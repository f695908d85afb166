package vit_test

import (
	"slices"
	"strings"
	"testing"

	"shoal/model"
	"shoal/model/modeltest"
	"shoal/model/vit"
)

var small = vit.Config{Image: 6, Patch: 3, Channels: 1, Dim: 4, Depth: 1, Heads: 2, Classes: 3}

func with(change func(*vit.Config)) vit.Config {
	c := small
	change(&c)
	return c
}

func TestGradients(t *testing.T) {
	for _, c := range []vit.Config{
		small,
		{Image: 4, Patch: 2, Channels: 3, Dim: 6, Depth: 2, Heads: 3, Classes: 5},
		{Image: 3, Patch: 3, Channels: 1, Dim: 7, Depth: 1, Heads: 1, Classes: 2}, // one token
		{Image: 2, Patch: 1, Channels: 1, Dim: 5, Depth: 2, Heads: 5, Classes: 1}, // heads of one element
	} {
		t.Run(c.String(), func(t *testing.T) {
			m, err := vit.New(c)
			if err != nil {
				t.Fatal(err)
			}
			modeltest.Check(t, m, modeltest.Config{Classes: c.Classes})
		})
	}
}

func TestConfigErrors(t *testing.T) {
	for _, e := range []struct {
		name string
		c    vit.Config
		want string
	}{
		{"nothing", vit.Config{}, "image is 0: must be from 1 to 65536"},
		{"negative depth", with(func(c *vit.Config) { c.Depth = -1 }), "depth is -1"},
		{"depth", with(func(c *vit.Config) { c.Depth = 1025 }), "must be from 1 to 1024"},
		{"patch", with(func(c *vit.Config) { c.Patch = 4 }), "patch is 4: must divide image, which is 6"},
		{"heads", with(func(c *vit.Config) { c.Heads = 3 }), "heads is 3: must divide dim, which is 4"},
		{"classes", with(func(c *vit.Config) { c.Classes = 1 << 30 }), "classes is 1073741824"},
		{"sample", with(func(c *vit.Config) { c.Image, c.Channels = 1<<16, 1<<10; c.Patch = 1 << 16 }), "channels x image x image"},
		{"root", with(func(c *vit.Config) { c.Dim, c.Classes = 1<<12, 1<<24 }), "a root unit of"},
		{"block", with(func(c *vit.Config) { c.Dim = 1 << 14 }), "dim is 16384: a block would have"},
		{"activations", with(func(c *vit.Config) { c.Image, c.Patch, c.Dim = 1<<10, 1, 1<<10 }), "activations in a block"},
	} {
		t.Run(e.name, func(t *testing.T) {
			_, err := vit.New(e.c)
			if err == nil || !strings.Contains(err.Error(), e.want) {
				t.Errorf("got %v, want an error with %q", err, e.want)
			}
		})
	}
}

// An image whose pixels are their own index shows where each one goes.
func TestEncode(t *testing.T) {
	m, err := vit.New(vit.Config{Image: 4, Patch: 2, Channels: 2, Dim: 1, Depth: 1, Heads: 1, Classes: 1})
	if err != nil {
		t.Fatal(err)
	}
	src := make([]float32, m.Sample().Floats)
	for i := range src {
		src[i] = float32(i)
	}
	b := &model.Batch{N: 1, Floats: src}
	model.EncodeBatch(m, b)
	want := []float32{
		0, 1, 4, 5, 16, 17, 20, 21,
		2, 3, 6, 7, 18, 19, 22, 23,
		8, 9, 12, 13, 24, 25, 28, 29,
		10, 11, 14, 15, 26, 27, 30, 31,
	}
	if !slices.Equal(b.Floats, want) {
		t.Errorf("got %v, want %v", b.Floats, want)
	}
	if !slices.IsSorted(src) {
		t.Error("EncodeBatch changed the floats it was given")
	}
}

func TestUnitsAndDecay(t *testing.T) {
	m, err := vit.New(vit.Config{Image: 28, Patch: 7, Channels: 1, Dim: 64, Depth: 12, Heads: 4, Classes: 10})
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, u := range m.Units() {
		for _, p := range u.Params {
			total += p.Len()
			if matrix := strings.HasSuffix(p.Name, ".weight") && len(p.Shape) == 2; p.Decay != matrix {
				t.Errorf("%s %v: decay is %v", p.Name, p.Shape, p.Decay)
			}
		}
	}
	block := 12*64*64 + 13*64
	if want := 12*block + 64*(49+1+16+2+10) + 10; total != want || len(m.Units()) != 13 || len(m.Stages()) != 14 {
		t.Errorf("%d parameters, %d units, %d stages: want %d, 13, 14", total, len(m.Units()), len(m.Stages()), want)
	}
}

// Peers that differ in a setting which no shape shows must notice.
func TestDescribeTellsHeads(t *testing.T) {
	a, _ := vit.New(small)
	b, err := vit.New(with(func(c *vit.Config) { c.Heads = 1 }))
	if err != nil {
		t.Fatal(err)
	}
	if model.Describe(a) == model.Describe(b) {
		t.Error("models with 1 and 2 heads have one description")
	}
}
