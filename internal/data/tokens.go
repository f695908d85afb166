package data

import (
	"encoding/binary"
	"math"

	"shoal/model"
)

// tokens are the samples of a part of one file of token ids, each of width bytes, little endian. A text is such a file,
// of one byte an id. Sample i is the tokens from i*context on, context of them, and for each one its successor as the
// label; so each token of the part but the first is predicted once. The last sample may be short: where a token has no
// successor the label is -1, which no loss counts, and tokens beyond the part's end are 0.
type tokens struct {
	*store
	width   int // bytes
	vocab   int
	context int
	first   int64 // token of the file with which the part begins
	count   int64 // tokens in the part
}

// openTokens cuts the file as nanoGPT does: the first 9 of 10 tokens are for training, the rest is held out.
func openTokens(s *store, shape Shape) (train, held Samples, err error) {
	width, size := 1, s.manifest.Files[0].Size
	if s.manifest.Kind == "tokens" {
		if shape.Width != 16 && shape.Width != 32 {
			return nil, nil, s.errorf(0, "data.width is %d: tokens have 16 or 32 bits", shape.Width)
		}
		width = shape.Width / 8
	}
	if shape.Context < 1 {
		return nil, nil, s.errorf(0, "model.context is %d: a sample has at least 1 token", shape.Context)
	}
	if width == 1 && shape.Vocab < math.MaxUint8+1 {
		return nil, nil, s.errorf(0, "model.vocab is %d: text is bytes and needs 256", shape.Vocab)
	}
	if rest := size % int64(width); rest != 0 {
		return nil, nil, s.errorf(0, "byte %d: it is cut short or not of %d-bit tokens (data.width): %d bytes are left over", size-rest, 8*width, rest)
	}
	n := size / int64(width)
	if least := int64(shape.Context) + 1; n < least {
		return nil, nil, s.errorf(0, "it has %d bytes, %d tokens: at least %d (%d bytes) are needed, model.context and one to predict",
			size, n, least, least*int64(width))
	}
	a := &tokens{s, width, shape.Vocab, shape.Context, 0, n / 10 * 9}
	a.count += n % 10 * 9 / 10
	b := &tokens{s, width, shape.Vocab, shape.Context, a.count, n - a.count}
	if b.Len() == 0 { // too short to be cut
		a.count, b.count = n, 0
	}
	if eval := int64(shape.Eval); b.Len() > shape.Eval {
		b.count = eval*int64(b.context) + 1
	}
	if shape.Eval == 0 || b.Len() == 0 {
		return a, nil, nil
	}
	return a, b, nil
}

// Len counts the samples: the first token of the part has nobody to predict it.
func (t *tokens) Len() int {
	if t.count < 2 {
		return 0
	}
	return int((t.count-2)/int64(t.context) + 1)
}

// Spec is context tokens and as many labels.
func (t *tokens) Spec() model.Spec { return model.Spec{Tokens: t.context, Labels: t.context} }

// Read gives Tokens and Labels, both (N, context).
func (t *tokens) Read(indices []int, b *model.Batch) error {
	b.N, b.Floats = len(indices), b.Floats[:0]
	b.Tokens = resize(b.Tokens, len(indices)*t.context)
	b.Labels = resize(b.Labels, len(indices)*t.context)
	raw := make([]byte, (t.context+1)*t.width)
	for n, i := range indices {
		if i < 0 || i >= t.Len() {
			return t.errorf(0, "sample %d is wanted, it has %d", i, t.Len())
		}
		at := int64(i) * int64(t.context)
		have := int(min(t.count-at, int64(t.context)+1))
		offset := (t.first + at) * int64(t.width)
		if err := t.read(0, offset, raw[:have*t.width]); err != nil {
			return err
		}
		lo, hi := n*t.context, (n+1)*t.context
		if err := t.sample(offset, raw[:have*t.width], b.Tokens[lo:hi], b.Labels[lo:hi]); err != nil {
			return err
		}
	}
	return nil
}

// sample spreads the ids in raw, which lie at offset in the file.
func (t *tokens) sample(offset int64, raw []byte, in, label []int32) error {
	for k := range in {
		in[k], label[k] = 0, -1
	}
	for k := range len(raw) / t.width {
		id := t.id(raw[k*t.width:])
		if id >= uint32(t.vocab) {
			return t.outside(offset+int64(k*t.width), id)
		}
		if k < len(in) {
			in[k] = int32(id)
		}
		if k > 0 {
			label[k-1] = int32(id)
		}
	}
	return nil
}

func (t *tokens) id(b []byte) uint32 {
	switch t.width {
	case 1:
		return uint32(b[0])
	case 2:
		return uint32(binary.LittleEndian.Uint16(b))
	}
	return binary.LittleEndian.Uint32(b)
}

func (t *tokens) outside(offset int64, id uint32) error {
	return t.errorf(0, "byte %d: the id of token %d is %d, model.vocab allows 0 to %d (data.width is %d)", offset, offset/int64(t.width),
		id, t.vocab-1, 8*t.width)
}

// enough is the number of tokens from which on a file shows of how many bits they are.
const enough = 64

// Check reads the part. Ids of 32 bits, read as 16, are each followed by a zero.
func (t *tokens) Check() error {
	if t.width == 1 {
		return nil
	}
	doubled, first, end := t.width == 2 && t.count >= enough, t.first*int64(t.width), (t.first+t.count)*int64(t.width)
	err := t.pieces(0, first, end, func(offset int64, b []byte) error {
		for k := 0; k+t.width <= len(b); k += t.width {
			id := t.id(b[k:])
			if id >= uint32(t.vocab) {
				return t.outside(offset+int64(k), id)
			}
			if odd := (offset+int64(k))&2 != 0; odd && id != 0 {
				doubled = false
			}
		}
		return nil
	})
	if err == nil && doubled {
		err = t.errorf(0, "byte 2: every second id is 0: these are tokens of 32 bits, set data.width to 32")
	}
	return err
}
