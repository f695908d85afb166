package main

import (
	"slices"
	"time"

	"shoal/kernel"
	"shoal/kernel/kernelbench"
)

// opMatch is an op of package kernel against the same of other libraries.
type opMatch struct {
	match
	op    kernelbench.Op
	small bool // a product with 64 rows
}

func newOpMatch(o kernelbench.Op) *opMatch {
	return &opMatch{match: match{name: o.Name, shape: o.Shape}, op: o}
}

// productShapes are m, n and k of the products, and how many come at once: those of a larger model's layers, and those of
// attention on heads of 64, in groups of 64 rows.
var productShapes = []struct{ m, n, k, count int }{
	{512, 512, 512, 1}, {512, 384, 1536, 1},
	{64, 64, 64, 16}, {64, 256, 64, 8}, {64, 64, 256, 8},
}

func products() (list []*opMatch) {
	for _, s := range productShapes {
		for _, t := range []kernel.Trans{kernel.NN, kernel.NT, kernel.TN} {
			m := newOpMatch(kernelbench.Products(t, s.m, s.n, s.k, s.count))
			m.small = s.m == 64
			list = append(list, m)
		}
	}
	return list
}

// compared are the ops that PyTorch has, too.
var compared = []string{"GELU", "GELUBackward", "LayerNorm", "LayerNormBackward", "Attention", "AttentionBackward", "Softmax",
	"SoftmaxBackward", "CrossEntropy", "AdamW", "ToBF16", "FromBF16"}

// untargeted are ops that have no target of their own: most of an attention are its products and its softmax, which do.
var untargeted = []string{"Attention", "AttentionBackward"}

// kept is a way that does only a part of ours, since it keeps from the forward pass what we make again. It is named in the page,
// and not compared with.
const kept = "weights kept"

func ops() (list []*opMatch) {
	for _, o := range kernelbench.Ops() {
		if slices.Contains(compared, o.Name) {
			list = append(list, newOpMatch(o))
		}
	}
	return list
}

// prepare has both sides ready.
func (m *opMatch) prepare(b *kernelbench.Bench, t *torch) (err error) {
	m.ours = &side{name: "shoal", turn: func(d time.Duration) (float64, error) { return b.Seconds(m.op, d) }}
	_, m.theirs, err = t.make(request{Ask: "op", Op: m.name, Shape: m.shape})
	return err
}
