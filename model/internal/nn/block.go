package nn

import (
	"fmt"

	"shoal/kernel"
	"shoal/model"
)

// Block is one pre-norm transformer block on tokens (B, T, C):
//
//	x += proj(attention(qkv(norm1(x))))
//	x += fc2(gelu(fc1(norm2(x))))
//
// It keeps what is dear to compute (products, attention) and computes norms and GELU again in the backward pass, unless all
// is to be kept.
type Block struct {
	Tokens int  // T
	Dim    int  // C
	Heads  int  // H, divides C
	Causal bool // a token sees only itself and those before it
	Conv1D bool // matrices are stored as (in, out), see Linear
}

var _ model.Layer = Block{}

// HiddenRatio is the width of a block's hidden layer over Dim.
const HiddenRatio = 4

// Places of a block's parameters, in p and dp. Matrices are stored as (out, in) here.
const (
	norm1Weight = iota // (C)
	norm1Bias          // (C)
	qkvWeight          // (3C, C)
	qkvBias            // (3C)
	projWeight         // (C, C)
	projBias           // (C)
	norm2Weight        // (C)
	norm2Bias          // (C)
	fc1Weight          // (4C, C)
	fc1Bias            // (4C)
	fc2Weight          // (C, 4C)
	fc2Bias            // (C)
)

// What a block keeps for its backward pass.
const (
	keptMean1 = iota // (B*T)
	keptRstd1        // (B*T)
	keptQKV          // (B, T, 3C)
	keptStats        // (B, H, T, 2)
	keptAttn         // (B, T, C) attention's output
	keptX            // (B, T, C) the input of norm2
	keptMean2        // (B*T)
	keptRstd2        // (B*T)
	keptFC1          // (B, T, 4C) GELU's input
	keptNorm1        // (B, T, C) these only with Ctx.KeepAll
	keptNorm2        // (B, T, C)
	keptGELU         // (B, T, 4C)
)

// String tells what no shape shows, for model.Describe.
func (l Block) String() string {
	return fmt.Sprintf("tokens %d dim %d heads %d causal %v conv1d %v", l.Tokens, l.Dim, l.Heads, l.Causal, l.Conv1D)
}

func (l Block) hidden() int  { return HiddenRatio * l.Dim }
func (l Block) qkv() Linear  { return Linear{l.Dim, 3 * l.Dim, l.Conv1D} }
func (l Block) proj() Linear { return Linear{l.Dim, l.Dim, l.Conv1D} }
func (l Block) fc1() Linear  { return Linear{l.Dim, l.hidden(), l.Conv1D} }
func (l Block) fc2() Linear  { return Linear{l.hidden(), l.Dim, l.Conv1D} }

func (l Block) attention(n int) kernel.AttentionShape {
	return kernel.AttentionShape{B: n, T: l.Tokens, H: l.Heads, D: l.Dim / l.Heads, Causal: l.Causal}
}

// Forward implements model.Layer: x and the result are (B, T, C).
func (l Block) Forward(c *model.Ctx, p []kernel.Buffer, x kernel.Buffer) kernel.Buffer {
	rows, dim, hid := c.N*l.Tokens, l.Dim, l.hidden()
	mean1, rstd1 := c.Keep(rows), c.Keep(rows)
	qkv, stats := c.Keep(rows*3*dim), c.Keep(rows*l.Heads*2)
	attn, mid := c.Keep(rows*dim), c.Keep(rows*dim)
	mean2, rstd2 := c.Keep(rows), c.Keep(rows)
	fc1 := c.Keep(rows * hid)
	var norm1, norm2, gelu kernel.Buffer
	if c.KeepAll {
		norm1, norm2, gelu = c.Keep(rows*dim), c.Keep(rows*dim), c.Keep(rows*hid)
	} else {
		gelu = c.Temp(rows * hid)
		norm1, norm2 = gelu.Slice(0, rows*dim), gelu.Slice(0, rows*dim)
	}

	c.LayerNorm(norm1, mean1, rstd1, x, p[norm1Weight], p[norm1Bias], rows, dim)
	l.qkv().Forward(c, qkv, norm1, p[qkvWeight], p[qkvBias], rows)
	c.Attention(attn, stats, qkv, l.attention(c.N))
	l.proj().Forward(c, mid, attn, p[projWeight], p[projBias], rows)
	c.Add(mid, mid, x)

	c.LayerNorm(norm2, mean2, rstd2, mid, p[norm2Weight], p[norm2Bias], rows, dim)
	l.fc1().Forward(c, fc1, norm2, p[fc1Weight], p[fc1Bias], rows)
	c.GELU(gelu, fc1)
	y := c.Out(rows * dim)
	l.fc2().Forward(c, y, gelu, p[fc2Weight], p[fc2Bias], rows)
	c.Add(y, y, mid)
	return y
}

