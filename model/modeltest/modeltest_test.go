package modeltest

import (
	"strings"
	"testing"

	"shoal/kernel"
	"shoal/model"
)

// toy is a little MLP on floats with an embedding of one token, whose faults can be switched on.
type toy struct {
	fault string
	calls *int // counts Forwards, for the impure ones
}

const (
	toyIn, toyHidden, toyClasses, toyVocab = 3, 5, 4, 6
)

func (m toy) Sample() model.Spec { return model.Spec{Floats: toyIn, Tokens: 1, Labels: 1} }

func (m toy) Units() []model.Unit {
	decay := m.fault == "units differ" && m.count()%2 == 0
	return []model.Unit{
		{Name: "root", Params: []model.Param{
			{Name: "embed", Shape: []int{toyVocab, toyHidden}, Decay: decay},
			{Name: "in", Shape: []int{toyHidden, toyIn}},
			{Name: "out", Shape: []int{toyClasses, toyHidden}},
		}},
		{Name: "middle", Params: []model.Param{
			{Name: "gamma", Shape: []int{toyHidden}, Init: model.Init{Kind: model.Ones}},
			{Name: "beta", Shape: []int{toyHidden}},
			{Name: "bias", Shape: []int{toyHidden}},
		}},
	}
}

func (m toy) Stages() []model.Stage {
	return []model.Stage{
		{Unit: 0, Params: []string{"embed", "in"}, Layer: toyFirst{m}},
		{Unit: 1, Params: []string{"gamma", "beta", "bias"}, Layer: toyMiddle{m}},
		{Unit: 0, Params: []string{"out"}, Layer: toyLast{m}},
	}
}

func (m toy) Encode(dst, src []float32) {
	copy(dst, src)
	if m.fault == "impure encode" {
		dst[0] += float32(m.count())
	}
}

func (m toy) count() int { *m.calls++; return *m.calls }

// toyFirst: y = in * x + embed[token].
type toyFirst struct{ toy }

func (l toyFirst) Forward(c *model.Ctx, p []kernel.Buffer, _ kernel.Buffer) kernel.Buffer {
	y := c.Out(c.N * toyHidden)
	e := c.Temp(c.N * toyHidden)
	c.Embedding(e, p[0], c.Tokens, c.N, toyHidden)
	if l.fault == "reads fresh memory" {
		e = c.Temp(c.N * toyHidden)
	}
	c.MatMul(kernel.NT, y, c.Input, p[1], c.N, toyHidden, toyIn, false)
	c.Add(y, y, e)
	switch l.fault {
	case "impure forward":
		if l.count() > 1 {
			c.Add(y, y, e)
		}
	case "impure recompute":
		if l.count() == 3 { // run, run again, recompute
			c.Add(y, y, e)
		}
	case "changes a parameter":
		c.Zero(p[1].Slice(0, 1))
	case "leaks":
		c.Out(7)
	case "mixes samples":
		if c.N > 1 {
			c.Add(y.Slice(0, toyHidden), y.Slice(0, toyHidden), y.Slice(toyHidden, toyHidden))
		}
	case "wrong length":
		c.Add(y, y, p[0])
	case "output overlaps input":
		c.AddRows(y, y, y.Slice(0, toyHidden), c.N, toyHidden, 1)
	}
	return y
}

func (l toyFirst) Backward(c *model.Ctx, p, dp []kernel.Buffer, x, dy kernel.Buffer) kernel.Buffer {
	if l.fault != "unwritten gradient" {
		c.EmbeddingBackward(dp[0], dy, c.Tokens, c.N, toyHidden)
	}
	c.MatMul(kernel.TN, dp[1], dy, c.Input, toyHidden, toyIn, c.N, l.fault == "accumulates")
	return kernel.Buffer{}
}

// toyMiddle: y = relu(norm(x) + bias).
type toyMiddle struct{ toy }

func (l toyMiddle) Forward(c *model.Ctx, p []kernel.Buffer, x kernel.Buffer) kernel.Buffer {
	mean, rstd, z := c.Keep(c.N), c.Keep(c.N), c.Keep(c.N*toyHidden)
	c.LayerNorm(z, mean, rstd, x, p[0], p[1], c.N, toyHidden)
	c.AddRows(z, z, p[2], c.N, toyHidden, 1)
	y := c.Out(c.N * toyHidden)
	c.ReLU(y, z)
	return y
}

