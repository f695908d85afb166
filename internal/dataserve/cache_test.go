package dataserve

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/internal/data"
)

func TestMemory(t *testing.T) {
	m := newMemory(3, func(i int) bool { return i == 0 })
	for i := range 4 {
		m.put(i, []byte{byte(i)})
	}
	m.get(2)
	m.peek(3)
	m.put(4, []byte{4})
	m.put(4, []byte{5})
	for i, want := range []bool{true, false, true, false, true} { // 0 is kept, 3 was only peeked at
		if got := m.peek(i); (got != nil) != want || want && got[0] != byte(i) {
			t.Errorf("chunk %d: %v, want it to be there: %v", i, got, want)
		}
	}
	if len(m.cells) != 3 || m.order.Len() != 3 {
		t.Errorf("%d cells, %d in order", len(m.cells), m.order.Len())
	}
}

func hashOf(b []byte) data.Hash { return sha256.Sum256(b) }

func chunk(i byte) []byte { return bytes.Repeat([]byte{i}, 1000) }

// get reads chunk i as it should be.
func (d *disk) find(i byte) bool {
	b := d.get(hashOf(chunk(i)), 1000, func(b []byte) bool { return bytes.Equal(b, chunk(i)) })
	return b != nil
}

func TestDisk(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "b")
	d, err := openDisk(folder, 8000, discard)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(folder); err != nil || st.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		t.Errorf("%v, %v: others can read it", st.Mode(), err)
	}
	foreign, unfinished := filepath.Join(folder, "README"), filepath.Join(folder, "0123-4"+unmade)
	for _, path := range []string{foreign, unfinished} {
		if err := os.WriteFile(path, chunk(0), 0o600); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-2 * staleFile)
		os.Chtimes(path, old, old)
	}
	old := time.Now().Add(-time.Hour)
	for i := range byte(8) {
		d.put(hashOf(chunk(i)), chunk(i))
		at := old.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(d.path(hashOf(chunk(i))), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if !d.find(0) || !d.find(7) || d.find(8) { // 0 was used last now
		t.Error("chunks are missing")
	}
	d.put(hashOf(chunk(8)), chunk(8)) // too much: the oldest go
	for i, want := range []bool{true, false, false, true, true, true, true, true, true} {
		if got := d.find(byte(i)); got != want {
			t.Errorf("chunk %d is there: %v, want %v", i, got, want)
		}
	}
	if d.size != 7000 {
		t.Errorf("%d bytes, want 7000", d.size)
	}
	if _, err := os.Stat(unfinished); err == nil {
		t.Error("a file that was never finished is still there")
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error("a file of somebody else is gone")
	}

	// Damaged files are found out and removed, short and long ones too.
	for i, damaged := range [][]byte{chunk(9), chunk(3)[:999], nil} {
		path := d.path(hashOf(chunk(byte(3 + i))))
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if d.find(byte(3 + i)) {
			t.Errorf("damaged chunk %d was given", 3+i)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("damaged chunk %d is still there", 3+i)
		}
		d.put(hashOf(chunk(byte(3+i))), chunk(byte(3+i)))
		if !d.find(byte(3 + i)) {
			t.Errorf("chunk %d was not written again", 3+i)
		}
	}

	// Another process finds what is there.
	other, err := openDisk(folder, 8000, discard)
	if err != nil {
		t.Fatal(err)
	}
	if !other.find(3) || !other.has(hashOf(chunk(8))) || other.has(hashOf(chunk(1))) {
		t.Error("another process finds other chunks")
	}
	var none *disk
	none.put(hashOf(chunk(1)), chunk(1))
	if none.find(1) {
		t.Error("no folder has a chunk")
	}
}

func TestDiskThatFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openDisk(file, 1000, discard); err == nil || !strings.HasPrefix(err.Error(), "cache: ") {
		t.Errorf("a file as the folder: %v", err)
	}
	folder := filepath.Join(t.TempDir(), "gone")
	d, err := openDisk(folder, 8000, discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	d.put(hashOf(chunk(1)), chunk(1))
	if !d.broken || d.find(1) {
		t.Errorf("a folder that is gone: broken is %v", d.broken)
	}
}

// What one fetcher has put on disk, the next one has without asking for it; what is no chunk there is fetched.
func TestFetchFromDisk(t *testing.T) {
	var n network
	l := text(t, 4)
	st := &store{ChunkSource: l}
	n.serve(t, "creator", l.Manifest(), st)
	cfg := n.config("a", "creator")
	cfg.Folder = t.TempDir()
	first := fetcher(t, cfg, l)
	for i := range 4 {
		same(t, first, l, i)
	}
	first.Close()
	path := filepath.Join(cfg.Folder, l.Manifest().Leaves[2].String())
	if err := os.WriteFile(path, make([]byte, data.ChunkSize), 0o600); err != nil {
		t.Fatal(err)
	}
	second := fetcher(t, cfg, l)
	if h := second.Held(); !h.Has(3) || h.Has(4) {
		t.Error("the second fetcher holds other chunks than the first one has fetched")
	}
	for i := range 4 {
		same(t, second, l, i)
	}
	if got := st.count.Load(); got != 5 {
		t.Errorf("%d chunks were fetched, want 4 and the damaged one", got)
	}
}
