package vit

import (
	"shoal/kernel"
	"shoal/model"
	"shoal/model/internal/nn"
)

// embed turns patches (B, T, P) into tokens (B, T, C): a linear layer, then the position is added.
// Parameters: patch_embed.weight, patch_embed.bias, pos_embed.
type embed struct{ Config }

const embedParams = 3

func (l embed) patches() nn.Linear { return nn.Linear{In: l.patch(), Out: l.Dim} }

func (l embed) Forward(c *model.Ctx, p []kernel.Buffer, _ kernel.Buffer) kernel.Buffer {
	rows := c.N * l.tokens()
	y := c.Out(rows * l.Dim)
	l.patches().Forward(c, y, c.Input, p[0], p[1], rows)
	c.AddRows(y, y, p[2], rows, l.Dim, l.tokens())
	return y
}

func (l embed) Backward(c *model.Ctx, p, dp []kernel.Buffer, _, dy kernel.Buffer) kernel.Buffer {
	rows := c.N * l.tokens()
	l.patches().Backward(c, kernel.Buffer{}, dp[0], dp[1], dy, c.Input, p[0], rows)
	c.SumRows(dp[2], dy, rows, l.Dim, l.tokens())
	return kernel.Buffer{}
}

// head turns tokens (B, T, C) into one loss per image: final norm, mean over the tokens, linear, cross-entropy.
// Parameters: norm.weight, norm.bias, head.weight, head.bias.
type head struct{ Config }

// What head keeps for its backward pass.
const (
	headMean    = iota // (B*T)
	headRstd           // (B*T)
	headPooled         // (B, C)
	headDlogits        // (B, Classes)
)

func (l head) classifier() nn.Linear { return nn.Linear{In: l.Dim, Out: l.Classes} }

func (l head) Forward(c *model.Ctx, p []kernel.Buffer, x kernel.Buffer) kernel.Buffer {
	t := l.tokens()
	rows := c.N * t
	mean, rstd := c.Keep(rows), c.Keep(rows)
	pooled, logits := c.Keep(c.N*l.Dim), c.Keep(c.N*l.Classes)

	normed := c.Temp(rows * l.Dim)
	c.LayerNorm(normed, mean, rstd, x, p[0], p[1], rows, l.Dim)
	c.MeanRows(pooled, normed, c.N, t, l.Dim)
	l.classifier().Forward(c, logits, pooled, p[2], p[3], c.N)
	c.Predict(logits, c.N, l.Classes)

	loss := c.Out(c.N)
	c.CrossEntropy(loss, logits, logits, c.Labels, c.N, l.Classes)
	return loss
}

func (l head) Backward(c *model.Ctx, p, dp []kernel.Buffer, x, _ kernel.Buffer) kernel.Buffer {
	t := l.tokens()
	rows := c.N * t
	dpooled := c.Temp(c.N * l.Dim)
	l.classifier().Backward(c, dpooled, dp[2], dp[3], c.Kept(headDlogits), c.Kept(headPooled), p[2], c.N)

	dx := c.Out(rows * l.Dim)
	c.MeanRowsBackward(dx, dpooled, c.N, t, l.Dim)
	c.LayerNormBackward(dx, dp[0], dp[1], dx, x, c.Kept(headMean), c.Kept(headRstd), p[0], rows, l.Dim)
	return dx
}
