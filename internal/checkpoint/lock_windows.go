package checkpoint

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// lock locks f at once, shared or exclusive, until it is closed in whatever way, or returns errLocked. Windows' locks are
// mandatory, so it takes a byte far behind the content; and one must let go of a lock to have the other.
func lock(f *os.File, exclusive bool) error {
	at := &windows.Overlapped{OffsetHigh: 1}
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	_ = windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, at) // there may be none
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLocked
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}
