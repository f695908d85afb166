package swarm

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"shoal/swarm/codec"
	"shoal/swarm/member"
	"shoal/swarm/wire"
)

// What the log speaks of; see package member.
type (
	Offer     = wire.Offer
	Member    = member.Member
	View      = member.View
	Entry     = member.Entry
	EntryKind = member.EntryKind
	Decision  = member.Decision
)

// How an attempt may end.
const (
	EntryCommit = member.EntryCommit
	EntryRetry  = member.EntryRetry
	EntryDone   = member.EntryDone
	EntryStop   = member.EntryStop
)

// Contact is a member of a run, known from a link.
type Contact struct {
	Peer  string
	Addrs []string
}

// Config is what a Node is made from. It must not be changed afterwards.
type Config struct {
	Transport Transport
	Log       *slog.Logger // nil: silent

	RunID, Secret string   // from the link; the creator makes them up
	Offer         Offer    // what this peer brings
	Contact       *Contact // whom a joiner asks first; nil for the creator

	Peers int    // creator: members that the first view waits for, itself included
	Exact bool   // creator: admit only peers with the same kernel fingerprint
	Run   []byte // creator: the run's description, for Describe; at most 1 MiB

	// Decide says on the leader how an attempt ends; see member.Config. It must be a pure function.
	Decide func(prev []byte, readies [][]byte) Decision
	// OnWait, if set, is told how many members there are and how many the first view waits for, whenever that changes.
	// It must not block.
	OnWait func(have, want int)

	Packing string        // of data: "auto" (default), "on" or "off"
	Tick    time.Duration // of the log; default 100 ms
	Timing  member.Timing // in ticks; default member.LAN()
}

// Short is a peer id as people see it, here and in every message of this package.
func Short(peer string) string { return member.Short(peer) }

// RefusedError says why the run doesn't take this peer in.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "the run refused this peer: " + e.Reason }

// StoppedError says why the run has ended before it was done.
type StoppedError struct {
	Peer   string // whom it is about, or ""
	Rank   int    // that one's rank, or -1
	Reason string // one line that names it
	Local  bool   // this peer gave up by itself, for example because it can't reach anybody
}

func (e *StoppedError) Error() string { return e.Reason }

// ErrDone is returned by Next once the run is over, and ErrClosed by everything after Close.
var (
	ErrDone   = errors.New("swarm: the run is over")
	ErrClosed = errors.New("swarm: the node is closed")
)

const (
	defaultTick = 100 * time.Millisecond
	closeWait   = 3 * time.Second        // for the others to know that this member has left
	doneWait    = 8 * time.Second        // for the others to know that the run is done; whoever is lost is so earlier
	flushWait   = 500 * time.Millisecond // for what is queued to be sent
	inboxSize   = 256                    // messages received and not yet taken in
)

// Node is this peer's part in a run. Its methods may be called from any goroutine, though one Ready, Next and the
// collectives of one attempt after another are meant for one.
type Node struct {
	cfg     Config
	packing codec.Packing
	id      uint64 // member id

	core  *member.Core               // the loop's
	links map[uint64]*controlLink    // the loop's
	joins map[uint64]chan joinAnswer // the loop's: admissions that the log hasn't decided

	inbox      chan *wire.Control // from members, From checked
	calls      chan func()        // to run in the loop
	handshakes chan struct{}      // limits those in progress
	ctx        context.Context    // ends when the goroutines are to end
	stop       context.CancelFunc
	tasks      sync.WaitGroup  // all goroutines; Add by begin or before Start returns
	life       context.Context // see Context
	end        context.CancelCauseFunc
	close      sync.Once
	finished   chan struct{} // closed by the loop: everybody knows that the run is over

	known          atomic.Pointer[roster]
	sent, received atomic.Int64 // bytes of control streams

	mu       sync.Mutex
	closed   bool
	change   chan struct{} // closed and replaced when anything below changes
	view     *View
	entries  []Entry       // not yet returned by Next
	fence    uint64        // of the attempt that the caller is in
	done     bool          // Done was returned or waits in entries
	err      error         // StoppedError, or why the node can't go on
	stopped  time.Duration // the longest time in which the process did not run
	exchange *exchange
}

// roster is what the loop tells the other goroutines.
type roster struct {
	members map[uint64]Member
	run     []byte
	status  Status
	leader  Member // zero if unknown
}

// Status is a snapshot of the log's state for people.
type Status struct {
	Leader  string   // peer id, or ""
	Voters  []string // peer ids
	Members int
	Fence   uint64 // of the current attempt
	Applied uint64 // log index
}

// Start creates a run, or joins one and returns when this peer is admitted; a *RefusedError says why it wasn't.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	packing, err := codec.ParsePacking(cfg.Packing)
	if err != nil {
		return nil, fmt.Errorf("swarm: Config.Packing: %w", err)
	}
	mc := member.Config{Decide: cfg.Decide, Timing: cfg.Timing, Log: cfg.Log}
	if cfg.Contact == nil {
		mc.ID = newMemberID()
		self := Member{ID: mc.ID, Peer: cfg.Transport.Self(), Addrs: addrsOf(cfg.Transport), Offer: cfg.Offer}
		mc.Genesis = member.Genesis{Self: self, Peers: cfg.Peers, Exact: cfg.Exact, Run: cfg.Run}
	} else if mc.ID, mc.Snapshot, err = join(ctx, &cfg); err != nil {
		return nil, err
	}
	core, err := member.New(mc)
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, packing: packing, id: mc.ID, core: core,
		links: map[uint64]*controlLink{}, joins: map[uint64]chan joinAnswer{},
		inbox: make(chan *wire.Control, inboxSize), calls: make(chan func()), handshakes: make(chan struct{}, maxHandshakes),
		finished: make(chan struct{}), change: make(chan struct{}),
	}
	n.ctx, n.stop = context.WithCancel(context.Background())
	n.life, n.end = context.WithCancelCause(n.ctx)
	n.flush()
	n.tasks.Go(n.loop)
	cfg.Transport.Handle(wire.ControlProtocol, n.handleControl)
	return n, nil
}