func (l toyMiddle) Backward(c *model.Ctx, p, dp []kernel.Buffer, x, dy kernel.Buffer) kernel.Buffer {
	n := c.N * toyHidden
	if l.fault == "short dx" {
		n--
	}
	dx := c.Out(n)
	if l.fault == "short dx" {
		c.Zero(dx)
		for _, d := range dp {
			c.Zero(d)
		}
		return dx
	}
	c.ReLUBackward(dx, c.Kept(2), dy)
	c.SumRows(dp[2], dx, c.N, toyHidden, 1)
	if l.fault == "no gate" {
		c.Copy(dx, dy)
	}
	c.LayerNormBackward(dx, dp[0], dp[1], dx, x, c.Kept(0), c.Kept(1), p[0], c.N, toyHidden)
	if l.fault == "changes its input" {
		c.Zero(x)
	}
	return dx
}

// toyLast: cross-entropy of out * x.
type toyLast struct{ toy }

func (l toyLast) Forward(c *model.Ctx, p []kernel.Buffer, x kernel.Buffer) kernel.Buffer {
	logits := c.Keep(c.N * toyClasses)
	c.MatMul(kernel.NT, logits, x, p[0], c.N, toyClasses, toyHidden, false)
	c.Predict(logits, c.N, toyClasses)
	loss := c.Out(c.N)
	c.CrossEntropy(loss, logits, logits, c.Labels, c.N, toyClasses)
	switch l.fault {
	case "mean loss":
		c.MeanRowsBackward(loss.Slice(0, c.N), c.Kept(0).Slice(0, 1), 1, c.N, 1)
	case "one loss":
		return c.Out(1)
	}
	return loss
}

func (l toyLast) Backward(c *model.Ctx, p, dp []kernel.Buffer, x, _ kernel.Buffer) kernel.Buffer {
	dx := c.Out(c.N * toyHidden)
	c.MatMul(kernel.TN, dp[0], c.Kept(0), x, toyClasses, toyHidden, c.N, false)
	if l.fault == "twice one element" {
		g := dp[0].Slice(7, 1)
		c.Add(g, g, g)
	}
	c.MatMul(kernel.NN, dx, c.Kept(0), p[0], c.N, toyHidden, toyClasses, false)
	return dx
}

func TestCheckAcceptsAGoodModel(t *testing.T) {
	for seed := range uint64(5) {
		Check(t, toy{calls: new(int)}, Config{Classes: toyClasses, Vocab: toyVocab, Seed: seed})
	}
	Check(t, toy{calls: new(int)}, Config{Batch: &model.Batch{N: 1, Floats: make([]float32, toyIn), Tokens: []int32{2}, Labels: []int32{1}}})
}

func TestCheckNamesTheFault(t *testing.T) {
	for _, e := range []struct{ fault, want string }{
		{"units differ", "Units, Stages or Sample differ"},
		{"impure encode", "Encode gives other values the second time"},
		{"impure forward", "two runs give different losses"},
		{"impure recompute", "second Forward: gave other values than the first"},
		{"reads fresh memory", "stage 0 (modeltest.toyFirst): Forward: element 0 of 15 of its output is NaN"},
		{"changes a parameter", "stage 0 (modeltest.toyFirst): Forward: changed a parameter"},
		{"changes its input", "stage 1 (modeltest.toyMiddle): Backward: changed a parameter, its input"},
		{"leaks", "leave 84 bytes behind"},
		{"mixes samples", "layers must not mix samples"},
		{"wrong length", "b is f32 of length 30, want f32 of length 15"},
		{"output overlaps input", "y overlaps table"},
		{"unwritten gradient", `element 0 of 30 of the gradient of "embed" is NaN: not written`},
		{"accumulates", `element 0 of 15 of the gradient of "in" is NaN: not written, or added`},
		{"short dx", "returned 14 elements of dx: want 15"},
		{"one loss", "returned 1 losses: want one per label, which is 3"},
		{"mean loss", "the loss of label 2 is"},
		{"no gate", `parameter "gamma" [5], element`},
		{"twice one element", `parameter "out" [4 5], element 7: Backward says`},
	} {
		t.Run(e.fault, func(t *testing.T) {
			err := check(toy{e.fault, new(int)}, Config{Classes: toyClasses, Vocab: toyVocab})
			if err == nil || !strings.Contains(err.Error(), e.want) {
				t.Errorf("got %v, want an error with %q", err, e.want)
			}
		})
	}
}

func TestCheckRefusesABatchThatDoesNotFit(t *testing.T) {
	err := check(toy{calls: new(int)}, Config{Batch: &model.Batch{N: 2, Floats: make([]float32, toyIn)}})
	if err == nil || !strings.Contains(err.Error(), "does not fit") {
		t.Errorf("got %v", err)
	}
}
