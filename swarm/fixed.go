package swarm

import (
	"context"
	"errors"
	"fmt"

	"shoal/swarm/codec"
)

// Fixed does a Node's collectives among members that are known from the start and never change, without a log: for
// measurements. What a Node learns from the log, its callers say: which attempt goes on, and that it is over.
type Fixed struct {
	x       *exchange
	members []uint64 // by rank
}

// NewFixed makes member rank of those that members name by rank, at least 2; run is a name that all of them give. Close ends
// it.
func NewFixed(t Transport, run string, rank int, members []Contact, packing codec.Packing) (*Fixed, error) {
	switch {
	case len(members) < 2:
		return nil, errors.New("swarm: collectives need at least 2 members")
	case rank < 0 || rank >= len(members):
		return nil, fmt.Errorf("swarm: rank %d of %d members", rank, len(members))
	}
	f := &Fixed{}
	for r := range members {
		f.members = append(f.members, uint64(r+1))
	}
	x, err := newExchange(exchangeConfig{Transport: t, Run: run, Self: f.members[rank], Packing: packing})
	if err != nil {
		return nil, err
	}
	f.x = x
	for r, m := range members {
		x.add(exchangeMember{ID: f.members[r], Peer: m.Peer, Addrs: m.Addrs})
	}
	return f, nil
}

// Begin enters an attempt, numbered from 1 and upwards, in which what arrives is given to sink; see Node.Begin.
func (f *Fixed) Begin(ctx context.Context, attempt uint64, sink Sink) (context.Context, error) {
	return f.x.begin(ctx, attempt, f.members, sink)
}

// AllGather is Node.AllGather.
func (f *Fixed) AllGather(ctx context.Context, tag uint32, width int, mine []byte, parts [][]byte) (wait, given func() error) {
	return f.x.allGather(ctx, tag, width, mine, nil, parts)
}

// Give is Node.Give.
func (f *Fixed) Give(ctx context.Context, kind Kind, tag uint32, parts [][]byte, count int) (wait func() error) {
	return f.x.give(ctx, kind, tag, parts, count)
}

// Close ends all streams and waits for what works here.
func (f *Fixed) Close() { f.x.close() }
