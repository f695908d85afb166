package member

import (
	"slices"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// applyRecord applies an entry to the state and tells what came of it.
func (c *Core) applyRecord(index uint64, r *record) {
	var why string
	if r.Kind == recordAdmit {
		why = c.st.refuse(*r.Member)
	}
	before := *c.st
	changed := c.st.apply(index, r)
	if c.cfg.broken.fillersOwn {
		c.st.have = c.st.have.Apply(c.st.fills)
	}
	if r.Kind == recordAdmit {
		c.answer(r.Member.ID, changed, why)
	}
	if !changed {
		return
	}
	c.membersChanged(before.Members, r.Reason)
	switch r.Kind {
	case recordAdmit, recordLeave:
	case recordStop:
		c.endStop(index)
	default:
		c.measure(entryKinds[r.Kind], len(before.fills) > 0)
		c.startOver(before.Restored)
		if before.rank(c.cfg.ID) >= 0 || c.st.rank(c.cfg.ID) >= 0 || r.Kind == recordDone {
			c.event(Ended{c.st.entry(c.cfg.ID)})
		}
		if r.Kind == recordDone {
			c.endDone(index)
		}
	}
	c.checkOut(r.Reason)
}

// membersChanged tells everybody whom it concerns that the members are not those that they were.
func (c *Core) membersChanged(before []Member, why string) {
	same := func(a, b Member) bool { return a.ID == b.ID }
	if slices.EqualFunc(before, c.st.Members, same) {
		return
	}
	for _, m := range before {
		if _, ok := c.st.find(m.ID); !ok && c.isLeader() && m.ID != c.cfg.ID {
			c.sayGone(m.ID, why) // the log can't tell it any more (PROTOCOL.md 16)
		}
	}
	c.meet()
	c.beatTo(c.Leader()) // it waits to hear that everybody knows
	c.event(Waiting{Have: len(c.st.Members), Want: c.st.Peers})
}

// checkOut ends this member's part once it is no member any more, or leaving and the only one.
func (c *Core) checkOut(why string) {
	if _, ok := c.st.find(c.cfg.ID); !ok {
		c.gone(c.log.applied, why)
		return
	}
	c.leaveEmpty()
}

func (c *Core) endDone(index uint64) {
	c.over, c.endAt = true, index
	c.beat()
}

func (c *Core) endStop(index uint64) {
	s := Stopped{Rank: -1, Reason: c.st.Stop.Reason}
	if m, ok := c.st.find(c.st.Stop.ID); ok {
		s.Peer, s.Rank = m.Peer, c.st.rank(m.ID)
	}
	c.stop(s)
	c.endAt = index
	c.beat()
}

// meet keeps one peer for each other member, and when each fault was seen.
func (c *Core) meet() {
	for _, m := range c.st.Members {
		if m.ID != c.cfg.ID && c.peers[m.ID] == nil {
			c.peers[m.ID] = &peer{heard: c.tick}
		}
	}
	for id := range c.peers {
		if _, ok := c.st.find(id); !ok {
			delete(c.peers, id)
		}
	}
	seen := map[uint64]uint64{}
	for _, f := range c.st.Faults {
		seen[f.Index] = c.tick
		if at, ok := c.faults[f.Index]; ok {
			seen[f.Index] = at
		}
	}
	c.faults = seen
}

// restore takes over a leader's snapshot, which is what happens to a member whose next entries the leader has compacted.
func (c *Core) restore(s *raftpb.Snapshot) {
	st, err := decodeState(s.GetData())
	if err != nil {
		panic(err)
	}
	if err := c.storage.ApplySnapshot(s); err != nil {
		panic(err)
	}
	index := s.GetMetadata().GetIndex()
	c.conf = s.GetMetadata().GetConfState()
	c.log = logProgress{applied: index, term: s.GetMetadata().GetTerm(), snapshot: index, kept: index}
	c.jump(st)
}

// jump goes on with a state that entries have led to which this member hasn't seen. It can have missed one attempt's
// Commit, Retry or Done at most, since those wait for its Ready, but any number of views and late attempts; so it gets one
// entry that says all that matters (PROTOCOL.md 23).
func (c *Core) jump(st *state) {
	before := c.st
	c.st = st
	c.st.broken = c.cfg.broken
	c.membersChanged(before.Members, st.Reason)
	switch {
	case st.Stop != nil:
		c.endStop(c.log.applied)
	case st.Fence == before.Fence:
	case st.Last == recordDone:
		c.event(Ended{st.entry(c.cfg.ID)})
		c.endDone(c.log.applied)
	default:
		c.measure(EntryView, false)
		c.startOver(before.Restored)
		if before.rank(c.cfg.ID) >= 0 || st.rank(c.cfg.ID) >= 0 {
			e, v := st.entry(c.cfg.ID), st.current(c.cfg.ID)
			e.Kind, e.View = EntryView, &v
			c.event(Ended{e})
		}
	}
	c.checkOut(st.Reason)
}

// answer tells the caller of Admit what the log says.
func (c *Core) answer(id uint64, admitted bool, why string) {
	if !c.lead.admits[id] {
		return
	}
	delete(c.lead.admits, id)
	if !admitted {
		c.event(Refused{ID: id, Reason: why})
		return
	}
	c.meet()
	c.peers[id].index = c.log.applied // by the snapshot
	b, err := proto.Marshal(c.takeSnapshot())
	if err != nil {
		panic(err)
	}
	c.event(Admitted{ID: id, Snapshot: b})
}
