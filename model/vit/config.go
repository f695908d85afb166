package vit

import (
	"fmt"
	"math"

	"shoal/model/internal/nn"
)

// Config is the shape of a vision transformer. Every field must be given.
type Config struct {
	Image    int // height and width of an image in pixels, a multiple of Patch; at most 65536
	Patch    int // height and width of a patch in pixels
	Channels int // values of a pixel; at most 1024
	Dim      int // width of a token, a multiple of Heads; at most 65536
	Depth    int // blocks; at most 1024
	Heads    int // attention heads of a block
	Classes  int // outputs; at most 2^24
}

// maxElements caps the parameters of a unit and the floats that one sample needs at any place, so that no count
// overflows an index and a unit fits into a frame's offsets.
const maxElements = math.MaxInt32

func (c Config) grid() int   { return c.Image / c.Patch }
func (c Config) tokens() int { return c.grid() * c.grid() }            // T
func (c Config) patch() int  { return c.Channels * c.Patch * c.Patch } // P
func (c Config) hidden() int { return nn.HiddenRatio * c.Dim }

// validate names the first key whose value does not work and says what is allowed.
func (c Config) validate() error {
	for _, k := range []struct {
		name     string
		val, max int
	}{
		{"image", c.Image, 1 << 16},
		{"patch", c.Patch, 1 << 16},
		{"channels", c.Channels, 1 << 10},
		{"dim", c.Dim, 1 << 16},
		{"depth", c.Depth, 1 << 10},
		{"heads", c.Heads, 1 << 16},
		{"classes", c.Classes, 1 << 24},
	} {
		if k.val < 1 || k.val > k.max {
			return fmt.Errorf("vit: %s is %d: must be from 1 to %d", k.name, k.val, k.max)
		}
	}
	if c.Image%c.Patch != 0 {
		return fmt.Errorf("vit: patch is %d: must divide image, which is %d", c.Patch, c.Image)
	}
	if c.Dim%c.Heads != 0 {
		return fmt.Errorf("vit: heads is %d: must divide dim, which is %d", c.Heads, c.Dim)
	}
	return c.checkSize()
}

// checkSize keeps the products below maxElements. The caps above keep them below 2^63.
func (c Config) checkSize() error {
	ch, img, pat := int64(c.Channels), int64(c.Image), int64(c.Patch)
	dim, tok := int64(c.Dim), int64(c.tokens())
	if n := ch * img * img; n > maxElements {
		return fmt.Errorf("vit: channels x image x image is %d: must be at most %d", n, maxElements)
	}
	if n := dim * (ch*pat*pat + tok + int64(c.Classes) + 4); n > maxElements {
		return fmt.Errorf("vit: dim, patch, image and classes give a root unit of %d parameters: must be at most %d", n, maxElements)
	}
	if n := dim * (12*dim + 13); n > maxElements {
		return fmt.Errorf("vit: dim is %d: a block would have %d parameters, must be at most %d", c.Dim, n, maxElements)
	}
	if n := tok * dim * nn.HiddenRatio; n > maxElements {
		return fmt.Errorf("vit: dim and image/patch give %d activations in a block for one sample: must be at most %d", n, maxElements)
	}
	return nil
}

// String tells the whole shape, for model.Describe.
func (c Config) String() string {
	return fmt.Sprintf("image %d patch %d channels %d dim %d depth %d heads %d classes %d",
		c.Image, c.Patch, c.Channels, c.Dim, c.Depth, c.Heads, c.Classes)
}
