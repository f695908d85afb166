package swarm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"shoal/internal/place"
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
	Saved     = member.Saved
)

// How an attempt may end.
const (
	EntryCommit = member.EntryCommit
	EntryRetry  = member.EntryRetry
	EntryDone   = member.EntryDone
	EntryStop   = member.EntryStop
	EntryView   = member.EntryView
	EntryLate   = member.EntryLate

	EntryRestore = member.EntryRestore
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

	Peers   int           // creator: members that the first view waits for, itself included
	Exact   bool          // creator: admit only peers with the same kernel fingerprint
	Run     []byte        // creator: the run's description, for Describe; at most 1 MiB
	Ranges  []place.Range // creator: what the model is cut into
	Backups int           // creator: of each range; place.All: everybody holds everything
	Saved   *Saved        // creator: the checkpoint that the run goes on from, if it does

	// Decide says on the leader how an attempt ends; see member.Config. It must be a pure function.
	Decide func(run, prev []byte, work []int64, readies [][]byte) Decision
	// History, if set, is what this member tells others of the steps that they have missed, as they ask (see Node.History);
	// at most 8 MiB. It may be called from any goroutine.
	History func(ask []byte) []byte
	// OnWait, if set, is told how many members there are and how many the first view waits for, whenever that changes.
	// It must not block.
	OnWait func(have, want int)
	// OnStuck, if set, is told in one line why the run can't go on for now, and "" when it goes on. It must not block.
	OnStuck func(reason string)

	Packing string        // of data: "auto" (default), "on" or "off"
	Tick    time.Duration // of the log; default Tick
	Timing  member.Timing // in ticks; default member.LAN()
	// LastResort is what a user can do once nobody is left who holds some part of the model.
	LastResort string
}

// Short is a peer id as people see it, here and in every message of this package.
func Short(peer string) string { return member.Short(peer) }

// RefusedError says why the run doesn't take this peer in.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "the run refused this peer: " + e.Reason }

// StoppedError says why the run has ended for this peer before it was done.
type StoppedError struct {
	Peer   string // whom it is about, or ""
	Rank   int    // that one's rank, or -1
	Reason string // one line that names it
	Local  bool   // this peer gave up by itself, for example because it can't reach anybody
	Gone   bool   // the others have gone on without this peer; it may join again
}

func (e *StoppedError) Error() string { return e.Reason }

// ErrDone is returned by Next once the run is over, ErrLeft once this member has left it, and ErrClosed by everything
// after Close.
var (
	ErrDone   = errors.New("swarm: the run is over")
	ErrLeft   = errors.New("swarm: this peer has left the run")
	ErrClosed = errors.New("swarm: the node is closed")
)

// Tick is that of the log, unless Config says otherwise.
const Tick = 100 * time.Millisecond

const (
	closeWait = 4 * time.Second        // for the others to take over, when this member leaves
	doneWait  = 8 * time.Second        // for the others to know that the run is done; whoever is lost is so earlier
	flushWait = 500 * time.Millisecond // for what is queued to be sent
	inboxSize = 256                    // messages received and not yet taken in
)

// Node is this peer's part in a run. Its methods may be called from any goroutine, though Begin, the collectives, Ready
// and Next of one attempt after another are meant for one.
type Node struct {
	cfg      Config
	id       uint64 // member id
	exchange *exchange

	core   *member.Core               // the loop's
	links  map[uint64]*controlLink    // the loop's
	joins  map[uint64]chan joinAnswer // the loop's: admissions that the log hasn't decided
	stuck  string                     // the loop's: why the run can't go on, or ""
	ballot ballot                     // the loop's: see Recover
	ticks  uint64                     // the loop's

	inbox      chan *wire.Control // from members, From checked
	calls      chan func()        // to run in the loop
	handshakes chan struct{}      // limits those in progress
	relays     chan struct{}      // limits the streams carried for others
	ctx        context.Context    // ends when the goroutines are to end
	stop       context.CancelFunc
	tasks      sync.WaitGroup  // all goroutines; Add by begin, in one of them, or before Start returns
	life       context.Context // see Context
	end        context.CancelCauseFunc
	close      sync.Once
	finished   chan struct{} // closed by the loop: everybody knows that the run is over
	left       chan struct{} // closed by the loop: see Left

	known          atomic.Pointer[roster]
	doing          atomic.Pointer[phase]
	sent, received atomic.Int64 // bytes of control streams

	mu       sync.Mutex
	closed   bool
	change   chan struct{}                // closed and replaced when anything below changes
	view     *View                        // the caller's: of the last View or Next
	entries  []Entry                      // not yet returned by View or Next
	fence    uint64                       // of the attempt that the caller is in
	done     bool                         // Done was returned or waits in entries
	away     bool                         // this member has left
	deserted bool                         // and nobody stayed
	err      error                        // StoppedError, or why the node can't go on
	leaving  time.Time                    // when Leave was first called
	conns    map[uint64]map[net.Conn]bool // incoming streams that end with a member, by its id
}

// roster is what the loop tells the other goroutines.
type roster struct {
	members    map[uint64]Member
	run        []byte
	applied    uint64 // log index
	generation uint64
	leader     Member // zero if unknown
}

