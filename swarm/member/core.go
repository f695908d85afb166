package member

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"shoal/internal/place"
	"shoal/swarm/wire"
)

// Message goes from one member to another; its kind is ControlRaft, ControlBeat, ControlReady or ControlGone.
type Message = wire.Control

// Config is what a Core is made from. Zero values of the numbers mean their defaults.
type Config struct {
	ID uint64 // one's own member id

	Snapshot []byte  // joiner: from Admitted; nil for the creator
	Genesis  Genesis // creator: what the run begins with

	// Decide is called on the leader with the run's description, the payload of the last Commit or Retry (nil at first, and
	// after a Restore), the current attempt's work and everybody's Ready, both in rank order, and says how the attempt ends.
	// It must be a pure function and leave its arguments alone.
	Decide func(run, prev []byte, work []int64, readies [][]byte) Decision

	// LastResort is what a user can do once nobody is left who holds some part of the model.
	LastResort string

	Timing Timing
	Log    *slog.Logger // Raft's own messages, at debug level; nil drops them

	SnapshotEntries int // entries applied between two snapshots of the log; default 64: members of a view are one or two behind
	SnapshotBytes   int // or their bytes, if reached before; default 8 MiB

	broken broken // rules that a test has turned off
}

// Genesis is the state of a new run.
type Genesis struct {
	Self    Member        // the creator
	Peers   int           // members that the first view waits for, the creator included
	Exact   bool          // admit only the creator's kernel fingerprint
	Run     []byte        // the run's description, for joiners; at most wire.MaxRun
	Ranges  []place.Range // what the model is cut into, at most MaxRanges
	Backups int           // further holders of each range, or place.All
	Saved   *Saved        // the checkpoint that it goes on from, if it does
}

// Output is what a Core asks of its caller. The caller owns it.
type Output struct {
	Messages []*Message // to the members in To
	Events   []Event    // in this order
}

// Event is something that the log has decided or that this member has found out.
type Event interface{ event() }

type (
	// Waiting tells that the members have changed, how many there are, and how many the first view waits for.
	Waiting struct{ Have, Want int }
	// Admitted answers Admit: the peer is now member ID and starts from Snapshot.
	Admitted struct {
		ID       uint64
		Snapshot []byte
	}
	// Refused answers Admit: the peer isn't let in, for a reason that a user understands.
	Refused struct {
		ID     uint64
		Reason string
	}
	// Ended tells that an attempt has ended, and with it which one comes next. The first one is the first view that this
	// member is in; the one with a view that it is not in is the last.
	Ended struct{ Entry Entry }
	// Stuck tells that the run can't go on, or that it does again: then Reason is "". It comes when Reason has changed.
	Stuck struct {
		Missing []Member // whom the run waits for, as far as that is known
		Reason  string   // one line
	}
	// Stopped tells that the run has ended with an error, or that this member is out of it. Nothing comes after it.
	Stopped struct {
		Peer   string // whom it is about, or ""
		Rank   int    // that one's rank, or -1
		Reason string // one line that names it
		Local  bool   // the log doesn't say so: it is broken, or this member is out
		Gone   bool   // this member was taken out of the run, which goes on without it
	}
)

func (Waiting) event()  {}
func (Admitted) event() {}
func (Refused) event()  {}
func (Ended) event()    {}
func (Stuck) event()    {}
func (Stopped) event()  {}

// Core is one member's part of the run's log. It is not safe for concurrent use.
type Core struct {
	cfg     Config
	rn      *raft.RawNode
	storage *raft.MemoryStorage
	conf    *raftpb.ConfState // as applied
	st      *state
	log     logProgress

	tick     uint64 // executed so far
	contact  uint64 // tick of the last sign of a leader and its quorum
	peers    map[uint64]*peer
	own      ownReady
	waits    waits  // this member's own
	saved    string // name of the newest checkpoint that this member can read, or ""
	leaving  string // why this member is leaving, or ""
	deserted bool   // it has left, and nobody stayed
	lead     leadership
	pace     pace
	stuck    stuck
	election election
	faults   map[uint64]uint64 // log index of a fault -> tick when it was applied

	over  bool   // Stopped was given, Done applied, or this member has left
	left  bool   // it was because this member has left
	endAt uint64 // log index of what ended the run; 0 when only this member's part has ended
	out   Output
}

// peer is what is known of another member by itself, outside the log.
type peer struct {
	heard    uint64 // tick of its last message
	down     uint64 // tick since when its link has been known to be broken; 0: it isn't
	dead     bool   // its process is known to have ended
	index    uint64 // log index that it has applied, by its last beat
	waits    waits  // by its last beat
	leaving  string // why it is leaving, or ""
	saved    string // by its last beat: the newest checkpoint that it can read
	fence    uint64 // of ready
	ready    []byte
	hasReady bool
}

// waits says what a member is doing in an attempt, and whom it waits for.
type waits struct {
	fence uint64
	phase string
	unit  int
	ids   []uint64
}

// ownReady is this member's Ready, which is repeated until the fence changes.
type ownReady struct {
	fence   uint64
	payload []byte
	set     bool
	to      uint64 // the leader that it was last sent to
	tick    uint64 // when
	known   bool   // that leader has said that it has it
}

