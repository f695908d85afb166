package peer

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsentBytes is how much may wait in a socket for the network to take it.
const unsentBytes = 128 << 10

// shortQueue has a socket take no more than what it can send soon: whatever is written next, as an acknowledgement or a
// heartbeat, waits for all that the socket has taken, which by itself becomes megabytes.
func shortQueue(c net.Conn) error {
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	if failed := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes)
	}); failed != nil {
		return failed
	}
	return err
}
