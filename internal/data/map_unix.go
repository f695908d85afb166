//go:build unix

package data

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a file of size bytes, at least 1, into memory.
func mapFile(f *os.File, size int64) (*inMemory, error) {
	if size > math.MaxInt {
		return nil, errors.ErrUnsupported
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &inMemory{bytes: b, unmap: unix.Munmap}, nil
}
