package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"shoal/swarm/wire"
)

const (
	maxAppend     = 1 << 20  // bytes of entries in one message, unless a single entry is longer
	maxUnsettled  = 16 << 20 // bytes of entries that are proposed and not yet committed
	maxInflight   = 64       // messages with entries on their way to one member
	maxPerMessage = 1 << 14  // entries in one message
	maxIndex      = 1 << 62  // of an entry, and of terms; no log gets there
)

// logProgress is how far the log has been applied and when it was last compacted.
type logProgress struct {
	applied, term uint64 // of the last applied entry
	snapshot      uint64 // index of the newest snapshot
	kept          uint64 // index of the newest one that was made to keep the log short
	entries       int    // applied since then
	bytes         int
}

// firstSnapshot is what the log begins with: the creator's genesis, or what a joiner was given.
func (c *Config) firstSnapshot() (*raftpb.Snapshot, *state, error) {
	b := c.Snapshot
	if b == nil {
		g := c.Genesis
		st := &state{Run: g.Run, Peers: g.Peers, Exact: g.Exact, Members: []Member{g.Self}, ranges: g.Ranges, Backups: g.Backups}
		st.save(g.Saved)
		b = snapshotOf(st, 1, 1, &raftpb.ConfState{Voters: []uint64{c.ID}})
	}
	return decodeSnapshot(b)
}

// snapshotOf encodes a state, where in the log it is, and who votes and who learns there.
func snapshotOf(st *state, index, term uint64, conf *raftpb.ConfState) []byte {
	s := &raftpb.Snapshot{Data: st.encode(), Metadata: &raftpb.SnapshotMetadata{Index: new(index), Term: new(term), ConfState: conf}}
	b, err := proto.Marshal(s)
	if err != nil {
		panic(err) // plain fields only: can't happen
	}
	return b
}

// decodeSnapshot is for what comes from the network.
func decodeSnapshot(b []byte) (*raftpb.Snapshot, *state, error) {
	s := &raftpb.Snapshot{}
	if err := (proto.UnmarshalOptions{RecursionLimit: 8}).Unmarshal(b, s); err != nil {
		return nil, nil, fmt.Errorf("member: snapshot of the log: %w", err)
	}
	m := s.GetMetadata()
	if m.GetIndex() == 0 || m.GetTerm() == 0 || m.GetIndex() > maxIndex || m.GetTerm() > maxIndex || len(m.GetConfState().GetVoters()) == 0 {
		return nil, nil, errors.New("member: snapshot of the log: no index, term or voters")
	}
	st, err := decodeState(s.GetData())
	if err != nil {
		return nil, nil, fmt.Errorf("member: %w", err)
	}
	return s, st, nil
}

// openLog begins a log with a snapshot.
func (c *Core) openLog(s *raftpb.Snapshot) (err error) {
	defer func() { // the library panics when voters and learners contradict each other
		if p := recover(); p != nil {
			err = fmt.Errorf("member: open the log: %v", p)
		}
	}()
	storage := raft.NewMemoryStorage()
	if err := storage.ApplySnapshot(s); err != nil {
		return fmt.Errorf("member: snapshot of the log: %w", err)
	}
	index, term := s.GetMetadata().GetIndex(), s.GetMetadata().GetTerm()
	if err := storage.SetHardState(&raftpb.HardState{Term: new(term), Vote: new(raft.None), Commit: new(index)}); err != nil {
		return fmt.Errorf("member: snapshot of the log: %w", err)
	}
	rn, err := raft.NewRawNode(&raft.Config{
		ID:                        c.cfg.ID,
		ElectionTick:              c.cfg.Timing.Election,
		HeartbeatTick:             1,
		Storage:                   storage,
		Applied:                   index,
		MaxSizePerMsg:             maxAppend,
		MaxUncommittedEntriesSize: maxUnsettled,
		MaxInflightMsgs:           maxInflight,
		MaxInflightBytes:          maxUnsettled,
		CheckQuorum:               true,
		PreVote:                   true,
		StepDownOnRemoval:         true,
		DisableProposalForwarding: true, // only a leader proposes, from what it has applied
		Logger:                    raftLogger{c.cfg.Log.With("member", fmt.Sprintf("%x", c.cfg.ID))},
	})
	if err != nil {
		return fmt.Errorf("member: open the log: %w", err)
	}
	c.rn, c.storage, c.conf = rn, storage, s.GetMetadata().GetConfState()
	c.log = logProgress{applied: index, term: term, snapshot: index, kept: index}
	return nil
}

