package main

import (
	"errors"

	"golang.org/x/sys/windows"
)

func brokenPipe(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA)
}

// columns is the width of the terminal that fd is, or 0 if it is none.
func columns(fd uintptr) int {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(fd), &info) != nil {
		return 0
	}
	return knownWidth(int(info.Window.Right-info.Window.Left) + 1)
}
