package swarm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"shoal/swarm/codec"
	"shoal/swarm/wire"
)

// Sink takes gradients as they arrive. Calls may come from several goroutines at once. Add is called once per (source,
// unit, chunk) after its checksum was verified, Done once per (source, unit) after the last Add. offset counts elements
// from the start of the own interval; data is valid during the call only. No call is made after the attempt has ended.
type Sink interface {
	Add(unit, source, offset int, data []byte) error
	Done(unit, source, microbatches int) error
}

var (
	// errAttemptEnded is returned by waits when begin has entered a later attempt.
	errAttemptEnded = errors.New("swarm: the attempt has ended")
	// errExchangeClosed is returned by calls and waits once the exchange is closed.
	errExchangeClosed = errors.New("swarm: the exchange is closed")
)

// exchangeMember is one member of the view that an exchange serves.
type exchangeMember struct {
	ID    uint64 // member id, one per process
	Peer  string // peer id, which the transport proves
	Addrs []string
}

// exchangeConfig is what an exchange needs; all of it stays unchanged.
type exchangeConfig struct {
	Transport Transport
	Run       string           // run id
	Members   []exchangeMember // in order of rank
	Rank      int              // the own place in Members
	Packing   codec.Packing
	Log       *slog.Logger // nil: silent
	// Fault, if set, is told why an attempt can't go on, since perhaps nobody is in a wait that would say so. It must
	// not block or call the exchange.
	Fault func(error)
}

func (c *exchangeConfig) validate() error {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Transport == nil:
		return errors.New("swarm: exchange without a transport")
	case c.Rank < 0 || c.Rank >= len(c.Members):
		return fmt.Errorf("swarm: exchange for rank %d of %d members", c.Rank, len(c.Members))
	case len(c.Run) > wire.MaxRunID:
		return fmt.Errorf("swarm: the run id has %d bytes, at most %d are allowed", len(c.Run), wire.MaxRunID)
	}
	return nil
}

// exchange does the collectives of one view by direct exchange: each member sends every other its piece. For each
// ordered pair of members there are two long-lived streams, one for parameters and one for gradients, each with a
// sender goroutine here (exchange_send.go) and a reader goroutine there (exchange_receive.go).
//
// [Note: flow control] Nothing here holds tensor data but one chunk per busy stream. A sender's queue refers to its
// caller's memory. A gradient is added on arrival, so its stream never waits. A parameter chunk whose all-gather the
// receiver has not posted yet, and any chunk of a later attempt, waits unread in its stream, and the sender with it.
// Every member posts its collectives in the same order and each pair has streams of its own; so whoever waits waits
// for a post that will come, and for nobody else.
//
// [Note: once] A part goes in chunks of ascending offsets; the receiver counts how far it got and acknowledges the
// whole. When a stream breaks, the sender dials again and sends from their beginning those parts of the current attempt
// that were not acknowledged; the receiver drops what it has. So a break neither loses a chunk nor adds it twice.
//
// [Note: borrowed memory] Senders read their caller's memory and readers write it only between enter and leave, which
// count the goroutines inside an attempt. begin, close and failed waits end the attempt, so that nobody enters any
// more, and return when its count is zero. What happens in between is copying, never I/O.
//
// All methods may be called from several goroutines; begin and the collectives are meant for one.
type exchange struct {
	cfg   exchangeConfig
	links []*link // by rank; nil for the own
	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup // senders, readers

	mu       sync.Mutex
	change   sync.Cond // anything below, or in an attempt or a stream, has changed
	closed   bool
	now      *attempt // nil before the first begin
	incoming map[net.Conn]bool
}

// link is what there is per other member.
type link struct {
	params, gradients *outgoing
	reading           [2]*incoming // the stream in force of each class; guarded by exchange.mu
	count             linkCounters
	noticed           uint64 // count.received, when the node's loop last looked
}

// attempt is the state of one try at a step. The exchange's lock guards it.
type attempt struct {
	fence   uint64
	sink    Sink
	err     error // why it ended before its time; nothing is sent or taken any more
	busy    int   // goroutines inside, see [Note: borrowed memory]
	gathers map[uint32]*gather
	sums    []map[uint32]*summand // by source, then unit
	faults  []int                 // broken frames, by source
}

