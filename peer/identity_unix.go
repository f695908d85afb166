//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package peer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile locks f until it is closed, in whatever way the process ends.
func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return ErrIdentityInUse
	case errors.Is(err, unix.ENOLCK), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
		return nil // some network file systems can't lock
	case err != nil:
		return fmt.Errorf("lock: %w", err)
	}
	return nil
}

func checkPrivate(info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("others may read or change it (mode %04o): chmod 600 it", mode)
	}
	return nil
}

// syncDir makes a new file's name survive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) { // some file systems can't
		return err
	}
	return nil
}
