package data

import (
	"slices"
	"testing"

	"shoal/model"
)

// A sample's Chunks are exactly those that reading it asks for.
func TestChunksOfSamples(t *testing.T) {
	text := pixels(2*ChunkSize + 100)
	big := [][]byte{
		idx([]int{1400, 32, 32}, pixels(1400*1024)), idx([]int{1400}, classLabels(1400)),
		idx([]int{10, 32, 32}, pixels(10*1024)), idx([]int{10}, classLabels(10)),
	}
	for _, c := range []struct {
		kind    string
		files   [][]byte
		shape   Shape
		parts   int // files in which a sample lies
		indices []int
	}{
		{"text", [][]byte{text}, Shape{Context: 1000, Vocab: 256, Eval: 10}, 1, []int{0, 1047, 1048, 1049, 1886}},
		{"tokens", [][]byte{make([]byte, 2*ChunkSize)}, Shape{Context: 1000, Vocab: 256, Width: 16, Eval: 10}, 1, []int{0, 523, 524, 525}},
		{"mnist", big, Shape{Image: 32, Classes: 10, Eval: 10}, 2, []int{0, 1022, 1023, 1024, 1399}},
	} {
		m := newMemory(t, c.kind, c.files...)
		train, held, err := Open(t.Context(), &m.manifest, m, c.shape)
		if err != nil {
			t.Fatal(err)
		}
		crossed := false
		for _, s := range []Samples{train, held} {
			for _, i := range c.indices {
				if i >= s.Len() {
					if s.Chunks(i) != nil {
						t.Errorf("%s: chunks of sample %d of %d: %v", c.kind, i, s.Len(), s.Chunks(i))
					}
					continue
				}
				clear(m.asked)
				var b model.Batch
				if err := s.Read([]int{i}, &b); err != nil {
					t.Fatal(err)
				}
				got := s.Chunks(i)
				for chunk := range m.asked {
					if !slices.Contains(got, chunk) {
						t.Errorf("%s: sample %d needs chunk %d, which is not in %v", c.kind, i, chunk, got)
					}
				}
				if len(got) != len(m.asked) {
					t.Errorf("%s: sample %d needs %d chunks, not %v", c.kind, i, len(m.asked), got)
				}
				crossed = crossed || len(got) > c.parts
			}
		}
		if !crossed {
			t.Errorf("%s: no sample lies across two chunks", c.kind)
		}
		if train.Chunks(-1) != nil {
			t.Errorf("%s: sample -1 has chunks", c.kind)
		}
	}
}
