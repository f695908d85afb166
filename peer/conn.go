package peer

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// [Note: closing a stream]
//
// A libp2p stream can be reset, which also throws away what was written but not yet read at the other end; or closed,
// which leaves the other end writing into the void for ever. Close wants neither: the reader over there shall get all
// that was written before and then EOF, and the writer over there shall fail. So Close says EOF, lets go of the caller
// at once, and hands the stream to the Host, which throws away what still comes and resets the stream when the other
// end has closed as well, or after closeLinger. Close of the Host waits for these (else the last words of a run would be
// lost: libp2p's TCP connections are reset when they close, without sending what the kernel still holds).

// closeLinger is how long the other end of a closed stream has to read what is left and close its side.
const closeLinger = 2 * time.Second

// streamConn is a libp2p stream as a net.Conn.
type streamConn struct {
	s      network.Stream
	host   *Host
	closed atomic.Bool
	use    sync.RWMutex // read-locked by Read and Write; linger waits for them to leave
}

var _ net.Conn = (*streamConn)(nil)

func (c *streamConn) Read(p []byte) (int, error) {
	c.use.RLock()
	defer c.use.RUnlock()
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := c.s.Read(p)
	return n, c.explain("read from", err)
}

func (c *streamConn) Write(p []byte) (int, error) {
	c.use.RLock()
	defer c.use.RUnlock()
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := c.s.Write(p)
	return n, c.explain("write to", err)
}

// Close ends both directions at once; see [Note: closing a stream]. It never blocks.
func (c *streamConn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	c.s.SetDeadline(time.Unix(1, 0)) // wakes those who are reading or writing
	c.host.linger(c)
	return nil
}

// CloseWrite tells the other end that nothing more will come; reading goes on.
func (c *streamConn) CloseWrite() error {
	if c.closed.Load() {
		return net.ErrClosed
	}
	return c.explain("write to", c.s.CloseWrite())
}

func (c *streamConn) SetDeadline(t time.Time) error      { return c.set(c.s.SetDeadline, t) }
func (c *streamConn) SetReadDeadline(t time.Time) error  { return c.set(c.s.SetReadDeadline, t) }
func (c *streamConn) SetWriteDeadline(t time.Time) error { return c.set(c.s.SetWriteDeadline, t) }

func (c *streamConn) set(f func(time.Time) error, t time.Time) error {
	if c.closed.Load() {
		return net.ErrClosed
	}
	return f(t)
}

func (c *streamConn) LocalAddr() net.Addr {
	return streamAddr(c.s.Conn().LocalMultiaddr().String() + "/p2p/" + c.s.Conn().LocalPeer().String())
}

func (c *streamConn) RemoteAddr() net.Addr {
	return streamAddr(c.s.Conn().RemoteMultiaddr().String() + "/p2p/" + c.s.Conn().RemotePeer().String())
}

// Carried is how many bytes the connection below has given to its socket, for all its streams, and how long the socket took to take
// them: a Write returns as soon as the muxer has room. Both are 0 where there is no socket, as in browsers and over QUIC.
func (c *streamConn) Carried() (bytes int64, busy time.Duration) {
	var raw *batchConn
	if !c.s.Conn().As(&raw) {
		return 0, 0
	}
	return raw.bytes.Load(), time.Duration(raw.busy.Load())
}

// explain turns libp2p's errors into those that callers of a net.Conn know.
func (c *streamConn) explain(what string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if c.closed.Load() {
		return net.ErrClosed
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return os.ErrDeadlineExceeded
	}
	return fmt.Errorf("%s peer %s: %w", what, short(c.s.Conn().RemotePeer()), singleLine{err})
}

// streamAddr is a multiaddr with the peer id at its end.
type streamAddr string

func (streamAddr) Network() string  { return "libp2p" }
func (a streamAddr) String() string { return string(a) }

// linger takes over a stream that its user has closed.
func (h *Host) linger(c *streamConn) {
	if !h.begin(&h.lingering) {
		c.s.Reset()
		return
	}
	go func() {
		defer h.lingering.Done()
		c.use.Lock()
		defer c.use.Unlock()
		c.s.SetDeadline(time.Now().Add(closeLinger))
		c.s.CloseWrite()
		if _, err := io.Copy(io.Discard, c.s); err == nil {
			c.s.Close() // the other end is done too
		} else {
			c.s.Reset()
		}
	}()
}
