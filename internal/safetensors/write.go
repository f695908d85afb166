package safetensors

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
)

// Writer writes a safetensors file. Until Close there is only a temporary file beside it, named like it with ".part" and
// random letters behind. WriteAt may be called from any goroutine; Close and Abort once all WriteAt have returned.
type Writer struct {
	path, temp string
	f          *os.File
	data       int64 // where the data begins
	header     *header

	mu      sync.Mutex
	written []span // what is written of the data: ascending, with a gap between any two
	err     error  // the first one of a write
}

// span is bytes begin to end of the data.
type span struct{ begin, end int64 }

// Create begins a file with the given tensors and metadata (may be nil). An existing file at path stays until Close.
func Create(path string, tensors []Tensor, metadata map[string]string) (*Writer, error) {
	h, err := layOut(tensors, metadata)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", path, err)
	}
	head, err := h.encode()
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", path, err)
	}
	temp := path + partMark + rand.Text()
	f, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if lock(f); !there(temp) { // between the two, RemoveStale elsewhere took it for left behind
		f.Close()
		return nil, fmt.Errorf("safetensors: %s was removed by another process that writes here, try again", temp)
	}
	w := &Writer{path: path, temp: temp, f: f, data: int64(len(head)), header: h}
	if _, err = f.Write(head); err == nil {
		err = f.Truncate(w.data + h.size)
	}
	if err != nil {
		w.Abort()
		return nil, w.failed(err)
	}
	return w, nil
}

// WriteAt writes a tensor's elements from the given one on. p must be whole elements; it is the caller's again
// afterwards. What was written before may be written again.
func (w *Writer) WriteAt(name string, element int, p []byte) error {
	at, err := w.header.place(name, element, len(p))
	if err != nil {
		return fmt.Errorf("safetensors: write %s: %w", w.path, err)
	}
	if _, err = w.f.WriteAt(p, w.data+at); err != nil {
		err = w.failed(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.err = cmp.Or(w.err, err)
		return err
	}
	w.written = addSpan(w.written, span{at, at + int64(len(p))})
	return nil
}

// Close makes the file appear at path, on disk and whole. If a byte was not written, or a write has failed, it removes
// the temporary file and says so.
func (w *Writer) Close() error {
	if w.f == nil {
		return errors.New("safetensors: the file is closed already")
	}
	err := w.complete()
	if err == nil {
		if err = w.f.Sync(); err != nil {
			err = w.failed(err)
		}
	}
	if err != nil {
		w.Abort()
		return err
	}
	f := w.f
	w.f = nil
	if err = f.Close(); err == nil {
		err = os.Rename(w.temp, w.path)
	}
	if err != nil {
		os.Remove(w.temp)
		return w.failed(err)
	}
	return SyncFolder(filepath.Dir(w.path))
}

// Abort removes the temporary file. It does nothing after Close.
func (w *Writer) Abort() {
	if w.f == nil {
		return
	}
	w.f.Close()
	w.f = nil
	os.Remove(w.temp)
}

// complete says what is missing.
func (w *Writer) complete() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	var gap int64 // the first byte that was not written
	if len(w.written) > 0 && w.written[0].begin == 0 {
		gap = w.written[0].end
	}
	if gap == w.header.size {
		return nil
	}
	// The tensor in which the gap begins: the last one that begins there or before. Empty ones come before it.
	i, _ := slices.BinarySearch(w.header.begins, gap+1)
	t := w.header.tensors[i-1]
	return fmt.Errorf("safetensors: %s is not complete: tensor %.80q was not written from element %d on", w.path, t.Name,
		(gap-w.header.begins[i-1])/int64(t.DType.Size()))
}

// failed names the file and how much room it needs, which is what one wants to know when the disk is full.
func (w *Writer) failed(err error) error {
	return fmt.Errorf("safetensors: write %s (%d bytes in all): %w", w.path, w.data+w.header.size, err)
}

// addSpan adds s to spans and joins those that touch. It changes spans.
func addSpan(spans []span, s span) []span {
	if s.begin == s.end {
		return spans
	}
	first, _ := slices.BinarySearchFunc(spans, s.begin, func(x span, begin int64) int { return cmp.Compare(x.end, begin) })
	last := first
	for last < len(spans) && spans[last].begin <= s.end {
		s = span{min(s.begin, spans[last].begin), max(s.end, spans[last].end)}
		last++
	}
	return slices.Replace(spans, first, last, s)
}

// SyncFolder makes a rename in the folder last. Windows and browsers have no such call.
func SyncFolder(path string) error {
	if runtime.GOOS == "windows" || runtime.GOOS == "js" {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("safetensors: sync %s: %w", path, err)
	}
	return nil
}
