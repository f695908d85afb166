package buildwasm

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A packed peer is made once; what other builds have left goes.
func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dist")
	if err := clear(dir, "shoal-01.wasm"); err != nil {
		t.Fatal(err)
	}
	packs := 0
	p := Packer{".x", func(data []byte) ([]byte, error) {
		packs++
		return append([]byte("packed "), data...), nil
	}}
	file := filepath.Join(dir, "shoal-01.wasm.x")
	for range 2 {
		if n, err := p.into(file, []byte("peer")); n != len("packed peer") || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	if packs != 1 {
		t.Errorf("packed %d times", packs)
	}
	for _, name := range []string{"shoal-00.wasm.x", "shoal-01.wasm.x.part", "build.mjs", "README.md"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := clear(dir, "shoal-01.wasm"); err != nil {
		t.Fatal(err)
	}
	var left []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{"README.md", "shoal-01.wasm.x"}; !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
}

func TestGzip(t *testing.T) {
	data := make([]byte, 10000)
	z, err := Gzip(gzip.BestCompression).Pack(data)
	if err != nil || len(z) > 100 {
		t.Errorf("%d bytes, %v", len(z), err)
	}
	again, err := Gzip(gzip.BestCompression).Pack(data)
	if err != nil || !slices.Equal(z, again) {
		t.Errorf("packed again it differs (%v)", err)
	}
}
