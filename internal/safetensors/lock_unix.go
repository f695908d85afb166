//go:build linux || darwin || freebsd || netbsd || openbsd

package safetensors

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock marks f as being written, until it is closed or the process ends. Who looks whether it may be removed has it for a
// moment at most. A file system without locks is no reason not to write.
func lock(f *os.File) { unix.Flock(int(f.Fd()), unix.LOCK_EX) }

func removeIfFree(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil
	}
	return os.Remove(path)
}