// Backward implements model.Layer.
func (l Block) Backward(c *model.Ctx, p, dp []kernel.Buffer, x, dy kernel.Buffer) kernel.Buffer {
	dx := c.Out(c.N * l.Tokens * l.Dim)
	work := c.Temp(c.N * l.Tokens * l.hidden())
	normed := c.Temp(c.N * l.Tokens * l.Dim)
	l.mlpBackward(c, p, dp, dx, dy, work, normed)
	l.attentionBackward(c, p, dp, dx, x, work, normed)
	return dx
}

// mlpBackward writes into dmid the gradient of the block's second line with respect to mid. work is (B, T, 4C), normed
// (B, T, C).
func (l Block) mlpBackward(c *model.Ctx, p, dp []kernel.Buffer, dmid, dy, work, normed kernel.Buffer) {
	rows, dim := c.N*l.Tokens, l.Dim
	mid, mean, rstd, fc1 := c.Kept(keptX), c.Kept(keptMean2), c.Kept(keptRstd2), c.Kept(keptFC1)

	gelu := work
	if c.KeepAll {
		gelu, normed = c.Kept(keptGELU), c.Kept(keptNorm2)
	} else {
		c.GELU(gelu, fc1)
	}
	l.fc2().Backward(c, work, dp[fc2Weight], dp[fc2Bias], dy, gelu, p[fc2Weight], rows)
	c.GELUBackward(work, fc1, work)
	if !c.KeepAll {
		c.LayerNorm(normed, mean, rstd, mid, p[norm2Weight], p[norm2Bias], rows, dim)
	}
	l.fc1().Backward(c, dmid, dp[fc1Weight], dp[fc1Bias], work, normed, p[fc1Weight], rows)
	c.LayerNormBackward(dmid, dp[norm2Weight], dp[norm2Bias], dmid, mid, mean, rstd, p[norm2Weight], rows, dim)
	c.Add(dmid, dmid, dy)
}

// attentionBackward turns d, the gradient with respect to mid, into the gradient with respect to x.
func (l Block) attentionBackward(c *model.Ctx, p, dp []kernel.Buffer, d, x, work, normed kernel.Buffer) {
	rows, dim := c.N*l.Tokens, l.Dim
	mean, rstd, attn := c.Kept(keptMean1), c.Kept(keptRstd1), c.Kept(keptAttn)
	dqkv := work.Slice(0, rows*3*dim)
	dnormed := work.Slice(rows*3*dim, rows*dim)

	l.proj().Backward(c, normed, dp[projWeight], dp[projBias], d, attn, p[projWeight], rows)
	c.AttentionBackward(dqkv, normed, attn, c.Kept(keptQKV), c.Kept(keptStats), l.attention(c.N))
	if c.KeepAll {
		normed = c.Kept(keptNorm1)
	} else {
		c.LayerNorm(normed, mean, rstd, x, p[norm1Weight], p[norm1Bias], rows, dim)
	}
	l.qkv().Backward(c, dnormed, dp[qkvWeight], dp[qkvBias], dqkv, normed, p[qkvWeight], rows)
	c.LayerNormBackward(dnormed, dp[norm1Weight], dp[norm1Bias], dnormed, x, mean, rstd, p[norm1Weight], rows, dim)
	c.Add(d, d, dnormed)
}
