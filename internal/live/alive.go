//go:build !windows

package live

import (
	"errors"
	"os"
	"syscall"
)

// alive says whether there is a process with this id, whosever it is.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer p.Release()
	return !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
