package main

import (
	"math"

	"shoal/kernel"
	"shoal/kernel/ref"
	"shoal/model"
)

const arms, width = 3, 32

// mlp tells the arm of a point: (N, 2) -> dense, GELU -> (N, width) -> dense, GELU -> (N, width) -> linear -> (N, arms).
type mlp struct{}

func (mlp) Sample() model.Spec { return model.Spec{Floats: 2, Labels: 1} }

func (mlp) Units() []model.Unit {
	root := append(linear("first", 2, width), linear("last", width, arms)...)
	return []model.Unit{{Name: "root", Params: root}, {Name: "hidden", Params: linear("hidden", width, width)}}
}

func (mlp) Stages() []model.Stage {
	return []model.Stage{
		{Unit: 0, Params: []string{"first.weight", "first.bias"}, Layer: dense{in: 2}},
		{Unit: 1, Params: []string{"hidden.weight", "hidden.bias"}, Layer: dense{in: width}},
		{Unit: 0, Params: []string{"last.weight", "last.bias"}, Layer: classify{}},
	}
}

// linear are the parameters of y = x * weight^T + bias.
func linear(name string, in, out int) []model.Param {
	normal := model.Init{Kind: model.Normal, A: float32(math.Sqrt(2 / float64(in)))}
	return []model.Param{{Name: name + ".weight", Shape: []int{out, in}, Init: normal, Decay: true}, {Name: name + ".bias", Shape: []int{out}}}
}

// dense: y = gelu(z), z = x * weight^T + bias.
type dense struct{ in int }

func (l dense) Forward(c *model.Ctx, p []kernel.Buffer, x kernel.Buffer) kernel.Buffer {
	z, y := c.Keep(c.N*width), c.Out(c.N*width)
	if x.None() { // the first stage reads the batch
		x = c.Input
	}
	c.MatMul(kernel.NT, z, x, p[0], c.N, width, l.in, false)
	c.AddRows(z, z, p[1], c.N, width, 1)
	c.GELU(y, z)
	return y
}

func (l dense) Backward(c *model.Ctx, p, dp []kernel.Buffer, x, dy kernel.Buffer) (dx kernel.Buffer) {
	dz := c.Temp(c.N * width)
	c.GELUBackward(dz, c.Kept(0), dy)
	c.SumRows(dp[1], dz, c.N, width, 1)
	if x.None() {
		x = c.Input
	} else {
		dx = c.Out(c.N * l.in)
		c.MatMul(kernel.NN, dx, dz, p[0], c.N, l.in, width, false)
	}
	c.MatMul(kernel.TN, dp[0], dz, x, width, l.in, c.N, false)
	return dx
}

// classify: the cross-entropy of x * weight^T + bias.
type classify struct{}

func (classify) Forward(c *model.Ctx, p []kernel.Buffer, x kernel.Buffer) kernel.Buffer {
	logits, loss := c.Keep(c.N*arms), c.Out(c.N)
	c.MatMul(kernel.NT, logits, x, p[0], c.N, arms, width, false)
	c.AddRows(logits, logits, p[1], c.N, arms, 1)
	c.Predict(logits, c.N, arms)
	c.CrossEntropy(loss, logits, logits, c.Labels, c.N, arms) // logits now hold their gradient
	return loss
}

func (classify) Backward(c *model.Ctx, p, dp []kernel.Buffer, x, _ kernel.Buffer) kernel.Buffer {
	dx := c.Out(c.N * width)
	c.MatMul(kernel.TN, dp[0], c.Kept(0), x, arms, width, c.N, false)
	c.SumRows(dp[1], c.Kept(0), c.N, arms, 1)
	c.MatMul(kernel.NN, dx, c.Kept(0), p[0], c.N, width, arms, false)
	return dx
}

// spirals are n points on three noisy arms, each a function of its index.
type spirals struct{ first, n int }

func (s spirals) Len() int         { return s.n }
func (s spirals) Spec() model.Spec { return mlp{}.Sample() }

func (s spirals) Read(indices []int, b *model.Batch) error {
	b.N, b.Floats, b.Labels = len(indices), b.Floats[:0], b.Labels[:0]
	for _, i := range indices {
		h := ref.Counter(1, uint64(s.first+i))
		arm, r := h%arms, 0.1+float64(h>>40)/(1<<24)                  // r from 0.1 to 1.1
		noise := float64((float64(h>>16&0xffffff)/(1<<24) - 0.5) / 2) // +-0.25 radians
		angle := float64(r*5) + float64(float64(arm)*(2*math.Pi/arms)) + noise
		// ref.Cos64 has the same bits on every machine, math.Cos has not.
		b.Floats = append(b.Floats, float32(r*ref.Cos64(angle)), float32(r*ref.Cos64(angle-math.Pi/2)))
		b.Labels = append(b.Labels, int32(arm))
	}
	return nil
}
