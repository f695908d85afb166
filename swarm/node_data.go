package swarm

import (
	"context"
	"errors"
	"fmt"
)

// Stats counts bytes since Start.
type Stats struct {
	BytesSent, BytesReceived             int64 // on data streams, headers included
	ParamsSent, GradientsSent, StateSent int64 // of these: frames by what their streams carry
	PayloadRaw, PayloadWire              int64 // tensor bytes sent, and the payload bytes that carried them
	ControlSent, ControlReceived         int64 // on control streams
	Classes                              []Traffic
}

// Stats reads the counters.
func (n *Node) Stats() Stats {
	t := n.exchange.stats()
	sent, received := n.sent.Load(), n.received.Load()
	return Stats{
		BytesSent: int64(t.BytesSent), BytesReceived: int64(t.BytesReceived),
		ParamsSent: int64(t.ClassSent[0]), GradientsSent: int64(t.ClassSent[1]), StateSent: int64(t.ClassSent[2]),
		PayloadRaw: int64(t.RawSent), PayloadWire: int64(t.WireSent),
		ControlSent: sent, ControlReceived: received,
		Classes: append(n.exchange.count.list(), Traffic{Class: "control", Sent: sent, Received: received}),
	}
}

var errNoView = errors.New("swarm: there is no view yet: call View first")

// Begin enters the attempt that View or the last Next has begun, whose fence it is given, and discards what belongs to
// older ones. What arrives for it is given to sink. The context ends as soon as the log has what ends the attempt, or
// when it can't go on here; its cause wraps ErrAttempt, and so do the errors of the attempt's collectives from then on.
func (n *Node) Begin(ctx context.Context, fence uint64, sink Sink) (context.Context, error) {
	n.mu.Lock()
	view, now, err := n.view, n.fence, n.err
	n.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case view == nil:
		return nil, errNoView
	case fence != now:
		return nil, fmt.Errorf("swarm: Begin of attempt %d, the log's last entry began %d", fence, now)
	}
	ids := make([]uint64, len(view.Members))
	for r, m := range view.Members {
		ids[r] = m.ID
	}
	return n.exchange.begin(ctx, fence, ids, sink)
}

// AllGather gives mine to every other member r of the view that takes[r] (nil: to all) and fills parts[r] with what member r gave, but
// for the own rank; parts are empty for a member that only gives. width is the size of an element in bytes. All members
// call it with the same tags and takes in the same order. wait blocks until all parts are here, given until all others
// that take have mine, which must stay as it is until then.
func (n *Node) AllGather(ctx context.Context, tag uint32, width int, mine []byte, takes []bool, parts [][]byte) (wait, given func() error) {
	return n.exchange.allGather(ctx, tag, width, mine, takes, parts)
}

// Give gives parts[r] (elements of 4 bytes) to member r's sink, but for the own rank; empty parts are not sent. count, at
// least 1, says how many microbatches are summed in them. wait blocks until everybody has what it was given; until then
// parts must stay as they are.
func (n *Node) Give(ctx context.Context, kind Kind, tag uint32, parts [][]byte, count int) (wait func() error) {
	return n.exchange.give(ctx, kind, tag, parts, count)
}