// phase is what the caller is doing.
type phase struct {
	name string
	unit int
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
	mc := member.Config{Decide: cfg.Decide, Timing: cfg.Timing, LastResort: cfg.LastResort, Log: cfg.Log}
	if cfg.Contact == nil {
		mc.ID = newMemberID()
		self := Member{ID: mc.ID, Peer: cfg.Transport.Self(), Addrs: addrsOf(cfg.Transport), Offer: cfg.Offer}
		mc.Genesis = member.Genesis{Self: self, Peers: cfg.Peers, Exact: cfg.Exact, Run: cfg.Run, Ranges: cfg.Ranges, Backups: cfg.Backups, Saved: cfg.Saved}
	} else if mc.ID, mc.Snapshot, err = join(ctx, &cfg); err != nil {
		return nil, err
	}
	core, err := member.New(mc)
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, id: mc.ID, core: core,
		links: map[uint64]*controlLink{}, joins: map[uint64]chan joinAnswer{},
		inbox: make(chan *wire.Control, inboxSize), calls: make(chan func()),
		handshakes: make(chan struct{}, maxHandshakes), relays: make(chan struct{}, maxRelays),
		finished: make(chan struct{}), left: make(chan struct{}), change: make(chan struct{}),
		conns: map[uint64]map[net.Conn]bool{},
	}
	n.doing.Store(&phase{unit: -1})
	n.ctx, n.stop = context.WithCancel(context.Background())
	n.life, n.end = context.WithCancelCause(n.ctx)
	n.exchange, err = newExchange(exchangeConfig{Transport: cfg.Transport, Run: cfg.RunID, Self: n.id, Packing: packing, Log: cfg.Log, Open: n.open})
	if err != nil {
		return nil, err
	}
	n.exchange.setGeneration(core.Generation())
	n.flush()
	n.tasks.Go(n.loop)
	cfg.Transport.Handle(wire.ControlProtocol, n.handleControl)
	cfg.Transport.Handle(wire.RelayProtocol, n.handleRelay)
	return n, nil
}

func (c *Config) validate() error {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Tick == 0 {
		c.Tick = Tick
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

// View waits for the next view that this member is in, and returns the entry that began it: Entry.View is set. It is for the
// first one, and for a member that a Restore has left outside.
func (n *Node) View(ctx context.Context) (Entry, error) {
	for {
		e, err := n.take(ctx)
		if err != nil || e.View != nil && e.View.Rank >= 0 {
			return e, err
		}
	}
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
		return errNoView
	}
	if !n.call(func() { err = n.core.SetReady(fence, payload) }) {
		return ErrClosed
	}
	return err
}

// Next waits for the entry that ends the current attempt. It returns each once, in the log's order; after the last, a
// *StoppedError, ErrDone or ErrLeft. The caller must not change anything in it.
func (n *Node) Next(ctx context.Context) (Entry, error) {
	n.mu.Lock()
	viewed := n.view != nil
	n.mu.Unlock()
	if !viewed {
		return Entry{}, errNoView
	}
	return n.take(ctx)
}

// take waits for the next entry that concerns this member, which is the caller's from then on.
func (n *Node) take(ctx context.Context) (e Entry, err error) {
	err = n.await(ctx, func() bool {
		if len(n.entries) == 0 {
			return false
		}
		e, n.entries = n.entries[0], n.entries[1:]
		n.fence = e.Fence
		if e.View != nil {
			n.view = e.View
		}
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
		if err == nil && n.away {
			err = ErrLeft
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

// Context ends when the run has ended before it was done, with Err as its cause, or when the node is closed.
func (n *Node) Context() context.Context { return n.life }

// Err is why the run has ended before it was done, or nil.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Members are those that the log has admitted so far, this one included, in no order.
func (n *Node) Members() []Member {
	var list []Member
	for _, m := range n.known.Load().members {
		list = append(list, m)
	}
	return list
}

// SetSaved says which is the newest checkpoint of the run that this member can read, all by itself, or "": the run can go
// back to it when nobody is left who holds some part of the model.
func (n *Node) SetSaved(name string) { n.call(func() { n.core.SetSaved(name) }) }

// SetPhase tells what the caller is doing, for the others to see whom the run waits for; cheap. In phase "reduce" it
// waits for gradients of unit.
func (n *Node) SetPhase(name string, unit int) { n.doing.Store(&phase{name, unit}) }

// Leave asks the others to take over what this member holds, and to go on without it; reason is for them to read. It
// returns at once, Left tells when this member is out.
func (n *Node) Leave(reason string) {
	n.mu.Lock()
	if n.leaving.IsZero() {
		n.leaving = time.Now()
	}
	n.mu.Unlock()
	n.call(func() { n.core.Leave(reason) })
}

// Left is closed when this member has left: nothing depends on it any more.
func (n *Node) Left() <-chan struct{} { return n.left }

// Deserted says that this member has left and that nobody stayed: all others left or ended, too.
func (n *Node) Deserted() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.deserted
}

// Close ends this peer's part. If the run is done it waits up to 8 s for the others to know that it is over, so that nobody
// is missed who should still hear it; before the first view it waits up to 4 s for the others to take note. In a run that
// is under way it goes at once, and is missed, unless it has left before. It returns when all goroutines have ended, and
// may be called twice.
func (n *Node) Close() error {
	n.close.Do(func() {
		n.mu.Lock()
		wait := closeWait
		switch {
		case n.done:
			wait = doneWait
		case n.view != nil:
			wait = 0
		}
		n.mu.Unlock()
		if wait > 0 {
			n.Leave("its process ended")
		}
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-n.finished:
		case <-n.left:
		case <-timer.C:
		}
		for _, p := range []string{wire.ControlProtocol, wire.RelayProtocol} {
			n.cfg.Transport.Handle(p, nil)
		}
		n.call(n.finishLinks)
		n.update(func() { n.closed = true })
		n.awaitLinks()
		n.stop()
		n.exchange.close()
		n.tasks.Wait()
	})
	return nil
}
