package gpt

import (
	"shoal/kernel"
	"shoal/model"
)

// embed turns tokens (B, T) into vectors (B, T, C): the token's plus the position's.
// Parameters: wte.weight (V, C), wpe.weight (T, C).
type embed struct{ Config }

func (l embed) Forward(c *model.Ctx, p []kernel.Buffer, _ kernel.Buffer) kernel.Buffer {
	rows := c.N * l.Context
	y := c.Out(rows * l.Dim)
	c.Embedding(y, p[0], c.Tokens, rows, l.Dim)
	c.AddRows(y, y, p[1], rows, l.Dim, l.Context)
	return y
}

func (l embed) Backward(c *model.Ctx, _, dp []kernel.Buffer, _, dy kernel.Buffer) kernel.Buffer {
	rows := c.N * l.Context
	c.EmbeddingBackward(dp[0], dy, c.Tokens, rows, l.Dim)
	c.SumRows(dp[1], dy, rows, l.Dim, l.Context)
	return kernel.Buffer{}
}

// head turns vectors (B, T, C) into one loss per token: final norm, product with the token embeddings, cross-entropy.
// Parameters: wte.weight (V, C), ln_f.weight (C), ln_f.bias (C).
type head struct{ Config }

// What head keeps for its backward pass.
const (
	headMean    = iota // (B*T)
	headRstd           // (B*T)
	headDlogits        // (B, T, V)
)

func (l head) Forward(c *model.Ctx, p []kernel.Buffer, x kernel.Buffer) kernel.Buffer {
	rows := c.N * l.Context
	mean, rstd, logits := c.Keep(rows), c.Keep(rows), c.Keep(rows*l.Vocab)
	l.logits(c, logits, mean, rstd, p, x)
	c.Predict(logits, rows, l.Vocab)

	loss := c.Out(rows)
	c.CrossEntropy(loss, logits, logits, c.Labels, rows, l.Vocab)
	return loss
}

func (l head) logits(c *model.Ctx, y, mean, rstd kernel.Buffer, p []kernel.Buffer, x kernel.Buffer) {
	rows := c.N * l.Context
	normed := c.Temp(rows * l.Dim)
	c.LayerNorm(normed, mean, rstd, x, p[1], p[2], rows, l.Dim)
	c.MatMul(kernel.NT, y, normed, p[0], rows, l.Vocab, l.Dim, false)
}

func (l head) Backward(c *model.Ctx, p, dp []kernel.Buffer, x, _ kernel.Buffer) kernel.Buffer {
	rows := c.N * l.Context
	mean, rstd, dlogits := c.Kept(headMean), c.Kept(headRstd), c.Kept(headDlogits)

	normed := c.Temp(rows * l.Dim)
	c.LayerNorm(normed, mean, rstd, x, p[1], p[2], rows, l.Dim)
	c.MatMul(kernel.TN, dp[0], dlogits, normed, l.Vocab, l.Dim, rows, false)

	dx := c.Out(rows * l.Dim)
	c.MatMul(kernel.NN, dx, dlogits, p[0], rows, l.Dim, l.Vocab, false)
	c.LayerNormBackward(dx, dp[1], dp[2], dx, x, mean, rstd, p[1], rows, l.Dim)
	return dx
}
