package gpt

import (
	"fmt"

	"shoal/model"
	"shoal/model/internal/nn"
)

// Config is the shape of a language model. Every field must be given.
type Config struct {
	Vocab   int // tokens that there are: 256 for bytes; at most 2^24
	Context int // tokens of a sample, and how far a token looks back; at most 65536
	Dim     int // width of a token's vector, a multiple of Heads; at most 65536
	Depth   int // blocks; at most 1024
	Heads   int // attention heads of a block
}

func (c Config) block() nn.Block {
	return nn.Block{Tokens: c.Context, Dim: c.Dim, Heads: c.Heads, Causal: true, Conv1D: true}
}

func (c Config) hidden() int { return nn.HiddenRatio * c.Dim }

// validate names the first key whose value does not work and says what is allowed.
func (c Config) validate() error {
	for _, k := range []struct {
		name     string
		val, max int
	}{
		{"vocab", c.Vocab, 1 << 24},
		{"context", c.Context, 1 << 16},
		{"dim", c.Dim, 1 << 16},
		{"depth", c.Depth, 1 << 10},
		{"heads", c.Heads, 1 << 16},
	} {
		if k.val < 1 || k.val > k.max {
			return fmt.Errorf("gpt: %s is %d: must be from 1 to %d", k.name, k.val, k.max)
		}
	}
	if c.Dim%c.Heads != 0 {
		return fmt.Errorf("gpt: heads is %d: must divide dim, which is %d", c.Heads, c.Dim)
	}
	return c.checkSize()
}

// checkSize keeps the products below model.MaxElements. The caps above keep them below 2^63.
func (c Config) checkSize() error {
	dim, ctx, vocab := int64(c.Dim), int64(c.Context), int64(c.Vocab)
	if n := dim * (vocab + ctx + 2); n > model.MaxElements {
		return fmt.Errorf("gpt: dim, vocab and context give a root unit of %d parameters: must be at most %d", n, model.MaxElements)
	}
	if n := dim * (12*dim + 13); n > model.MaxElements {
		return fmt.Errorf("gpt: dim is %d: a block would have %d parameters, must be at most %d", c.Dim, n, model.MaxElements)
	}
	if n := ctx * dim * nn.HiddenRatio; n > model.MaxElements {
		return fmt.Errorf("gpt: dim and context give %d activations in a block for one sample: must be at most %d", n, model.MaxElements)
	}
	if n := ctx * vocab; n > model.MaxElements {
		return fmt.Errorf("gpt: context and vocab give %d logits for one sample: must be at most %d", n, model.MaxElements)
	}
	return nil
}

// String tells the whole shape.
func (c Config) String() string {
	return fmt.Sprintf("vocab %d context %d dim %d depth %d heads %d", c.Vocab, c.Context, c.Dim, c.Depth, c.Heads)
}
