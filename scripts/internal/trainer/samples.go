package trainer

import (
	"shoal/fsdp"
	"shoal/kernel/ref"
	"shoal/model"
)

// samples is a data set of random samples.
type samples struct {
	spec model.Spec
	model.Batch
}

var _ fsdp.Dataset = (*samples)(nil)

// NewSamples draws n samples: floats from a normal distribution, tokens and labels below classes.
func NewSamples(spec model.Spec, n, classes int) fsdp.Dataset {
	s := &samples{spec, model.Batch{N: n, Floats: make([]float32, n*spec.Floats)}}
	ref.FillNormal(s.Floats, 1, 0, 1)
	draw := func(key uint64, n int) (x []int32) {
		for i := range n {
			x = append(x, int32(ref.Counter(key, uint64(i))%uint64(classes)))
		}
		return x
	}
	s.Tokens, s.Labels = draw(2, n*spec.Tokens), draw(3, n*spec.Labels)
	return s
}

// Len implements fsdp.Dataset.
func (s *samples) Len() int { return s.N }

// Spec implements fsdp.Dataset.
func (s *samples) Spec() model.Spec { return s.spec }

// Read implements fsdp.Dataset.
func (s *samples) Read(indices []int, b *model.Batch) error {
	b.N, b.Floats, b.Tokens, b.Labels = len(indices), b.Floats[:0], b.Tokens[:0], b.Labels[:0]
	for _, i := range indices {
		b.Floats = append(b.Floats, at(s.Floats, i, s.spec.Floats)...)
		b.Tokens = append(b.Tokens, at(s.Tokens, i, s.spec.Tokens)...)
		b.Labels = append(b.Labels, at(s.Labels, i, s.spec.Labels)...)
	}
	return nil
}

// at is the i-th group of n elements.
func at[T any](x []T, i, n int) []T { return x[i*n : (i+1)*n] }
