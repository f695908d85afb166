//go:build unix

package main

import (
	"errors"

	"golang.org/x/sys/unix"
)

func brokenPipe(err error) bool { return errors.Is(err, unix.EPIPE) }

// columns is the width of the terminal that fd is, or 0 if it is none.
func columns(fd uintptr) int {
	size, err := unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return knownWidth(int(size.Col))
}
