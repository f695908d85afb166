package peer

import (
	"crypto/rand"
	"flag"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
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

// roomyUpgrader is what a transport is tested with, nothing above it: Noise and a roomyMuxer, under a new key.
func roomyUpgrader(t *testing.T) (crypto.PrivKey, peer.ID, *noise.Transport, transport.Upgrader) {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: roomyMuxer()}}
	security, err := noise.New(noise.ID, key, muxers)
	if err != nil {
		t.Fatal(err)
	}
	up, err := upgrader.New([]sec.SecureTransport{security}, muxers, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return key, id, security, up
}
