package main

import (
	"io"
	"os"
)

// defaultWidth is used where a terminal doesn't tell its width, and for tables in pipes.
const defaultWidth = 80

func knownWidth(reported int) int {
	if reported < 1 {
		return defaultWidth
	}
	return reported
}

// terminal is the width of the terminal behind w, or 0 if w is none.
func terminal(w io.Writer) int {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok || os.Getenv("TERM") == "dumb" {
		return 0
	}
	return columns(f.Fd())
}
