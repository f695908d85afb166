// Package dataserve brings the chunks of a data set to peers that don't have its files, from those that have them or have
// fetched them.
//
// A Fetcher is a data.ChunkSource: it asks other members for chunks, tries another one when one fails, checks each chunk
// against the run's Merkle root, and keeps what it has in memory and in a folder on disk. What will be needed next is
// fetched ahead, in the order in which training will need it. A Server gives chunks to others: those of files on this
// machine, or those that a Fetcher has so far.
//
// Nobody has to be trusted for the content: a chunk with another hash is thrown away, and whoever sent it is asked no
// more. Chunks are given only to those who know the run's secret.
package dataserve

import (
	"context"
	"net"
)

// Transport is what this package needs from the network; see swarm.Transport.
type Transport interface {
	Open(ctx context.Context, peer string, addrs []string, protocol string) (net.Conn, error)
	Handle(protocol string, f func(peer string, stream net.Conn))
}

// Peer is another member and where it can be dialled.
type Peer struct {
	ID    string
	Addrs []string
}

// Stats counts bytes on streams of this package.
type Stats struct{ Sent, Received int64 }
