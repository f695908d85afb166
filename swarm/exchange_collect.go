package swarm

import (
	"context"
	"fmt"
	"sync"
	"time"

	"shoal/swarm/codec"
	"shoal/swarm/wire"
)

// collective is what a caller may wait for. The exchange's lock guards it.
type collective interface {
	left() int        // members of whom something is missing
	lacks(r int) bool // whether rank r is one of them
}

// gather is an all-gather that this member has posted.
type gather struct {
	width   int
	parts   [][]byte // by source
	got     []uint64 // bytes that have arrived, by source
	missing int      // sources whose part is not whole
}

func (g *gather) left() int        { return g.missing }
func (g *gather) lacks(r int) bool { return g.got[r] < uint64(len(g.parts[r])) }

// sumKey names what a source gives.
type sumKey struct {
	kind wire.Kind
	tag  uint32
}

// summand is what has arrived of one thing that a source gives. The exchange's lock guards it.
type summand struct {
	part, got uint64 // bytes
	count     uint32 // microbatches
}

// piece is one part on its way to one member. It refers to the caller's memory.
type piece struct {
	attempt *attempt
	rank    int         // of the receiver
	head    wire.Header // without offset and lengths of a chunk
	data    []byte
	width   int
	packed  *packedChunks // all-gather: shared by the pieces for all members
	sum     *scatter      // who waits for its acknowledgement
	written bool          // all of it, on the current stream; the exchange's lock guards it
}

// scatter knows which pieces of a collective were not acknowledged.
type scatter struct {
	n    int
	owed []bool // by rank
}

func (s *scatter) left() int        { return s.n }
func (s *scatter) lacks(r int) bool { return s.owed[r] }

func (s *scatter) settle(r int) { s.n, s.owed[r] = s.n-1, false }

// post queues a piece for its rank. The lock is held.
func (s *scatter) post(p *piece) {
	s.n, s.owed[p.rank] = s.n+1, true
	p.sum = s
	p.attempt.links[p.rank].out[p.head.Kind.Class()-wire.Params].put(p)
}

// packedChunks keeps the packed form of what a member gives in an all-gather, so that it is made once for all peers. It
// lives as long as a piece that refers to it.
type packedChunks struct {
	mu     sync.Mutex
	chunks []packedChunk
}

type packedChunk struct {
	bytes []byte // nil: not made yet
	took  time.Duration
}

// get packs chunk i, whose tensor bytes are raw, unless that was done before. The result is only read.
func (p *packedChunks) get(i int, raw []byte, width int) (packedChunk, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.chunks[i]
	if c.bytes == nil {
		start := time.Now()
		b, err := codec.Pack(make([]byte, 0, codec.MaxPacked(len(raw), width)), raw, width)
		if err != nil {
			return packedChunk{}, err
		}
		*c = packedChunk{bytes: b, took: time.Since(start)}
	}
	return *c, nil
}

// failed is the wait of a collective that could not begin.
func failed(err error) func() error { return func() error { return err } }

// posting returns the attempt to post a collective in. The lock is held.
func (x *exchange) posting(what string, parts [][]byte) (*attempt, error) {
	switch {
	case x.closed:
		return nil, fmt.Errorf("%s: %w", what, ErrClosed)
	case x.now == nil:
		return nil, fmt.Errorf("swarm: %s before the first attempt has begun", what)
	case x.now.err != nil:
		return nil, fmt.Errorf("%s of attempt %d: %w", what, x.now.fence, x.now.err)
	case len(parts) != len(x.now.links):
		return nil, fmt.Errorf("swarm: %s with %d parts among %d members", what, len(parts), len(x.now.links))
	}
	return x.now, nil
}

// allGather gives mine to every other member r that takes[r] (nil: to all) and fills parts[r] with what member r gave, for each r but
// the own rank. Lengths are in bytes and any may be 0; width is the size of one element. tag names the collective inside
// its attempt; every member posts the same tags and takes in the same order. It returns at once; wait blocks until all
// parts are here, which belong to the exchange until then; given blocks until all others that take have mine, which must
// stay unchanged until then. An error of either means that the attempt has ended.
func (x *exchange) allGather(ctx context.Context, tag uint32, width int, mine []byte, takes []bool, parts [][]byte) (wait, given func() error) {
	what := fmt.Sprintf("all-gather %d", tag)
	x.mu.Lock()
	defer x.mu.Unlock()
	a, err := x.posting(what, parts)
	if err == nil && takes != nil && len(takes) != len(parts) {
		err = fmt.Errorf("swarm: %s taken by some of %d members, of %d", what, len(takes), len(parts))
	}
	if err == nil && a.gathers[tag] != nil {
		err = fmt.Errorf("swarm: %s of attempt %d was posted twice", what, a.fence)
	}
	if err != nil {
		return failed(err), failed(err)
	}
	s := &scatter{owed: make([]bool, len(parts))}
	g := &gather{width: width, parts: parts, got: make([]uint64, len(parts))}
	shared := &packedChunks{chunks: make([]packedChunk, (len(mine)+sentChunk-1)/sentChunk)}
	head := wire.Header{Kind: wire.KindParams, Tag: tag, Fence: a.fence, Part: uint64(len(mine))}
	for r, l := range a.links {
		if l == nil {
			g.got[r] = uint64(len(parts[r]))
			continue
		}
		if len(parts[r]) > 0 {
			g.missing++
		}
		if (takes == nil || takes[r]) && len(mine) > 0 {
			s.post(&piece{attempt: a, rank: r, head: head, data: mine, width: width, packed: shared})
		}
	}
	a.gathers[tag] = g
	x.change.Broadcast()
	wait = func() error { return x.wait(ctx, a, what, g) }
	given = func() error { return x.wait(ctx, a, what, s) }
	return wait, given
}

// give gives parts[r] (elements of 4 bytes) to member r's sink, for each r but the own rank; empty parts are not sent.
// count says how many microbatches are summed in them, at least 1. It returns at once; wait blocks until every member has
// acknowledged its part, and parts must stay unchanged until then. An error of wait means that the attempt has ended.
func (x *exchange) give(ctx context.Context, kind Kind, tag uint32, parts [][]byte, count int) (wait func() error) {
	what := fmt.Sprintf("giving %s %d", kind, tag)
	x.mu.Lock()
	defer x.mu.Unlock()
	a, err := x.posting(what, parts)
	if err != nil {
		return failed(err)
	}
	if !wire.Kind(kind).Counted() || tag >= maxTag || count < 1 || count > wire.MaxMicrobatches {
		return failed(fmt.Errorf("swarm: %s with %d microbatches: tags are 0 to %d, microbatches 1 to %d", what, count, maxTag-1, wire.MaxMicrobatches))
	}
	s := &scatter{owed: make([]bool, len(parts))}
	for r, l := range a.links {
		if l == nil || len(parts[r]) == 0 {
			continue
		}
		head := wire.Header{Kind: wire.Kind(kind), Tag: tag, Fence: a.fence, Part: uint64(len(parts[r])), Microbatches: uint32(count)}
		s.post(&piece{attempt: a, rank: r, head: head, data: parts[r], width: sumWidth})
	}
	return func() error { return x.wait(ctx, a, what, s) }
}