func (c *Config) validate() error {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Tick == 0 {
		c.Tick = defaultTick
	}
	if c.Packing == "" {
		c.Packing = "auto"
	}
	switch {
	case c.Transport == nil:
		return errors.New("swarm: Config.Transport is missing")
	case c.RunID == "" || len(c.RunID) > wire.MaxRunID:
		return fmt.Errorf("swarm: Config.RunID has %d bytes, must be 1 to %d", len(c.RunID), wire.MaxRunID)
	case len(c.Secret) > wire.MaxText:
		return fmt.Errorf("swarm: Config.Secret has %d bytes, at most %d", len(c.Secret), wire.MaxText)
	case c.Tick < 0:
		return fmt.Errorf("swarm: Config.Tick is %v, must be positive", c.Tick)
	}
	return nil
}

func newMemberID() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:])
		if id := binary.LittleEndian.Uint64(b[:]); member.ValidID(id) {
			return id
		}
	}
}

func addrsOf(t Transport) []string {
	addrs := t.Addrs()
	return addrs[:min(len(addrs), wire.MaxAddrs)]
}

// View waits for the first view: until all members are there.
func (n *Node) View(ctx context.Context) (View, error) {
	var v View
	err := n.await(ctx, func() bool {
		if n.view == nil {
			return false
		}
		v = *n.view
		n.fence = max(n.fence, v.Fence)
		return true
	})
	return v, err
}

// Ready tells the leader that this member is done with the attempt that View or the last Next began. payload has at
// most 4 MiB and must not be changed any more.
func (n *Node) Ready(payload []byte) error {
	n.mu.Lock()
	fence, err := n.fence, n.err
	n.mu.Unlock()
	if err != nil {
		return err
	}
	if fence == 0 {
		return errors.New("swarm: Ready before View")
	}
	if !n.call(func() { err = n.core.SetReady(fence, payload) }) {
		return ErrClosed
	}
	return err
}

// Next waits for the entry that ends the current attempt. It returns each once, in the log's order; after the last, a
// *StoppedError or ErrDone. The caller must not change the payload.
func (n *Node) Next(ctx context.Context) (Entry, error) {
	var e Entry
	err := n.await(ctx, func() bool {
		if len(n.entries) == 0 {
			return false
		}
		e, n.entries = n.entries[0], n.entries[1:]
		n.fence = e.Fence
		return true
	})
	return e, err
}

// await waits until got, which is called with the lock held, or nothing more is to come.
func (n *Node) await(ctx context.Context, got func() bool) error {
	for {
		n.mu.Lock()
		ok, err, change := got(), n.err, n.change
		if err == nil && n.done {
			err = ErrDone
		}
		if err == nil && n.closed {
			err = ErrClosed
		}
		n.mu.Unlock()
		if ok {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// update changes what await waits for.
func (n *Node) update(f func()) {
	n.mu.Lock()
	f()
	close(n.change)
	n.change = make(chan struct{})
	n.mu.Unlock()
}

// Context ends when the run has ended before it was done, with Err as its cause, or when the node is closed. Whoever waits
// for gradients must watch it: a member that was lost after it had taken everybody else's never gives its own.
func (n *Node) Context() context.Context { return n.life }

// Err is why the run has ended before it was done, or nil.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Silence is the longest time in which this process did not run, and that after which a silent member is lost.
func (n *Node) Silence() (longest, limit time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stopped, time.Duration(cmp.Or(n.cfg.Timing.Suspect, member.LAN().Suspect)) * n.cfg.Tick
}

// Status tells the log's state.
func (n *Node) Status() Status { return n.known.Load().status }

// Members are those that the log has admitted so far, this one included, in no order.
func (n *Node) Members() []Member {
	var list []Member
	for _, m := range n.known.Load().members {
		list = append(list, m)
	}
	return list
}

// Leave tells the others that this peer goes, and why, which ends the run for all. Close is still to be called, and
// waits for them to know.
func (n *Node) Leave(reason string) {
	n.call(func() { n.core.Leave(reason) })
}

// Close ends this peer's part; if the run isn't over, it leaves first. It waits up to 3 s, or 8 s if the run is done, for
// the others to know that it is over, so that nobody is missed who should still hear it, and for all goroutines. It may be called twice.
func (n *Node) Close() error {
	n.close.Do(func() {
		n.Leave("its process ended")
		wait := closeWait
		n.mu.Lock()
		if n.done {
			wait = doneWait
		}
		n.mu.Unlock()
		select {
		case <-n.finished:
		case <-time.After(wait):
		}
		n.cfg.Transport.Handle(wire.ControlProtocol, nil)
		n.call(n.finishLinks)
		n.update(func() { n.closed = true })
		n.awaitLinks()
		n.stop()
		if x := n.data(); x != nil {
			x.close()
		}
		n.tasks.Wait()
	})
	return nil
}
