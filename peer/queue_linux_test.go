package peer

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A socket has been told how many bytes may wait in it; a connection that has none is left alone.
func TestShortQueue(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := shortQueue(c); err != nil {
		t.Fatal(err)
	}
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var limit int
	if failed := raw.Control(func(fd uintptr) { limit, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT) }); failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	if limit != unsentBytes {
		t.Errorf("%d bytes may wait, want %d", limit, unsentBytes)
	}
	if err := shortQueue(nil); err != nil {
		t.Errorf("of a connection without a socket: %v", err)
	}
}
