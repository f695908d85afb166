package swarm

import (
	"context"
	"errors"
)

// Stats counts bytes since Start.
type Stats struct {
	BytesSent, BytesReceived     int64 // on data streams, headers included
	PayloadRaw, PayloadWire      int64 // tensor bytes sent, and the payload bytes that carried them
	ControlSent, ControlReceived int64 // on control streams
}

// Stats reads the counters.
func (n *Node) Stats() Stats {
	s := Stats{ControlSent: n.sent.Load(), ControlReceived: n.received.Load()}
	if x := n.data(); x != nil {
		t := x.stats().Total
		s.BytesSent, s.BytesReceived = int64(t.BytesSent), int64(t.BytesReceived)
		s.PayloadRaw, s.PayloadWire = int64(t.RawSent), int64(t.WireSent)
	}
	return s
}

func (n *Node) data() *exchange {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.exchange
}

var errNoView = errors.New("swarm: there is no view yet: call View first")

// Begin enters the attempt that fence names and discards what belongs to older ones. Gradients that arrive for it are
// given to sink.
func (n *Node) Begin(fence uint64, sink Sink) error {
	x := n.data()
	if x == nil {
		return errNoView
	}
	return n.because(x.begin(fence, sink))
}

// AllGather gives mine to every other member of the view and fills parts[r] with what member r gave, but for the own
// rank. width is the size of an element in bytes. All members call it with the same tags in the same order. wait blocks
// until all parts are here, given until all others have mine, which must stay as it is until then.
func (n *Node) AllGather(ctx context.Context, tag uint32, width int, mine []byte, parts [][]byte) (wait, given func() error) {
	x := n.data()
	if x == nil {
		return failed(errNoView), failed(errNoView)
	}
	w, g := x.allGather(ctx, tag, width, mine, parts)
	return func() error { return n.because(w()) }, func() error { return n.because(g()) }
}

// ReduceScatter gives parts[r] (elements of 4 bytes) to member r's sink, but for the own rank; empty parts are not
// sent. microbatches, at least 1, says how many are summed in them. wait blocks until parts may be used again.
func (n *Node) ReduceScatter(ctx context.Context, unit int, parts [][]byte, microbatches int) (wait func() error) {
	x := n.data()
	if x == nil {
		return failed(errNoView)
	}
	w := x.reduceScatter(ctx, unit, parts, microbatches)
	return func() error { return n.because(w()) }
}

// because prefers the reason why the run has ended to what a stream said when it did.
func (n *Node) because(err error) error {
	if err != nil {
		if stopped := n.Err(); stopped != nil {
			return stopped
		}
	}
	return err
}
