package main

import (
	"errors"
	"os"
)

// errReaderGone is the error of writing to a pipe that nobody reads any more. Who wants no more output is not told that
// there is none.
var errReaderGone = errors.New("nobody reads the output any more")

// pipe is one of the process's streams.
type pipe struct{ *os.File }

func (p pipe) Write(b []byte) (int, error) {
	n, err := p.File.Write(b)
	if err != nil && brokenPipe(err) {
		return n, errReaderGone
	}
	return n, err
}

// unlessGone is err, but nil if nobody reads the output any more.
func unlessGone(err error) error {
	if errors.Is(err, errReaderGone) {
		return nil
	}
	return err
}