// newExchange starts serving streams for the view in cfg. close it to end its goroutines, and before the exchange of the
// next view is made: both serve the same protocol.
func newExchange(cfg exchangeConfig) (*exchange, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	x := &exchange{cfg: cfg, links: make([]*link, len(cfg.Members)), incoming: map[net.Conn]bool{}}
	x.change.L = &x.mu
	x.ctx, x.stop = context.WithCancel(context.Background())
	for r := range cfg.Members {
		if r == cfg.Rank {
			continue
		}
		l, speed := &link{}, &codec.Link{}
		l.params = x.newOutgoing(r, wire.Params, l, speed)
		l.gradients = x.newOutgoing(r, wire.Gradients, l, speed)
		x.links[r] = l
		x.tasks.Go(l.params.run)
		x.tasks.Go(l.gradients.run)
	}
	cfg.Transport.Handle(wire.DataProtocol, x.handle)
	return x, nil
}

// begin enters the attempt that fence names, which must be later than the one before, and gives its gradients to sink.
// Collectives of the attempt before that are still waited for fail. When begin returns, their memory is not used any
// more, nor is their sink.
func (x *exchange) begin(fence uint64, sink Sink) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	old := x.now
	switch {
	case x.closed:
		return errExchangeClosed
	case sink == nil:
		return errors.New("swarm: an attempt needs a sink for its gradients")
	case old != nil && fence <= old.fence:
		return fmt.Errorf("swarm: attempt %d can't follow attempt %d", fence, old.fence)
	}
	n := len(x.cfg.Members)
	a := &attempt{fence: fence, sink: sink, gathers: map[uint32]*gather{}, sums: make([]map[uint32]*summand, n), faults: make([]int, n)}
	for r := range a.sums {
		a.sums[r] = map[uint32]*summand{}
	}
	if old != nil {
		x.end(old, errAttemptEnded)
		x.drain(old)
	}
	if x.closed {
		return errExchangeClosed
	}
	x.now = a
	x.change.Broadcast()
	return nil
}

// end marks a as ended because of err, unless it has ended already, and empties the queues. The lock is held.
func (x *exchange) end(a *attempt, err error) {
	if a.err != nil {
		return
	}
	a.err = err
	for _, l := range x.links {
		if l != nil {
			l.params.clear()
			l.gradients.clear()
		}
	}
	x.change.Broadcast()
}

// fail is end because something is wrong, with a member or here. The lock is held.
func (x *exchange) fail(a *attempt, err error) {
	if a.err == nil && x.cfg.Fault != nil {
		x.cfg.Fault(err)
	}
	x.end(a, err)
}

// drain waits until nobody is inside of a, which has ended. The lock is held, but not while waiting.
func (x *exchange) drain(a *attempt) {
	for a.busy > 0 {
		x.change.Wait()
	}
}

// enter says whether a still goes on; if so, leave must follow. See [Note: borrowed memory].
func (x *exchange) enter(a *attempt) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if a.err != nil {
		return false
	}
	a.busy++
	return true
}

// leave undoes enter. The lock is held.
func (x *exchange) leave(a *attempt) {
	a.busy--
	if a.busy == 0 && a.err != nil {
		x.change.Broadcast()
	}
}

// wait blocks until done, or the attempt has ended, which it does when ctx is done.
func (x *exchange) wait(ctx context.Context, a *attempt, what string, done func() bool) error {
	defer context.AfterFunc(ctx, x.wake)()
	x.mu.Lock()
	defer x.mu.Unlock()
	for !done() && a.err == nil {
		if err := context.Cause(ctx); err != nil {
			x.end(a, err)
			break
		}
		x.change.Wait()
	}
	if done() {
		return nil
	}
	x.drain(a)
	return fmt.Errorf("%s of attempt %d: %w", what, a.fence, a.err)
}

func (x *exchange) wake() {
	x.mu.Lock()
	x.change.Broadcast()
	x.mu.Unlock()
}

// name names the member of a rank in errors and logs.
func (x *exchange) name(rank int) string {
	m := x.cfg.Members[rank]
	return fmt.Sprintf("member %d (rank %d, peer %s)", m.ID, rank, m.Peer)
}

// close ends all collectives and streams and returns when no goroutine of the exchange is left. It may be called twice.
func (x *exchange) close() {
	x.mu.Lock()
	first := !x.closed
	x.closed = true
	if x.now != nil {
		x.end(x.now, errExchangeClosed)
	}
	var open []net.Conn
	for conn := range x.incoming {
		open = append(open, conn)
	}
	for _, l := range x.links {
		if l != nil {
			open = append(open, l.params.opened()...)
			open = append(open, l.gradients.opened()...)
		}
	}
	x.change.Broadcast()
	x.mu.Unlock()
	if first {
		x.cfg.Transport.Handle(wire.DataProtocol, nil)
	}
	x.stop()
	for _, conn := range open {
		conn.Close()
	}
	x.tasks.Wait()
}
