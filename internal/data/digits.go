package data

import (
	"fmt"
	"sync"

	"shoal/model"
)

// The drawing's parameters, at 28 pixels; another size scales all lengths.
const (
	one      = 1 << 10            // a pixel in the fixed-point geometry
	maxShift = 2 * one            // either way, each axis
	maxTurn  = 11438              // 10 degrees in 1/65536 radian
	maxGrow  = 7864               // 12% in 1/65536
	halfPen  = one * 11 / 10      // half the width of a stroke
	maxPen   = 16384              // 25% in 1/65536
	noise    = 13621              // turns bell into noise of deviation 0.12, both in 1/65536
	white    = 1 << 16            // the value of a pixel that a stroke covers
	mean     = white * 109 / 1000 // what pixels have in the long run; training likes inputs of mean 0, deviation 1
	spread   = white * 308 / 1000
)

// MaxImage is the largest width of an image that Digits draws.
const MaxImage = 1024

// DigitsConfig says which digits there are.
type DigitsConfig struct {
	Seed  uint64 // another seed, other digits
	Image int    // width and height in pixels, 1 to MaxImage; 0 means 28
	First uint64 // index of the first digit; held-out digits are those of a far range of indices
	Count int    // how many, at least 1
}

// HeldOut is the First of the digits kept for evaluation. No training set reaches it.
const HeldOut = 1 << 32

// Digits is an endless book of handwritten-looking digits, each drawn when it is read: digit i is a function of (seed,
// i) alone. The numbers of training samples and of peers play no part. Methods may be called by several goroutines.
type Digits struct {
	cfg    DigitsConfig
	glyphs [10][][][]point // [label][variant][stroke][corner]

	canvases sync.Pool // of *canvas
}

// NewDigits checks cfg and prepares the glyphs.
func NewDigits(cfg DigitsConfig) (*Digits, error) {
	if cfg.Image == 0 {
		cfg.Image = 28
	}
	if cfg.Image < 1 || cfg.Image > MaxImage {
		return nil, fmt.Errorf("digits: image is %d pixels wide: 1 to %d are allowed", cfg.Image, MaxImage)
	}
	if cfg.Count < 1 {
		return nil, fmt.Errorf("digits: count is %d: at least 1 is needed", cfg.Count)
	}
	d := &Digits{cfg: cfg}
	for label, variants := range glyphs() {
		for _, strokes := range variants {
			var flat [][]point
			for _, s := range strokes {
				flat = append(flat, s.flatten(cfg.Image))
			}
			d.glyphs[label] = append(d.glyphs[label], flat)
		}
	}
	return d, nil
}

// Len is the number of digits.
func (d *Digits) Len() int { return d.cfg.Count }

// Spec is one image, row by row, and its label.
func (d *Digits) Spec() model.Spec {
	return model.Spec{Floats: d.cfg.Image * d.cfg.Image, Labels: 1}
}

// Describe is a canonical text of which digits these are, part of the run id. The version changes when a drawing does.
func (d *Digits) Describe() string {
	return fmt.Sprintf("digits version 1 seed %d image %d first %d count %d", d.cfg.Seed, d.cfg.Image, d.cfg.First, d.cfg.Count)
}

// Read fills b with the digits at indices, each in [0, Len): Floats (N, Image*Image), normalised to a mean near 0 and a
// deviation near 1, and Labels (N). It reuses b's slices.
func (d *Digits) Read(indices []int, b *model.Batch) error {
	size := d.Spec().Floats
	for _, i := range indices {
		if i < 0 || i >= d.cfg.Count {
			return fmt.Errorf("digits: index %d is not in [0, %d)", i, d.cfg.Count)
		}
	}
	b.N, b.Tokens = len(indices), b.Tokens[:0]
	b.Floats = resize(b.Floats, len(indices)*size)
	b.Labels = resize(b.Labels, len(indices))
	c, ok := d.canvases.Get().(*canvas)
	if !ok {
		c = newCanvas(d.cfg.Image)
	}
	defer d.canvases.Put(c)
	for n, i := range indices {
		b.Labels[n] = int32(d.draw(c, d.cfg.First+uint64(i)))
		c.develop(b.Floats[n*size : (n+1)*size])
	}
	return nil
}

// draw puts digit i on the canvas and returns its label. Ten indices that begin at a multiple of 10 hold each label
// once.
func (d *Digits) draw(c *canvas, i uint64) (label uint64) {
	key := mix(d.cfg.Seed)
	label = (i%10 + mix(key^i/10)%10) % 10
	r := draws{key: mix(key + i*golden)}

	image := int64(d.cfg.Image)
	variants := d.glyphs[label]
	glyph := variants[r.next()>>32*uint64(len(variants))>>32]
	shift := point{r.around(maxShift * image / 28), r.around(maxShift * image / 28)}
	turn, grow := r.around(maxTurn), white+r.around(maxGrow)
	pen := halfPen * image / 28 * (white + r.around(maxPen)) >> 16

	// sin and cos by their series, good to 1/65536 up to 10 degrees; in units of 1/65536, times the growth.
	square := turn * turn >> 16
	sin := (turn - turn*square>>16/6) * grow >> 16
	cos := (white - square/2 + square*square>>16/24) * grow >> 16

	c.clear(r.next())
	for _, s := range glyph {
		var from point
		for k, p := range s {
			to := point{
				image*one/2 + shift.x + (p.x*cos-p.y*sin)>>16,
				image*one/2 + shift.y + (p.x*sin+p.y*cos)>>16,
			}
			if k > 0 {
				c.segment(from, to, pen)
			}
			from = to
		}
	}
	c.pen = pen
	return label
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
