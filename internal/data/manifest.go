package data

import (
	"context"
	"fmt"
	"slices"
)

// ChunkSize is the number of bytes in a chunk. Each file is cut into chunks of its own; its last one may be shorter.
const ChunkSize = 1 << 20

// Caps of a manifest, which may come from another peer.
const (
	MaxFileSize = 1 << 44 // bytes: 16 TiB
	MaxChunks   = 1 << 24 // of a data set
)

// ChunkSource gives the chunks of a data set: from files on this machine (Local), or from wherever others have them.
type ChunkSource interface {
	// Chunk is chunk i of the data set, numbered as Manifest says, after its hash was found right. The bytes stay the
	// source's: they are read only, and end with it. It may be called by several goroutines.
	Chunk(ctx context.Context, i int) ([]byte, error)
}

// File is one file of a data set, as every peer sees it: unpacked, and by the role that it plays.
type File struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // bytes
	Root Hash   `json:"root"` // Merkle root over the file's chunks
}

// Identity says which data set it is. Two peers train on the same samples if their identities are equal; where the files
// are and whether they are packed plays no part.
type Identity struct {
	Kind  string `json:"kind"` // "mnist", "text" or "tokens"
	Files []File `json:"files"`
}

// String is the identity as canonical text, part of the run id.
func (id Identity) String() string {
	var leaves []Hash
	for _, f := range id.Files {
		leaves = append(leaves, leaf(fmt.Appendf(nil, "%s %d %s", f.Name, f.Size, f.Root)))
	}
	return fmt.Sprintf("%s %s", id.Kind, merkleRoot(leaves))
}

// Compare tells the first way in which other is another data set than id, as a text for people; "" if it is not.
func (id Identity) Compare(other Identity) string {
	if id.Kind != other.Kind || len(id.Files) != len(other.Files) {
		return fmt.Sprintf("it is %.40s in %d files, not %.40s in %d", other.Kind, len(other.Files), id.Kind, len(id.Files))
	}
	for i, f := range id.Files {
		switch o := other.Files[i]; {
		case f.Size != o.Size:
			return fmt.Sprintf("%.40s has %d bytes, not %d", f.Name, o.Size, f.Size)
		case f != o:
			return fmt.Sprintf("%.40s has other contents: its root is %.16s..., not %.16s...", f.Name, o.Root, f.Root)
		}
	}
	return ""
}

// Manifest is a data set's identity with the hash of each chunk. Chunks are numbered from 0 through all files, in their
// order; a file of no bytes has none.
type Manifest struct {
	Identity
	Leaves []Hash `json:"leaves"`
}

// Chunks counts the chunks of the data set. It refuses an identity that is not that of any data set, or too large, and so
// comes first when one comes from another peer.
func (id Identity) Chunks() (int, error) {
	names := roles(id.Kind)
	if names == nil {
		return 0, fmt.Errorf("data: there is no kind %.40q of files", id.Kind)
	}
	total := 0
	for i, f := range id.Files {
		if i >= len(names) || f.Name != names[i] {
			return 0, fmt.Errorf("data: %s has no file %.40q at place %d", id.Kind, f.Name, i)
		}
		if f.Size < 0 || f.Size > MaxFileSize {
			return 0, fmt.Errorf("data: %s of %d bytes: at most %d are allowed", f.Name, f.Size, int64(MaxFileSize))
		}
		total += chunks(f.Size)
	}
	if len(id.Files) != len(names) {
		return 0, fmt.Errorf("data: %s has %d files, not %d", id.Kind, len(names), len(id.Files))
	}
	if total > MaxChunks {
		return 0, fmt.Errorf("data: %d chunks, at most %d are allowed", total, MaxChunks)
	}
	return total, nil
}

// Validate refuses a manifest whose hashes don't belong to its identity, or whose identity is none. It comes first when
// a manifest comes from another peer.
func (m *Manifest) Validate() error {
	total, err := m.Chunks()
	if err != nil {
		return err
	}
	if total != len(m.Leaves) {
		return fmt.Errorf("data: %d hashes for %d chunks", len(m.Leaves), total)
	}
	leaves := m.Leaves
	for _, f := range m.Files {
		n := chunks(f.Size)
		if merkleRoot(leaves[:n]) != f.Root {
			return fmt.Errorf("data: the hashes of %s don't give its root", f.Name)
		}
		leaves = leaves[n:]
	}
	return nil
}

// Verify says whether b is chunk i.
func (m *Manifest) Verify(i int, b []byte) bool {
	return i >= 0 && i < len(m.Leaves) && len(b) <= ChunkSize && leaf(b) == m.Leaves[i]
}

// Place tells where chunk i, one of len(Leaves), lies: n bytes at offset in a file.
func (m *Manifest) Place(i int) (file int, offset int64, n int) {
	for ; file < len(m.Files)-1 && i >= chunks(m.Files[file].Size); file++ {
		i -= chunks(m.Files[file].Size)
	}
	offset = int64(i) * ChunkSize
	return file, offset, int(min(ChunkSize, m.Files[file].Size-offset))
}

// chunkAt is the number of the chunk that has the byte at offset in a file.
func (m *Manifest) chunkAt(file int, offset int64) int {
	i := int(offset / ChunkSize)
	for _, f := range m.Files[:file] {
		i += chunks(f.Size)
	}
	return i
}

// chunks is the number of chunks that a file of size bytes has.
func chunks(size int64) int { return int((size + ChunkSize - 1) / ChunkSize) }

// roles are the names of the files that a data set of this kind has, nil if there is no such kind.
func roles(kind string) []string {
	switch kind {
	case "mnist":
		return slices.Clone(mnistFiles[:])
	case "text", "tokens":
		return []string{kind}
	}
	return nil
}