// stepRaft takes a message of the library's own.
func (c *Core) stepRaft(m *Message) {
	if m.Generation != c.st.Generation { // of a log that has been left behind, or that this member has yet to adopt
		return
	}
	rm, err := decodeRaft(m.Body)
	if err == nil && (rm.GetFrom() != m.From || rm.GetTo() != c.cfg.ID) {
		err = errors.New("log message with a wrong sender or receiver")
	}
	if err != nil {
		c.cfg.Log.Warn("dropped a message", "from", m.From, "err", err)
		return
	}
	if err := c.rn.Step(rm); err != nil {
		c.cfg.Log.Debug("log message had no effect", "from", m.From, "err", err)
		return
	}
	switch rm.GetType() {
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
		if c.Leader() == m.From {
			c.contact = c.tick
		}
	}
}

// decodeRaft decodes a message and refuses those that only a process itself may step, or that cost far more memory
// decoded than encoded.
func decodeRaft(b []byte) (*raftpb.Message, error) {
	if n := countEntries(b); n > maxPerMessage {
		return nil, fmt.Errorf("log message with %d entries, at most %d", n, maxPerMessage)
	}
	m := &raftpb.Message{}
	if err := (proto.UnmarshalOptions{RecursionLimit: 8}).Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("log message: %w", err)
	}
	switch m.GetType() {
	case raftpb.MsgApp, raftpb.MsgAppResp, raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp,
		raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp, raftpb.MsgSnap, raftpb.MsgTimeoutNow:
	default:
		return nil, fmt.Errorf("log message of type %s is not for the network", m.GetType())
	}
	for i, e := range m.GetEntries() {
		if e.GetIndex() != m.GetIndex()+1+uint64(i) || e.GetTerm() == 0 || e.GetTerm() > m.GetTerm() {
			return nil, fmt.Errorf("log message: entry %d has index %d, term %d behind %d", i, e.GetIndex(), e.GetTerm(), m.GetIndex())
		}
	}
	if m.GetTerm() == 0 {
		return nil, errors.New("log message without a term")
	}
	return m, nil
}

// countEntries counts what repeats in an encoded message: field 7 (entries) and 14 (responses).
func countEntries(b []byte) int {
	n := 0
	for len(b) > 0 {
		num, _, size := protowire.ConsumeField(b)
		if size < 0 {
			return n
		}
		if num == 7 || num == 14 {
			n++
		}
		b = b[size:]
	}
	return n
}

// drive does what the library has ready: keep, send, apply.
func (c *Core) drive() {
	for c.rn != nil && c.rn.HasReady() {
		rd := c.rn.Ready()
		if !raft.IsEmptySnap(rd.Snapshot) {
			c.restore(rd.Snapshot)
		}
		if err := c.storage.Append(rd.Entries); err != nil {
			panic(err) // memory: never
		}
		if !raft.IsEmptyHardState(rd.HardState) {
			if err := c.storage.SetHardState(rd.HardState); err != nil {
				panic(err)
			}
		}
		for _, m := range rd.Messages {
			c.sendRaft(m)
		}
		for _, e := range rd.CommittedEntries {
			c.applyEntry(e)
		}
		c.rn.Advance(rd)
		c.compact()
	}
}

// sendRaft encodes at once: the library goes on to share the entries.
func (c *Core) sendRaft(m *raftpb.Message) {
	b, err := proto.Marshal(m)
	if err != nil {
		c.cfg.Log.Error("log message was not sent", "err", err)
		return
	}
	c.send(&Message{Kind: wire.ControlRaft, To: m.GetTo(), Generation: c.st.Generation, Body: b})
}

