package data

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
)

// memory is a data set in memory, as a source of chunks like one that gets them from others.
type memory struct {
	manifest Manifest
	files    [][]byte
	asked    map[int]bool // chunks that were asked for
}

func newMemory(t testing.TB, kind string, files ...[]byte) *memory {
	t.Helper()
	m := &memory{manifest: Manifest{Identity: Identity{Kind: kind}}, files: files, asked: map[int]bool{}}
	for i, name := range roles(kind) {
		first := len(m.manifest.Leaves)
		for at := 0; at < len(files[i]); at += ChunkSize {
			m.manifest.Leaves = append(m.manifest.Leaves, leaf(files[i][at:min(len(files[i]), at+ChunkSize)]))
		}
		m.manifest.Files = append(m.manifest.Files,
			File{Name: name, Size: int64(len(files[i])), Root: merkleRoot(m.manifest.Leaves[first:])})
	}
	if err := m.manifest.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *memory) Chunk(_ context.Context, i int) ([]byte, error) {
	m.asked[i] = true
	file, offset, n := m.manifest.Place(i)
	b := m.files[file][offset : offset+int64(n)]
	if !m.manifest.Verify(i, b) {
		return nil, fmt.Errorf("chunk %d has another hash", i)
	}
	return b, nil
}

// open opens files in memory.
func open(t testing.TB, s Shape, kind string, files ...[]byte) (train, held Samples, err error) {
	t.Helper()
	m := newMemory(t, kind, files...)
	return Open(t.Context(), &m.manifest, m, s)
}

// idx is an idx file of bytes.
func idx(dims []int, elements []byte) []byte {
	b := []byte{0, 0, idxBytes, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
	}
	return append(b, elements...)
}

// pixels is n bytes that differ.
func pixels(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(mix(uint64(i)))
	}
	return b
}

// classLabels is n labels from 0 to 9.
func classLabels(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i % 10)
	}
	return b
}

// little is a small data set like MNIST: 30 images of 4 x 4 and 10 held out.
func little() [][]byte {
	return [][]byte{
		idx([]int{30, 4, 4}, pixels(30*16)), idx([]int{30}, classLabels(30)),
		idx([]int{10, 4, 4}, pixels(10*16)), idx([]int{10}, classLabels(10)),
	}
}

// ids is a file of token ids of width bytes.
func ids(width int, list ...int) []byte {
	var b []byte
	for _, id := range list {
		switch width {
		case 2:
			b = binary.LittleEndian.AppendUint16(b, uint16(id))
		default:
			b = binary.LittleEndian.AppendUint32(b, uint32(id))
		}
	}
	return b
}

// counting is 1, 2, ..., n.
func counting(n int) []int {
	list := upTo(n)
	for i := range list {
		list[i]++
	}
	return list
}
