package data

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync"
)

// A view is the bytes of an open file. The offset and length of a chunk lie inside the file.
type view interface {
	chunk(offset int64, n int) ([]byte, error)
	forget() // the file may have changed: nothing read before counts
	close() error
}

// inMemory is a file that lies in memory: unpacked, or mapped.
type inMemory struct {
	bytes []byte
	unmap func([]byte) error // nil unless mapped
}

func (v *inMemory) chunk(offset int64, n int) ([]byte, error) {
	return v.bytes[offset : offset+int64(n)], nil
}

func (v *inMemory) forget() {}

func (v *inMemory) close() error {
	if v.unmap == nil {
		return nil
	}
	return v.unmap(v.bytes)
}

// onDisk reads chunks when they are wanted, where files cannot be mapped, and keeps the latest.
type onDisk struct {
	f *os.File

	mu   sync.Mutex
	kept map[int64][]byte // by offset
}

// maxKept is the number of chunks that onDisk keeps.
const maxKept = 64

func (v *onDisk) chunk(offset int64, n int) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if b := v.kept[offset]; b != nil {
		return b, nil
	}
	b := make([]byte, n)
	if _, err := v.f.ReadAt(b, offset); err != nil {
		return nil, err
	}
	if len(v.kept) >= maxKept {
		for any := range v.kept {
			delete(v.kept, any)
			break
		}
	}
	if v.kept == nil {
		v.kept = map[int64][]byte{}
	}
	v.kept[offset] = b
	return b, nil
}

func (v *onDisk) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.kept)
}

func (v *onDisk) close() error { return nil }

// guarded calls f, which reads mapped memory. A file that another program cuts short takes its pages away: the fault that
// reading them causes becomes an error.
func guarded(f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			err = fmt.Errorf("its bytes are gone: %w", ErrChanged)
		default:
			panic(r)
		}
	}()
	f()
	return nil
}
