package swarm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"

	"shoal/swarm/codec"
	"shoal/swarm/wire"
)

// Kind says what a Give gives. Numbers are those of wire.Kind.
type Kind uint8

const (
	Gradient = Kind(wire.KindGradient) // summands of gradients, for owners; the tag is the unit
	Forward  = Kind(wire.KindForward)  // reduced gradients, for backups; the tag is the unit
	State    = Kind(wire.KindState)    // an owner's state, for whoever is to hold it too; the tag is the range
)

func (k Kind) String() string {
	switch k {
	case Gradient:
		return "gradient"
	case Forward:
		return "reduced gradient"
	case State:
		return "state"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Sink takes what members give as it arrives. Calls may come from several goroutines at once. Add is called once per
// (kind, tag, source, chunk) after its checksum was verified, Done once per (kind, tag, source) after the last Add. offset
// counts elements of 4 bytes from the start of what the source gives; data is valid during the call only. source is a
// rank of the attempt's view. No call is made after the attempt has ended.
type Sink interface {
	Add(kind Kind, tag, source, offset int, data []byte) error
	Done(kind Kind, tag, source, count int) error
}

// ErrAttempt is wrapped by what collectives return when their attempt has ended, here or for all: what comes next, Next
// says.
var ErrAttempt = errors.New("swarm: the attempt has ended")

// exchangeMember is another member.
type exchangeMember struct {
	ID    uint64 // member id, one per process
	Peer  string // peer id, which the transport proves
	Addrs []string
}

// exchangeConfig is what an exchange needs; all of it stays unchanged.
type exchangeConfig struct {
	Transport Transport
	Run       string // run id
	Self      uint64 // own member id
	Packing   codec.Packing
	Log       *slog.Logger // nil: silent
	// Open opens a stream to a member; nil means by Transport.Open alone.
	Open func(ctx context.Context, to exchangeMember, protocol string) (net.Conn, error)
}

func (c *exchangeConfig) validate() error {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Open == nil {
		c.Open = func(ctx context.Context, to exchangeMember, protocol string) (net.Conn, error) {
			return c.Transport.Open(ctx, to.Peer, to.Addrs, protocol)
		}
	}
	switch {
	case c.Transport == nil:
		return errors.New("swarm: exchange without a transport")
	case len(c.Run) > wire.MaxRunID:
		return fmt.Errorf("swarm: the run id has %d bytes, at most %d are allowed", len(c.Run), wire.MaxRunID)
	}
	return nil
}

// exchange does the collectives of all views by direct exchange: each member sends every other its piece. It has a link
// per other member (exchange_link.go), whether that one is in a view yet or not; an attempt binds the ranks of a view to
// links. For each ordered pair of members there are up to three long-lived streams, for parameters, gradients and state,
// each with a sender goroutine here (exchange_send.go) and a reader goroutine there (exchange_receive.go).
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
// [Note: ends] An attempt ends when the log says so (advance), when its own caller gives up, or when something is wrong
// with it here (fail). The last two are nobody else's affair: the caller goes on to wait for what the log says.
//
// All methods may be called from several goroutines; begin and the collectives are meant for one.
type exchange struct {
	cfg   exchangeConfig
	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup // senders, readers; Add under the lock, while not closed
	count frameCounts

	mu         sync.Mutex
	change     sync.Cond // anything below, or in an attempt or a reader, has changed
	closed     bool
	links      map[uint64]*link // by member id
	past       linkStats        // of links that were removed
	generation uint64           // of the log
	fence      uint64           // of the attempt that is current by the log
	now        *attempt         // the caller's; nil before the first begin
	incoming   map[net.Conn]bool
}

// attempt is the state of one try at a step. The exchange's lock guards it.
type attempt struct {
	fence    uint64
	links    []*link // by rank; nil for the own
	sink     Sink
	cancel   context.CancelCauseFunc
	err      error // why it ended; nothing is sent or taken any more
	complete bool  // it ended because every member was done with it
	busy     int   // goroutines inside, see [Note: borrowed memory]
	gathers  map[uint32]*gather
	sums     []map[sumKey]*summand // by source
	faults   []int                 // broken frames, by source
	waits    map[collective]int    // how many wait for each
}

// newExchange starts serving data streams. close ends its goroutines.
func newExchange(cfg exchangeConfig) (*exchange, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	x := &exchange{cfg: cfg, links: map[uint64]*link{}, incoming: map[net.Conn]bool{}}
	x.change.L = &x.mu
	x.ctx, x.stop = context.WithCancel(context.Background())
	cfg.Transport.Handle(wire.DataProtocol, x.handle)
	return x, nil
}

// begin enters the attempt that fence names, which must be later than the one before, among members (by rank), and gives
// what arrives to sink. Collectives of the attempt before that are still waited for fail. When begin returns, their
// memory is not used any more, nor is their sink. The context ends with the attempt, its cause wraps ErrAttempt.
func (x *exchange) begin(ctx context.Context, fence uint64, members []uint64, sink Sink) (context.Context, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	old := x.now
	switch {
	case x.closed:
		return nil, ErrClosed
	case sink == nil:
		return nil, errors.New("swarm: an attempt needs a sink for what it is given")
	case !slices.Contains(members, x.cfg.Self):
		return nil, fmt.Errorf("swarm: attempt %d is of a view without this member", fence)
	case old != nil && fence <= old.fence:
		return nil, fmt.Errorf("swarm: attempt %d can't follow attempt %d", fence, old.fence)
	}
	if old != nil {
		x.end(old, ErrAttempt)
		x.drain(old)
	}
	if x.closed {
		return nil, ErrClosed
	}
	a, err := x.newAttempt(fence, members, sink)
	if err != nil {
		return nil, err
	}
	ctx, a.cancel = context.WithCancelCause(ctx)
	x.now = a
	if fence < x.fence {
		x.end(a, ErrAttempt)
	}
	x.change.Broadcast()
	return ctx, nil
}

// newAttempt binds ranks to links. The lock is held.
func (x *exchange) newAttempt(fence uint64, members []uint64, sink Sink) (*attempt, error) {
	n := len(members)
	a := &attempt{fence: fence, sink: sink, links: make([]*link, n), gathers: map[uint32]*gather{},
		sums: make([]map[sumKey]*summand, n), faults: make([]int, n), waits: map[collective]int{}}
	for r, id := range members {
		a.sums[r] = map[sumKey]*summand{}
		if id == x.cfg.Self {
			continue
		}
		a.links[r] = x.links[id]
		if a.links[r] == nil && fence >= x.fence { // later, it may have been removed
			return nil, fmt.Errorf("swarm: attempt %d has a member %d of whom nothing is known", fence, id)
		}
	}
	return a, nil
}

// rank is the place of a link in the attempt's view, or -1.
func (a *attempt) rank(l *link) int { return slices.Index(a.links, l) }

// advance tells that the log has begun the attempt fence, so that the one before it is over. complete says that this was
// so because every member was done with it: then what this member gave has arrived, acknowledged or not.
func (x *exchange) advance(fence uint64, complete bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if fence <= x.fence {
		return
	}
	x.fence = fence
	if a := x.now; a != nil && a.fence < fence && a.err == nil {
		a.complete = complete
		x.end(a, ErrAttempt)
	}
	x.change.Broadcast()
}

// abort ends the current attempt for a reason of the caller's.
func (x *exchange) abort(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.now != nil {
		x.end(x.now, err)
	}
}

// end marks a as ended because of err, unless it has ended already, and empties the queues. The lock is held.
func (x *exchange) end(a *attempt, err error) {
	if a.err != nil {
		return
	}
	if !errors.Is(err, ErrAttempt) {
		err = fmt.Errorf("%w: %w", ErrAttempt, err)
	}
	a.err = err
	for _, l := range a.links {
		if l != nil {
			l.clear()
		}
	}
	a.cancel(err)
	x.change.Broadcast()
}

// fail is end because something is wrong, with a member or here. The lock is held.
func (x *exchange) fail(a *attempt, err error) {
	if a.err == nil {
		x.cfg.Log.Warn("an attempt can't go on here", "fence", a.fence, "error", err)
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

// wait blocks until nothing of c is missing, or the attempt has ended, which it does when ctx is done.
func (x *exchange) wait(ctx context.Context, a *attempt, what string, c collective) error {
	defer context.AfterFunc(ctx, x.wake)()
	x.mu.Lock()
	defer x.mu.Unlock()
	a.waits[c]++
	for c.left() > 0 && a.err == nil {
		if err := context.Cause(ctx); err != nil {
			x.end(a, err)
			break
		}
		x.change.Wait()
	}
	if a.waits[c]--; a.waits[c] == 0 {
		delete(a.waits, c)
	}
	if c.left() == 0 {
		return nil
	}
	x.drain(a)
	if _, gives := c.(*scatter); gives && a.complete {
		return nil
	}
	return fmt.Errorf("%s of attempt %d: %w", what, a.fence, a.err)
}

func (x *exchange) wake() {
	x.mu.Lock()
	x.change.Broadcast()
	x.mu.Unlock()
}

// waiting lists the members for whom this one's caller waits in its attempt: in a collective, or, where unit is not
// negative, for gradients of that unit. fence names the attempt.
func (x *exchange) waiting(unit int) (fence uint64, ids []uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	a := x.now
	if a == nil || a.err != nil {
		return 0, nil
	}
	for r, l := range a.links {
		if l != nil && (a.owes(r) || unit >= 0 && !a.gave(r, unit)) {
			ids = append(ids, l.to.ID)
		}
	}
	return a.fence, ids
}

// owes says whether a collective that is waited for lacks rank r. The lock is held.
func (a *attempt) owes(r int) bool {
	for c := range a.waits {
		if c.lacks(r) {
			return true
		}
	}
	return false
}

// gave says whether rank r's gradient of a unit is here. The lock is held.
func (a *attempt) gave(r, unit int) bool {
	s := a.sums[r][sumKey{wire.KindGradient, uint32(unit)}]
	return s != nil && s.got == s.part
}

// name names the member of a rank in errors and logs.
func (a *attempt) name(rank int) string {
	m := a.links[rank].to
	return fmt.Sprintf("member %d (rank %d, peer %s)", m.ID, rank, m.Peer)
}

// close ends all collectives and streams and returns when no goroutine of the exchange is left. It may be called twice.
func (x *exchange) close() {
	x.mu.Lock()
	first := !x.closed
	x.closed = true
	if x.now != nil {
		x.end(x.now, ErrClosed)
	}
	var open []net.Conn
	for conn := range x.incoming {
		open = append(open, conn)
	}
	for _, l := range x.links {
		open = append(open, x.cutOff(l)...)
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
