package safetensors

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

// File is a safetensors file that was checked. Its methods may be called from any goroutine.
type File struct {
	name   string
	r      io.ReaderAt
	close  func() error
	data   int64 // where the data begins
	header *header
}

// Open opens and checks the file at path.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("safetensors: %s is not a regular file", path)
	}
	var out *File
	if err == nil {
		out, err = newFile(path, f, info.Size())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	out.close = f.Close
	return out, nil
}

// NewFile checks the size bytes that r has. It never holds more memory than a small multiple of size.
func NewFile(r io.ReaderAt, size int64) (*File, error) { return newFile("file", r, size) }

func newFile(name string, r io.ReaderAt, size int64) (*File, error) {
	var length [lengthBytes]byte
	if size < lengthBytes {
		return nil, fmt.Errorf("safetensors: %s of %d bytes is too short to be one", name, size)
	}
	if err := readFull(r, length[:], 0); err != nil {
		return nil, fmt.Errorf("safetensors: read %s: %w", name, err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader || int64(n) > size-lengthBytes {
		return nil, fmt.Errorf("safetensors: %s is cut short or no safetensors file: it has %d bytes and says that its header has %d, at most %d",
			name, size, n, maxHeader)
	}
	text := make([]byte, n)
	if err := readFull(r, text, lengthBytes); err != nil {
		return nil, fmt.Errorf("safetensors: read %s: %w", name, err)
	}
	data := lengthBytes + int64(n)
	h, err := parseHeader(text, size-data)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", name, err)
	}
	return &File{name: name, r: r, data: data, header: h}, nil
}

// readFull fills p. Unlike ReadAt it takes an EOF behind p for no error.
func readFull(r io.ReaderAt, p []byte, at int64) error {
	n, err := r.ReadAt(p, at)
	switch {
	case n == len(p):
		return nil
	case err == nil || err == io.EOF:
		return io.ErrUnexpectedEOF // the file has become shorter
	}
	return err
}

// Tensors lists the tensors in the order of their data. The caller must not change the shapes.
func (f *File) Tensors() []Tensor { return slices.Clone(f.header.tensors) }

// Metadata is what the file's writer said about it. The map is the caller's.
func (f *File) Metadata() map[string]string { return maps.Clone(f.header.metadata) }

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.header.index[name]
	if !ok {
		return Tensor{}, false
	}
	return f.header.tensors[i], true
}

// ReadAt fills p with a tensor's elements from the given one on. p must be whole elements.
func (f *File) ReadAt(name string, element int, p []byte) error {
	at, err := f.header.place(name, element, len(p))
	if err == nil {
		err = readFull(f.r, p, f.data+at)
	}
	if err != nil {
		return fmt.Errorf("safetensors: read %s: %w", f.name, err)
	}
	return nil
}

// Close closes what Open has opened.
func (f *File) Close() error {
	if f.close == nil {
		return nil
	}
	return f.close()
}

// place is where n bytes of a tensor are in the data, from the given element on.
func (h *header) place(name string, element, n int) (int64, error) {
	i, ok := h.index[name]
	if !ok {
		return 0, fmt.Errorf("there is no tensor %.80q", name)
	}
	t := h.tensors[i]
	size := t.DType.Size()
	if n%size != 0 {
		return 0, fmt.Errorf("%d bytes are not whole elements of tensor %.80q, which is %s", n, name, t.DType)
	}
	if all := t.Elements(); element < 0 || element > all || n/size > all-element {
		return 0, fmt.Errorf("tensor %.80q of %d elements has no %d elements from %d on", name, all, n/size, element)
	}
	return h.begins[i] + int64(element)*int64(size), nil
}
