package data

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// openFile opens the file at path. With unpack, one that gzip has packed is unpacked into memory, whatever its name.
func openFile(path string, unpack bool) (_ *localFile, err error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() { // opening a pipe could take forever
		return nil, fmt.Errorf("%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	l := &localFile{path: path, f: f}
	defer func() {
		if err != nil || l.f == nil {
			f.Close()
		}
	}()
	if st, err = f.Stat(); err != nil {
		return nil, err
	}
	l.size, l.time = st.Size(), st.ModTime()
	if unpack && packed(f) {
		b, err := gunzip(io.NewSectionReader(f, 0, l.size), l.size)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		l.view, l.f, l.size = &inMemory{bytes: b}, nil, int64(len(b))
		return l, nil
	}
	l.view = openView(f, l.size)
	return l, nil
}

// openView maps the file, or reads it piece by piece where that does not work.
func openView(f *os.File, size int64) view {
	if size == 0 {
		return &inMemory{}
	}
	if v, err := mapFile(f, size); err == nil {
		return v
	}
	return &onDisk{f: f}
}

// packed tells gzip's first bytes, with which no idx file begins.
func packed(f io.ReaderAt) bool {
	var b [2]byte
	n, _ := f.ReadAt(b[:], 0)
	return n == 2 && b == [2]byte{0x1f, 0x8b}
}

// maxUnpacked is the most bytes that a packed file may have. Larger ones must be unpacked on disk.
const maxUnpacked = 1 << 30

// gunzip unpacks f, which has size bytes.
func gunzip(f io.ReaderAt, size int64) ([]byte, error) {
	z, err := gzip.NewReader(io.NewSectionReader(f, 0, size))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	// The last 4 bytes claim what it unpacks to. Believe them as far as deflate can go, 1032 bytes for one.
	var claim [4]byte
	if _, err := f.ReadAt(claim[:], max(0, size-4)); err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	var b bytes.Buffer
	b.Grow(int(min(int64(binary.LittleEndian.Uint32(claim[:])), 1032*size, maxUnpacked)) + bytes.MinRead)
	if _, err := b.ReadFrom(io.LimitReader(z, maxUnpacked+1)); err != nil {
		return nil, fmt.Errorf("gzip: damaged after %d unpacked bytes: %w", b.Len(), err)
	}
	if b.Len() > maxUnpacked {
		return nil, fmt.Errorf("gzip: unpacks to more than %d bytes, unpack it on disk", maxUnpacked)
	}
	return b.Bytes(), nil
}
