package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"unsafe"

	"shoal/peer"
	"shoal/swarm"
	"shoal/swarm/codec"
)

// member is a process that reduces and gathers with others, over its own host. It belongs to one goroutine; others only add.
type member struct {
	rank    int
	members []swarm.Contact
	fixed   *swarm.Fixed
	attempt uint64

	gives, gets [][]byte // by rank: parts of mine and of whole
	mine, whole []int32  // what it gives, and the sums of what all give

	mu    sync.Mutex
	sum   []int32 // of its own part
	owed  int     // members whose part has not been added
	added chan struct{}
}

// memberRound is what a member is told for each round.
type memberRound struct {
	Check bool // look at the sums afterwards
}

// serveMember is the process of one rank: it prints its contact, reads those of all, connects with them, and then answers each
// line with {} after it has summed and gathered.
func serveMember(ctx context.Context, in io.Reader, out io.Writer, rank, elements int) error {
	h, err := peer.New(ctx, peer.Config{Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	if err != nil {
		return err
	}
	defer h.Close()
	h.Handle(helloProtocol, func(_ string, c net.Conn) { c.Close() })
	lines, to := json.NewDecoder(in), json.NewEncoder(out)
	if err := to.Encode(swarm.Contact{Peer: h.Self(), Addrs: h.Addrs()}); err != nil {
		return err
	}
	m := &member{rank: rank, mine: make([]int32, elements), whole: make([]int32, elements), added: make(chan struct{}, 1)}
	for i := range m.mine {
		m.mine[i] = given(rank, i)
	}
	if err := lines.Decode(&m.members); err != nil {
		return err
	}
	if m.fixed, err = swarm.NewFixed(h, "bench", rank, m.members, codec.Auto); err != nil {
		return err
	}
	defer m.fixed.Close()
	if err := m.connect(ctx, h); err != nil {
		return err
	}
	m.gives, m.gets = m.cut(m.mine), m.cut(m.whole)
	for {
		if err := to.Encode(struct{}{}); err != nil {
			return err
		}
		var round memberRound
		if err := lines.Decode(&round); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := m.round(ctx, round.Check); err != nil {
			return err
		}
	}
}

// helloProtocol is that of a stream that makes a connection, one for each pair, as members of a run have it.
const helloProtocol = "/shoal/bench/hello"

func (m *member) connect(ctx context.Context, h *peer.Host) error {
	for _, other := range m.members[m.rank+1:] {
		c, err := h.Open(ctx, other.Peer, other.Addrs, helloProtocol)
		if err != nil {
			return err
		}
		c.Close()
	}
	return nil
}

// start is where the part of a rank begins.
func (m *member) start(rank int) int { return len(m.whole) * rank / len(m.members) }

// cut is the bytes of x, part by part.
func (m *member) cut(x []int32) (parts [][]byte) {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
	for r := range m.members {
		parts = append(parts, bytes[4*m.start(r):4*m.start(r+1)])
	}
	return parts
}

// given is element i of what a rank gives: a number of 24 bits, which packing makes no shorter.
func given(rank, i int) int32 {
	x := uint32(i)*2654435761 + uint32(rank)*40503
	return int32(x^x>>15) >> 8
}

// round adds up what all give and has everybody get the sums.
func (m *member) round(ctx context.Context, check bool) error {
	m.attempt++
	own := m.whole[m.start(m.rank):m.start(m.rank+1)]
	copy(own, m.mine[m.start(m.rank):])
	m.sum, m.owed = own, len(m.members)-1
	ctx, err := m.fixed.Begin(ctx, m.attempt, m)
	if err != nil {
		return err
	}
	wait := m.fixed.Give(ctx, swarm.Gradient, 0, m.gives, 1)
	select {
	case <-m.added:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := wait(); err != nil {
		return err
	}
	gathered, all := m.fixed.AllGather(ctx, 0, 4, m.gets[m.rank], m.gets)
	if err := errors.Join(gathered(), all()); err != nil || !check {
		return err
	}
	return m.check()
}

// check compares the sums with what they must be.
func (m *member) check() error {
	for i, got := range m.whole {
		want := int32(0)
		for r := range m.members {
			want += given(r, i)
		}
		if got != want {
			return fmt.Errorf("rank %d: element %d is %d, want %d", m.rank, i, got, want)
		}
	}
	return nil
}

// Add implements swarm.Sink.
func (m *member) Add(_ swarm.Kind, _, _, offset int, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := m.sum[offset:]
	for i, x := range unsafe.Slice((*int32)(unsafe.Pointer(&data[0])), len(data)/4) {
		sum[i] += x
	}
	return nil
}

// Done implements swarm.Sink.
func (m *member) Done(swarm.Kind, int, int, int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owed--; m.owed == 0 {
		m.added <- struct{}{}
	}
	return nil
}