func (c *Core) applyEntry(e *raftpb.Entry) {
	c.log.applied, c.log.term = e.GetIndex(), e.GetTerm()
	c.log.entries++
	c.log.bytes += len(e.GetData())
	switch e.GetType() {
	case raftpb.EntryConfChangeV2:
		var cc raftpb.ConfChangeV2
		if err := proto.Unmarshal(e.GetData(), &cc); err != nil {
			panic(err)
		}
		c.conf = c.rn.ApplyConfChange(&cc)
		c.takeSnapshot() // a member ignores a snapshot in whose configuration it is not
		if !c.cfg.broken.confOnce {
			c.lead.confTick = 0 // seen: another may be proposed
		}
	case raftpb.EntryNormal:
		if len(e.GetData()) == 0 { // a leader's first, or in place of a configuration change that came too early
			return
		}
		r, err := decodeRecord(e.GetData())
		if err != nil {
			panic(err)
		}
		c.applyRecord(e.GetIndex(), r)
	}
}

// compact makes a snapshot now and then and drops the entries before the snapshot that came before it, so that a member
// that is a little behind can still be given entries.
func (c *Core) compact() {
	if c.log.entries < c.cfg.SnapshotEntries && c.log.bytes < c.cfg.SnapshotBytes {
		return
	}
	before := c.log.kept
	c.takeSnapshot()
	c.log.kept, c.log.entries, c.log.bytes = c.log.applied, 0, 0
	if err := c.storage.Compact(before); err != nil && !errors.Is(err, raft.ErrCompacted) {
		panic(err)
	}
}

// takeSnapshot makes the state as of now what new and lagging members start from.
func (c *Core) takeSnapshot() *raftpb.Snapshot {
	_, err := c.storage.CreateSnapshot(c.log.applied, c.conf, c.st.encode())
	if err != nil && !errors.Is(err, raft.ErrSnapOutOfDate) {
		panic(err)
	}
	s, err := c.storage.Snapshot()
	if err != nil {
		panic(err)
	}
	c.log.snapshot = c.log.applied
	return s
}

// snapshotArrived takes in that a member has applied index. The library sends nothing to a member to which a snapshot is
// under way; the member's answer may have been lost, and its sender alone learns of that.
func (c *Core) snapshotArrived(id, index uint64) {
	if !c.isLeader() {
		return
	}
	arrived := false
	c.rn.WithProgress(func(other uint64, _ raft.ProgressType, pr tracker.Progress) {
		arrived = arrived || other == id && pr.State == tracker.StateSnapshot && index >= pr.PendingSnapshot
	})
	if arrived {
		c.rn.ReportSnapshot(id, raft.SnapshotFinish)
	}
}

// Unreachable tells that messages to a member were dropped or may have been lost with their stream.
func (c *Core) Unreachable(id uint64) {
	defer c.rescue()
	if c.rn != nil {
		c.rn.ReportUnreachable(id)
		c.rn.ReportSnapshot(id, raft.SnapshotFailure)
		c.settle()
	}
}

// raftLogger sends the library's messages to slog, all at debug level; its panics stay panics (see rescue).
type raftLogger struct{ l *slog.Logger }

var _ raft.Logger = raftLogger{}

func (r raftLogger) print(v ...any) {
	if r.l.Enabled(context.Background(), slog.LevelDebug) {
		r.l.Debug(fmt.Sprint(v...))
	}
}

func (r raftLogger) printf(format string, v ...any) {
	if r.l.Enabled(context.Background(), slog.LevelDebug) {
		r.l.Debug(fmt.Sprintf(format, v...))
	}
}

func (r raftLogger) Debug(v ...any)                   { r.print(v...) }
func (r raftLogger) Debugf(format string, v ...any)   { r.printf(format, v...) }
func (r raftLogger) Info(v ...any)                    { r.print(v...) }
func (r raftLogger) Infof(format string, v ...any)    { r.printf(format, v...) }
func (r raftLogger) Warning(v ...any)                 { r.print(v...) }
func (r raftLogger) Warningf(format string, v ...any) { r.printf(format, v...) }
func (r raftLogger) Error(v ...any)                   { r.print(v...) }
func (r raftLogger) Errorf(format string, v ...any)   { r.printf(format, v...) }
func (r raftLogger) Fatal(v ...any)                   { panic(fmt.Sprint(v...)) }
func (r raftLogger) Fatalf(format string, v ...any)   { panic(fmt.Sprintf(format, v...)) }
func (r raftLogger) Panic(v ...any)                   { panic(fmt.Sprint(v...)) }
func (r raftLogger) Panicf(format string, v ...any)   { panic(fmt.Sprintf(format, v...)) }
