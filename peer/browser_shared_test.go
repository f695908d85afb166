package peer

import (
	"flag"

	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
)

// long runs what takes minutes.
var long = flag.Bool("long", false, "ten times 64 MiB each way between a browser and a daemon, and what memory that takes")

const (
	sumProto  = "/shoal/test/sum/1"
	sendProto = "/shoal/test/send/1"
	doProto   = "/shoal/test/do/1"
)

// roomyMuxer has room for as many streams as the tests of transports open at once; a Host has not.
func roomyMuxer() *yamux.Transport {
	m := newMuxer()
	m.MaxIncomingStreams = 4096
	m.AcceptBacklog = 1024
	return m
}
