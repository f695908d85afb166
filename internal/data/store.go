package data

import (
	"context"
	"fmt"

	"shoal/model"
)

// Samples is a data set in files, or a part of one, for training or evaluation. Methods may be called by several
// goroutines.
type Samples interface {
	// Len is the number of samples.
	Len() int
	// Spec says what one sample is.
	Spec() model.Spec
	// Read fills b with the samples of the given indices, reusing b's slices. It touches only the chunks that have them.
	Read(indices []int, b *model.Batch) error
	// Chunks are the chunks that Read needs for one sample.
	Chunks(index int) []int
	// Check reads what the model could not bear if it were wrong: all labels or token ids. The error names file and place.
	// Read looks at the same in what it reads; where chunks come from afar, that is enough.
	Check() error
}

// Shape is what a model and a run file want of the samples.
type Shape struct {
	Image   int // mnist: width and height of an image in pixels
	Classes int // mnist: labels are below it
	Context int // text and tokens: tokens of a sample
	Vocab   int // text and tokens: token ids are below it
	Width   int // tokens: bits of an id in the file, 16 or 32
	Eval    int // most held-out samples; 0 means none
}

// Open makes the training and the held-out samples of a data set, whose chunks src gives until ctx ends. It looks at the
// headers and sizes of the files alone. Without held-out samples, held is nil.
func Open(ctx context.Context, m *Manifest, src ChunkSource, s Shape) (train, held Samples, err error) {
	if err := m.Validate(); err != nil {
		return nil, nil, err
	}
	st := &store{ctx: ctx, manifest: m, src: src}
	if m.Kind == "mnist" {
		return openImages(st, s)
	}
	return openTokens(st, s)
}

// store reads ranges of bytes of a data set's files from the chunks that have them.
type store struct {
	ctx      context.Context // of all reads: those who read samples give none
	manifest *Manifest
	src      ChunkSource
}

// read fills p with the bytes of a file from offset on.
func (s *store) read(file int, offset int64, p []byte) error {
	if size := s.manifest.Files[file].Size; offset < 0 || offset+int64(len(p)) > size {
		return s.errorf(file, "bytes %d to %d are wanted, it has %d", offset, offset+int64(len(p))-1, size)
	}
	for len(p) > 0 {
		b, err := s.src.Chunk(s.ctx, s.manifest.chunkAt(file, offset))
		if err != nil {
			return err
		}
		n := 0
		if err := guarded(func() { n = copy(p, b[offset%ChunkSize:]) }); err != nil {
			return s.errorf(file, "bytes from %d on: %w", offset, err)
		}
		p, offset = p[n:], offset+int64(n)
	}
	return nil
}

// pieces calls f with the bytes of a file from offset to end, piece after piece. The lengths of all but the last are
// multiples of 4.
func (s *store) pieces(file int, offset, end int64, f func(offset int64, b []byte) error) error {
	buf := make([]byte, min(1<<16, max(0, end-offset)))
	for offset < end {
		b := buf[:min(int64(len(buf)), end-offset)]
		if err := s.read(file, offset, b); err != nil {
			return err
		}
		if err := f(offset, b); err != nil {
			return err
		}
		offset += int64(len(b))
	}
	return nil
}

// errorf names the file, by its path if it is on this machine.
func (s *store) errorf(file int, format string, args ...any) error {
	name := s.manifest.Files[file].Name
	if p, ok := s.src.(interface{ Path(file int) string }); ok {
		name = p.Path(file)
	}
	return fmt.Errorf("data: %s: "+format, append([]any{name}, args...)...)
}
