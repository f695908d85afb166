package peer

import (
	"errors"

	"golang.org/x/sys/windows"
)

// refused says whether a dial failed because nobody listens there, which the other machine has said.
func refused(err error) bool { return errors.Is(err, windows.WSAECONNREFUSED) }
