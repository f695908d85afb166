//go:build !js && !windows

package peer

import (
	"errors"
	"syscall"
)

// refused says whether a dial failed because nobody listens there, which the other machine has said.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
