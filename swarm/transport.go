package swarm

import (
	"context"
	"errors"
	"net"
)

// ErrRefused is wrapped by what Open returns when a peer's machine answers that nobody listens there any more, at any
// address at which the peer was reached before: its process has ended. It must not be returned on a guess, since for
// members it is death at once (PROTOCOL.md 13).
var ErrRefused = errors.New("swarm: connection refused")

// ErrNoRun is wrapped by what Open returns when a peer has no handler for the protocol: it is in no run, or not yet again, or
// speaks another version.
var ErrNoRun = errors.New("swarm: the peer is in no run of this version")

// Transport is what swarm needs from the network; peer.Host is one. Streams are net.Conns with working deadlines.
// Closing one tears down both directions at once. A peer is named by its libp2p peer id in text form.
type Transport interface {
	// Self is the own peer id, Addrs the addresses under which others may dial this peer (multiaddrs as text).
	Self() string
	Addrs() []string
	// Open dials peer (at addrs and at addresses known from before) and opens a stream for protocol. See ErrRefused, ErrNoRun.
	Open(ctx context.Context, peer string, addrs []string, protocol string) (net.Conn, error)
	// Drop gives up the connection to peer, if there is one: its streams end here, whether or not the other side learns of
	// it, and Open dials anew.
	Drop(peer string)
	// Handle has f called, in a goroutine of its own, for each incoming stream of protocol; f owns the stream. A nil
	// f removes the handler.
	Handle(protocol string, f func(peer string, stream net.Conn))
}
