package data

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestManifestPlaces(t *testing.T) {
	m := newMemory(t, "mnist", make([]byte, 2*ChunkSize), nil, make([]byte, ChunkSize+1), make([]byte, 1)).manifest
	want := []struct {
		file   int
		offset int64
		n      int
	}{{0, 0, ChunkSize}, {0, ChunkSize, ChunkSize}, {2, 0, ChunkSize}, {2, ChunkSize, 1}, {3, 0, 1}}
	if len(m.Leaves) != len(want) {
		t.Fatalf("%d chunks, want %d", len(m.Leaves), len(want))
	}
	for i, w := range want {
		if file, offset, n := m.Place(i); file != w.file || offset != w.offset || n != w.n {
			t.Errorf("chunk %d is %d bytes at %d of file %d, want %d at %d of %d", i, n, offset, file, w.n, w.offset, w.file)
		}
		if got := m.chunkAt(w.file, w.offset+int64(w.n)-1); got != i {
			t.Errorf("the last byte of chunk %d lies in chunk %d", i, got)
		}
	}
}

func TestManifestRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(m *Manifest)
		want   string
	}{
		{"kind", func(m *Manifest) { m.Kind = "images" }, `no kind "images"`},
		{"no file", func(m *Manifest) { m.Files = nil }, "has 1 files, not 0"},
		{"one file more", func(m *Manifest) { m.Files = append(m.Files, m.Files[0]) }, `no file "text" at place 1`},
		{"name", func(m *Manifest) { m.Files[0].Name = "../x" }, `no file "../x"`},
		{"negative size", func(m *Manifest) { m.Files[0].Size = -1 }, "-1 bytes"},
		{"huge size", func(m *Manifest) { m.Files[0].Size = MaxFileSize + 1 }, "at most"},
		{"size of no such chunks", func(m *Manifest) { m.Files[0].Size = MaxFileSize }, "2 hashes for 16777216 chunks"},
		{"hash missing", func(m *Manifest) { m.Leaves = m.Leaves[:1] }, "1 hashes for 2 chunks"},
		{"wrong hash", func(m *Manifest) { m.Leaves[1][3]++ }, "don't give its root"},
		{"wrong root", func(m *Manifest) { m.Files[0].Root[3]++ }, "don't give its root"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMemory(t, "text", make([]byte, ChunkSize+1)).manifest
			c.change(&m)
			if err := m.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	a := newMemory(t, "mnist", little()...).manifest.Identity
	if differs := a.Compare(a); differs != "" {
		t.Errorf("differs from itself: %s", differs)
	}
	const want = "mnist f40a5a20dc4b6f8b41740f8937f3c6021aba8f65055646760ae4d40d1b7ecee0"
	if a.String() != want {
		t.Errorf("identity is %s, want %s", a, want)
	}
	var again Identity
	if b, err := json.Marshal(a); err != nil || json.Unmarshal(b, &again) != nil || again.Compare(a) != "" || again.String() != want {
		t.Errorf("reads back from %s as %v, %v", b, again, err)
	}
	longer, other := little(), little()
	longer[1] = append(longer[1], 0)
	other[2][100]++
	swapped := little()
	swapped[0], swapped[2] = swapped[2], swapped[0]
	for _, c := range []struct {
		kind  string
		files [][]byte
		want  string
	}{
		{"text", [][]byte{{1}}, "it is text in 1 files, not mnist in 4"},
		{"mnist", longer, "train-labels-idx1-ubyte has 39 bytes, not 38"},
		{"mnist", other, "t10k-images-idx3-ubyte has other contents"},
		{"mnist", swapped, "train-images-idx3-ubyte has 176 bytes, not 496"},
	} {
		b := newMemory(t, c.kind, c.files...).manifest.Identity
		if got := a.Compare(b); !strings.Contains(got, c.want) {
			t.Errorf("differs by %q, want %q", got, c.want)
		}
		if a.String() == b.String() {
			t.Errorf("%q: both are %s", c.want, a)
		}
	}
}

// A manifest may come from another peer, as JSON or in another form.
func FuzzManifest(f *testing.F) {
	for _, m := range []Manifest{newMemory(f, "text", []byte("abc")).manifest, newMemory(f, "mnist", little()...).manifest} {
		b, err := json.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"kind":"tokens","files":[{"name":"tokens","size":17592186044416}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Manifest
		if json.Unmarshal(b, &m) != nil || m.Validate() != nil {
			return
		}
		for i := range m.Leaves {
			file, offset, n := m.Place(i)
			if n < 1 || n > ChunkSize || offset+int64(n) > m.Files[file].Size || m.chunkAt(file, offset) != i {
				t.Fatalf("chunk %d is %d bytes at %d of file %d", i, n, offset, file)
			}
		}
		if differs := m.Compare(m.Identity); differs != "" {
			t.Fatalf("differs from itself: %s", differs)
		}
	})
}
