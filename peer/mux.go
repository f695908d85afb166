package peer

import (
	"io"
	"net"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	goyamux "github.com/libp2p/go-yamux/v5"
)

const (
	// muxMessage is the most that one frame carries. yamux queues up to 64 frames per connection ahead of a heartbeat,
	// and they are memory. Larger frames were no faster once their records leave together (coalesce.go).
	muxMessage = 64 << 10

	initialWindow = 1 << 20  // bytes that a stream may send before its reader has read; from the first update on
	maxWindow     = 32 << 20 // bytes: 1 Gbit/s at 100 ms
	fastPath      = 1e9 / 8  // bytes a second that a path is trusted to carry

	muxBacklog = 64 // streams that wait to be accepted
)

// newMuxer is yamux, tuned for few streams that carry much.
func newMuxer() *yamux.Transport {
	c := goyamux.DefaultConfig()
	c.LogOutput = io.Discard
	c.ReadBufSize = 0 // the security layer below buffers
	c.MaxMessageSize = muxMessage
	c.InitialStreamWindowSize = initialWindow
	c.MaxStreamWindowSize = maxWindow
	c.AcceptBacklog = muxBacklog
	c.MaxIncomingStreams = streamsPerPeer
	return (*yamux.Transport)(c)
}

// [Note: windows]
//
// yamux grants new bytes when half a window has been read. So a stream is never held up if in the time of a round trip, and
// some more, no more than half a window can arrive. yamux makes windows larger as they are used, but (v5.1.0) forgets to
// grant what was read until then: a stream whose window has grown from 1 to 32 MiB may send 16, then waits for a round trip,
// and fills 60% of a path of 100 ms and 1 Gbit/s. So windows are made for the path when a connection begins, by the
// round trip that the handshake has seen, and stay as they are. Where nothing was seen yamux does as it likes.

// pathMuxer is newMuxer with windows for the path of each connection.
type pathMuxer struct{}

var _ network.Multiplexer = pathMuxer{}

func (pathMuxer) NewConn(c net.Conn, server bool, scope network.PeerScope) (network.MuxedConn, error) {
	m := newMuxer()
	b, ok := c.(*batchedSecureConn)
	if !ok {
		return m.NewConn(c, server, scope)
	}
	if b.raw.roundTrip > 0 {
		m.InitialStreamWindowSize = windowFor(b.raw.roundTrip)
		m.MaxStreamWindowSize = m.InitialStreamWindowSize
		m.MaxIncomingStreams = streamsWith(m.InitialStreamWindowSize)
	}
	conn, err := m.NewConn(c, server, scope)
	if err != nil {
		return nil, err
	}
	return &pathConn{conn, b.raw}, nil
}

// pathConn is a connection that knows its socket.
type pathConn struct {
	network.MuxedConn
	raw *batchConn
}

func (c *pathConn) As(target any) bool {
	if raw, ok := target.(**batchConn); ok {
		*raw = c.raw
		return true
	}
	return c.MuxedConn.As(target)
}

// windowFor is the window in bytes for a path with that round trip, see [Note: windows].
func windowFor(roundTrip time.Duration) uint32 {
	const spare = 1.3 // for readers that are late
	return uint32(max(initialWindow, min(maxWindow, 2*spare*fastPath*roundTrip.Seconds())))
}

// streamsWith is how many streams of such windows, in bytes, the other end of a connection may have open at a time: more than a
// member needs, at any rate. It bounds what a stranger can have us buffer.
func streamsWith(window uint32) uint32 {
	const enough = 32
	return max(enough, min(streamsPerPeer, 2*memoryPerPeer/window))
}