// New makes the Core of a run's creator, or of a member that was admitted. The creator leads at once.
func New(cfg Config) (*Core, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Core{cfg: cfg, peers: map[uint64]*peer{}, faults: map[uint64]uint64{}, pace: newPace()}
	snapshot, st, err := cfg.firstSnapshot()
	if err != nil {
		return nil, err
	}
	c.st = st
	c.st.broken = cfg.broken
	if err := c.openLog(snapshot); err != nil {
		return nil, err
	}
	c.meet()
	c.event(Waiting{Have: len(c.st.Members), Want: c.st.Peers})
	if cfg.Snapshot == nil {
		if err := c.rn.Campaign(); err != nil {
			return nil, fmt.Errorf("member: start the log: %w", err)
		}
	}
	c.settle()
	return c, nil
}

func (c *Config) validate() error {
	switch {
	case !ValidID(c.ID):
		return fmt.Errorf("member: id %#x is reserved", c.ID)
	case c.Decide == nil:
		return errors.New("member: Config.Decide is missing")
	case c.Snapshot == nil && (c.Genesis.Peers < 1 || c.Genesis.Peers > MaxPeers):
		return fmt.Errorf("member: a run of %d peers, must be 1 to %d", c.Genesis.Peers, MaxPeers)
	case len(c.Genesis.Ranges) > MaxRanges:
		return fmt.Errorf("member: a model of %d ranges, at most %d", len(c.Genesis.Ranges), MaxRanges)
	case c.Genesis.Backups < place.All || c.Genesis.Backups > MaxPeers:
		return fmt.Errorf("member: %d backups, must be 0 to %d, or %d for all", c.Genesis.Backups, MaxPeers, place.All)
	case len(c.Genesis.Run) > wire.MaxRun:
		return fmt.Errorf("member: the run's description has %d bytes, at most %d", len(c.Genesis.Run), wire.MaxRun)
	case c.Genesis.Saved != nil && c.Genesis.Saved.check() != nil:
		return fmt.Errorf("member: %w", c.Genesis.Saved.check())
	}
	if c.SnapshotEntries == 0 {
		c.SnapshotEntries = 64
	}
	if c.SnapshotBytes == 0 {
		c.SnapshotBytes = 8 << 20
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c.Timing.validate()
}

// Step takes a message. m.From must be the member whose stream it came on; m is the Core's from now on.
func (c *Core) Step(m *Message) {
	defer c.rescue()
	if c.rn == nil || m.To != c.cfg.ID || m.From == c.cfg.ID {
		return
	}
	p := c.peers[m.From]
	if p != nil {
		p.heard = c.tick
	}
	switch {
	case m.Kind == wire.ControlGone:
		c.gone(m.Index, m.Reason)
	case c.Removed(m.From):
		c.sayGone(m.From, "it was taken out of the run, and may join again")
	case m.Kind == wire.ControlRaft:
		c.stepRaft(m)
	case p == nil: // a stranger
	case m.Kind == wire.ControlReady:
		p.takeReady(m.Fence, m.Body)
	case m.Kind == wire.ControlBeat:
		c.stepBeat(p, m)
	}
	c.settle()
}

func (c *Core) stepBeat(p *peer, m *Message) {
	p.index = max(p.index, m.Index)
	c.snapshotArrived(m.From, m.Index)
	p.waits, p.saved = waits{m.Fence, m.Phase, m.Unit, m.IDs}, m.Saved
	if m.Reason != "" {
		p.leaving = m.Reason
	}
	if m.Have && m.From == c.Leader() && m.Fence == c.own.fence {
		c.own.known = true
	}
}

// takeReady keeps a member's newest Ready. A Ready may be ahead of one's own log: then it waits here.
func (p *peer) takeReady(fence uint64, payload []byte) {
	if !p.hasReady || fence > p.fence {
		p.fence, p.ready, p.hasReady = fence, payload, true
	}
}

// Tick lets one tick pass.
func (c *Core) Tick() {
	defer c.rescue()
	if c.rn == nil {
		return
	}
	c.tick++
	c.rn.Tick()
	c.hurry()
	c.settle()
	if c.tick%uint64(c.cfg.Timing.Beat) == 0 {
		c.beat()
	}
	c.watch()
	c.leaveEmpty()
	c.settle()
}

// settle does everything that follows from what has just happened.
func (c *Core) settle() {
	if c.rn == nil {
		return
	}
	for c.drive(); c.act(); {
		c.drive()
	}
	c.sendReady()
}

// SetReady says that this member is done with the attempt that fence names. payload must not be changed any more.
func (c *Core) SetReady(fence uint64, payload []byte) error {
	defer c.rescue()
	if len(payload) > wire.MaxPayload {
		return fmt.Errorf("member: Ready of %d bytes, at most %d: %w", len(payload), wire.MaxPayload, wire.ErrTooLong)
	}
	if fence != c.st.Fence || !c.st.started() || c.over {
		return nil // it has been decided meanwhile
	}
	c.own = ownReady{fence: fence, payload: payload, set: true}
	c.settle()
	return nil
}

// sendReady sends the own Ready to a new leader, and again when the leader doesn't say that it has it (PROTOCOL.md 5).
func (c *Core) sendReady() {
	lead := c.Leader()
	if !c.own.set || c.own.fence != c.st.Fence || lead == 0 || lead == c.cfg.ID || c.over {
		return
	}
	if c.cfg.broken.readyOnce && c.own.to != 0 {
		return
	}
	same := lead == c.own.to
	if same && (c.own.known || c.tick-c.own.tick < uint64(c.cfg.Timing.Resend)) {
		return
	}
	c.own.to, c.own.tick, c.own.known = lead, c.tick, false
	c.send(&Message{Kind: wire.ControlReady, To: lead, Fence: c.own.fence, Body: c.own.payload})
}

// SetWaiting says what this member is doing in the attempt that fence names, and whom it waits for to go on with that;
// ids must not be changed any more. Others are told by the next beat.
func (c *Core) SetWaiting(fence uint64, phase string, unit int, ids []uint64) {
	c.waits = waits{fence, phase, unit, ids[:min(len(ids), wire.MaxIDs)]}
}

// beat tells every other member how far this one is.
func (c *Core) beat() {
	for _, m := range c.st.Members {
		c.beatTo(m.ID)
	}
}

func (c *Core) beatTo(id uint64) {
	p := c.peers[id]
	if p == nil { // oneself, or nobody
		return
	}
	m := &Message{Kind: wire.ControlBeat, To: id, Fence: c.st.Fence, Index: c.log.applied, Reason: c.leaving, Saved: c.saved}
	m.Have = c.isLeader() && p.hasReady && p.fence == c.st.Fence
	if w := c.waits; w.fence == c.st.Fence {
		m.Phase, m.Unit, m.IDs = w.phase, w.unit, w.ids
	}
	c.send(m)
}

// Leave says that this member wants to go, and why. It goes with the next Commit once nobody needs what it holds; Left
// tells when.
func (c *Core) Leave(reason string) {
	defer c.rescue()
	if reason == "" {
		reason = "no reason given"
	}
	if c.leaving != "" || c.over {
		return
	}
	c.leaving = text(reason)
	c.beat()
	c.leaveEmpty()
	c.settle()
}

// leaveEmpty departs at once if nobody stays to whom anything could be handed over.
func (c *Core) leaveEmpty() {
	if c.leaving == "" || c.over {
		return
	}
	for _, m := range c.st.Members {
		if p := c.peers[m.ID]; p != nil && p.leaving == "" && !p.dead {
			return
		}
	}
	c.deserted = true
	c.depart()
}

// Deserted says that this member has left and that nobody stayed.
func (c *Core) Deserted() bool { return c.deserted }

// Left says that this member has left as it wished, and may end its process.
func (c *Core) Left() bool { return c.left }

func (c *Core) depart() { c.over, c.left = true, true }

// Removed says whether id was a member and is none any more: whoever hears from it, at a handshake too, should tell it so
// by a ControlGone with Applied as its index.
func (c *Core) Removed(id uint64) bool { return slices.Contains(c.st.Past, id) }

func (c *Core) sayGone(id uint64, reason string) {
	c.send(&Message{Kind: wire.ControlGone, To: id, Index: c.log.applied, Reason: text(reason)})
}

// gone takes in that this member is none any more, by the log up to index. What it has applied itself it knows better.
func (c *Core) gone(index uint64, reason string) {
	switch {
	case index <= c.log.applied && !c.Removed(c.cfg.ID) || c.over:
	case c.leaving != "":
		c.depart()
	default:
		c.stop(Stopped{Rank: -1, Local: true, Gone: true, Reason: "this peer was taken out of the run: " + reason})
	}
}

// Take returns what there is to send and to tell, and forgets it.
func (c *Core) Take() Output {
	out := c.out
	c.out = Output{}
	return out
}

func (c *Core) send(m *Message) {
	m.From = c.cfg.ID
	c.out.Messages = append(c.out.Messages, m)
}

func (c *Core) event(e Event) { c.out.Events = append(c.out.Events, e) }

// stop ends the run on this member, once.
func (c *Core) stop(s Stopped) {
	if !c.over {
		c.over = true
		c.event(s)
	}
}

// rescue turns a panic of the Raft library, which is how it answers a log that contradicts itself, into the run's end.
func (c *Core) rescue() {
	if p := recover(); p != nil {
		c.cfg.Log.Error("the log is broken", "panic", p, "stack", string(debug.Stack()))
		c.rn = nil
		c.stop(Stopped{Rank: -1, Local: true, Reason: fmt.Sprintf("the run's log is broken: %v", p)})
	}
}

// Finished says that the run is over and that every other member knows it or can't be reached, so that this process may
// go (PROTOCOL.md 24).
func (c *Core) Finished() bool {
	if !c.over {
		return false
	}
	for _, p := range c.peers {
		if c.endAt > 0 && p.index < c.endAt && p.down == 0 && !c.lost(p) {
			return false
		}
	}
	return true
}
