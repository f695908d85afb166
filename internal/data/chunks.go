package data

import (
	"context"
	"fmt"
)

// Chunks are those of an image and of its label; none if there is no such image.
func (m *images) Chunks(i int) []int {
	if i < 0 || i >= m.count {
		return nil
	}
	size := int64(m.width * m.width)
	list := m.manifest.span(nil, m.files[0], int64(idxHeader(3))+int64(i)*size, size)
	return m.manifest.span(list, m.files[1], int64(idxHeader(1))+int64(i), 1)
}

// Chunks are those of a sample's tokens and of the one after them; none if there is no such sample.
func (t *tokens) Chunks(i int) []int {
	if i < 0 || i >= t.Len() {
		return nil
	}
	at := int64(i) * int64(t.context)
	have := min(t.count-at, int64(t.context)+1)
	return t.manifest.span(nil, 0, (t.first+at)*int64(t.width), have*int64(t.width))
}

// span appends the numbers of the chunks that have the n bytes at offset of a file.
func (m *Manifest) span(list []int, file int, offset, n int64) []int {
	if n <= 0 {
		return list
	}
	for i := m.chunkAt(file, offset); i <= m.chunkAt(file, offset+n-1); i++ {
		list = append(list, i)
	}
	return list
}

// CopyChunk copies chunk i, which src gives, to dst and returns its length. Unlike the bytes that a source gives, those in
// dst outlive a file that another program cuts short.
func CopyChunk(ctx context.Context, src ChunkSource, i int, dst []byte) (n int, err error) {
	b, err := src.Chunk(ctx, i)
	if err != nil {
		return 0, err
	}
	if err := guarded(func() { n = copy(dst, b) }); err != nil {
		return 0, fmt.Errorf("data: chunk %d: %w", i, err)
	}
	return n, nil
}
