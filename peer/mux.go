package peer

import (
	"io"

	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	goyamux "github.com/libp2p/go-yamux/v5"
)

const (
	// muxMessage is the most that one frame carries. yamux queues up to 64 frames per connection ahead of a heartbeat,
	// and they are memory. Larger frames were no faster once their records leave together (coalesce.go).
	muxMessage = 64 << 10

	initialWindow = 1 << 20  // bytes that a stream may send before its reader has read; from the first update on
	maxWindow     = 32 << 20 // grows to this while the reader keeps up: 1 Gbit/s at 250 ms

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
