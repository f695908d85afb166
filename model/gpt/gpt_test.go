package gpt_test

import (
	"strings"
	"testing"

	"shoal/model"
	"shoal/model/gpt"
	"shoal/model/modeltest"
)

var small = gpt.Config{Vocab: 5, Context: 4, Dim: 6, Depth: 1, Heads: 2}

func with(change func(*gpt.Config)) gpt.Config {
	c := small
	change(&c)
	return c
}

func TestGradients(t *testing.T) {
	for _, c := range []gpt.Config{
		small,
		{Vocab: 3, Context: 7, Dim: 6, Depth: 2, Heads: 3},
		{Vocab: 2, Context: 1, Dim: 7, Depth: 1, Heads: 1}, // nothing to look back at
		{Vocab: 9, Context: 3, Dim: 5, Depth: 2, Heads: 5}, // heads of one element
	} {
		t.Run(c.String(), func(t *testing.T) {
			m, err := gpt.New(c)
			if err != nil {
				t.Fatal(err)
			}
			modeltest.Check(t, m, modeltest.Config{Classes: c.Vocab, Vocab: c.Vocab})
		})
	}
}

func TestConfigErrors(t *testing.T) {
	for _, e := range []struct {
		name string
		c    gpt.Config
		want string
	}{
		{"nothing", gpt.Config{}, "vocab is 0: must be from 1 to 16777216"},
		{"negative depth", with(func(c *gpt.Config) { c.Depth = -1 }), "depth is -1"},
		{"context", with(func(c *gpt.Config) { c.Context = 1<<16 + 1 }), "must be from 1 to 65536"},
		{"heads", with(func(c *gpt.Config) { c.Heads = 4 }), "heads is 4: must divide dim, which is 6"},
		{"root", with(func(c *gpt.Config) { c.Dim, c.Vocab = 1<<12, 1<<24 }), "a root unit of"},
		{"block", with(func(c *gpt.Config) { c.Dim = 1 << 14 }), "dim is 16384: a block would have"},
		{"activations", with(func(c *gpt.Config) { c.Context, c.Dim = 1<<16, 1<<13 }), "activations in a block"},
		{"logits", with(func(c *gpt.Config) { c.Context, c.Vocab = 1<<16, 1<<15 }), "logits for one sample"},
	} {
		t.Run(e.name, func(t *testing.T) {
			_, err := gpt.New(e.c)
			if err == nil || !strings.Contains(err.Error(), e.want) {
				t.Errorf("got %v, want an error with %q", err, e.want)
			}
		})
	}
}

// GPT-2's own sizes must give GPT-2's own tensors.
func TestGPT2(t *testing.T) {
	m, err := gpt.New(gpt.Config{Vocab: 50257, Context: 1024, Dim: 768, Depth: 12, Heads: 12})
	if err != nil {
		t.Fatal(err)
	}
	total, shapes := 0, map[string][]int{}
	for _, u := range m.Units() {
		for _, p := range u.Params {
			total += p.Len()
			shapes[p.Name] = p.Shape
			if matrix := len(p.Shape) == 2 && p.Name != "wpe.weight"; p.Decay != matrix {
				t.Errorf("%s %v: decay is %v", p.Name, p.Shape, p.Decay)
			}
		}
	}
	if total != 124439808 || len(m.Units()) != 13 || len(shapes) != 148 {
		t.Errorf("%d parameters, %d units, %d tensors: want 124439808, 13, 148", total, len(m.Units()), len(shapes))
	}
	for name, want := range map[string][2]int{
		"wte.weight": {50257, 768}, "wpe.weight": {1024, 768}, "h.11.attn.c_attn.weight": {768, 2304},
		"h.0.mlp.c_fc.weight": {768, 3072}, "h.0.mlp.c_proj.weight": {3072, 768},
	} {
		if got := shapes[name]; len(got) != 2 || [2]int(got) != want {
			t.Errorf("%s has shape %v, want %v", name, got, want)
		}
	}
}

// Peers that differ in a setting which no shape shows must notice.
func TestDescribeTellsHeads(t *testing.T) {
	a, _ := gpt.New(small)
	b, err := gpt.New(with(func(c *gpt.Config) { c.Heads = 1 }))
	if err != nil {
		t.Fatal(err)
	}
	if model.Describe(a) == model.Describe(b) {
		t.Error("models with 1 and 2 heads have one description")
	}
}
