package member

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"shoal/swarm/wire"
)

// leadership is what this member has proposed while it led in one term. A leader that stays one doesn't lose proposals.
type leadership struct {
	term     uint64
	since    uint64          // tick
	fence    uint64          // proposed what follows this fence ...
	decided  bool            // ... if this is set
	stopped  bool            // proposed Stop
	left     map[uint64]bool // proposed Leave for them
	admits   map[uint64]bool // proposed Admit for them and must answer
	confTick uint64          // when a configuration was proposed; 0: none is pending
}

func (c *Core) isLeader() bool {
	return c.rn != nil && c.rn.BasicStatus().RaftState == raft.StateLeader
}

// act does the next thing that is up to the leader and says whether it did something. A leader does nothing before it has
// applied an entry of its own term: until then it doesn't know what the leader before it has decided (PROTOCOL.md 2).
func (c *Core) act() bool {
	if !c.isLeader() || c.over && c.endAt == 0 {
		return false
	}
	status := c.rn.BasicStatus()
	if c.lead.term != status.GetTerm() {
		if c.tick-c.contact > uint64(c.cfg.Timing.Suspect) { // it was alone: that nobody was heard says nothing
			c.Resume()
		}
		c.lead = leadership{term: status.GetTerm(), since: c.tick, left: map[uint64]bool{}, admits: c.lead.admits}
	}
	switch {
	case c.log.term != c.lead.term && !c.cfg.broken.early || status.LeadTransferee != raft.None:
		return false
	case !slices.Contains(c.conf.GetVoters(), c.cfg.ID):
		return false // it leads until the voters have changed; those who come after must not lack entries of its own
	case c.over:
		return c.reconfigure() // so that who was admitted at the last moment hears of the end
	case c.lead.stopped:
		return false
	}
	if act := c.cfg.broken.act; act != nil && act(c) {
		return true
	}
	if !c.st.started() {
		return c.dismiss() || c.reconfigure() || c.handOver() || c.start()
	}
	return c.dismiss() || c.bury() || c.decide() || c.overdue() || c.reconfigure() || c.handOver()
}

func (c *Core) propose(r *record) bool {
	return c.rn.Propose(r.encode()) == nil
}

// Admit asks that a peer, given a random id by the caller, become a member; Admitted or Refused will answer if ok. If
// this member does not lead, or can't ask now, ok is false and the caller should try Leader, or later.
func (c *Core) Admit(m Member) (refused string, ok bool) {
	defer c.rescue()
	if c.rn == nil {
		return "", false
	}
	if c.buried(m) {
		c.settle()
		return "", false
	}
	if refused := c.st.refuse(m); refused != "" {
		return refused, true
	}
	if !c.isLeader() || c.over || c.log.term != c.rn.BasicStatus().GetTerm() || !c.propose(&record{Kind: recordAdmit, Member: &m}) {
		return "", false
	}
	if c.lead.admits == nil {
		c.lead.admits = map[uint64]bool{}
	}
	c.lead.admits[m.ID] = true
	c.settle()
	return "", true
}

// buried says whether m is a new incarnation of a member that doesn't answer any more. That one is dead then
// (PROTOCOL.md 13), and m can come in once it is out.
func (c *Core) buried(m Member) bool {
	for _, o := range c.st.Members {
		if p := c.peers[o.ID]; o.Peer == m.Peer && o.ID != m.ID && p != nil && (p.down > 0 || c.lost(p)) {
			p.dead = true
			return true
		}
	}
	return false
}

// departure says why m will not go on with the run, or "".
func (c *Core) departure(m Member) string {
	if p := c.peers[m.ID]; p != nil && c.lost(p) {
		c.cfg.Log.Debug("a member is lost", "peer", m.Peer, "silent", c.tick-p.heard, "down since", p.down, "dead", p.dead, "tick", c.tick)
		return text(c.st.place(m.ID) + " was lost")
	}
	if why := c.farewell(m.ID); why != "" {
		return text(fmt.Sprintf("%s left: %s", c.st.name(m.ID), why))
	}
	return ""
}

// farewell is why a member wants to leave, or "".
func (c *Core) farewell(id uint64) string {
	if p := c.peers[id]; p != nil {
		return p.leaving
	}
	if id == c.cfg.ID {
		return c.leaving
	}
	return ""
}

// dismiss takes out members that are leaving or lost and are in no view. Before the first view, the run ends with its
// creator.
func (c *Core) dismiss() (proposed bool) {
	for _, m := range c.st.Members {
		if c.st.rank(m.ID) >= 0 || c.lead.left[m.ID] {
			continue
		}
		creator := !c.st.started() && m.ID == c.st.Members[0].ID
		reason := c.departure(m)
		switch {
		case reason == "":
		case creator:
			return c.stopRun(m.ID, reason)
		case m.ID != c.cfg.ID && (c.farewell(m.ID) == "" || !c.votes(m.ID)): // who leads hands that over first, who votes that
			c.lead.left[m.ID] = c.propose(&record{Kind: recordLeave, ID: m.ID, Reason: reason})
			proposed = proposed || c.lead.left[m.ID]
		}
	}
	return proposed
}

// stopRun proposes that the run end with an error, about a member if id isn't 0.
func (c *Core) stopRun(id uint64, reason string) bool {
	c.lead.stopped = c.propose(&record{Kind: recordStop, ID: id, Reason: text(reason)})
	return c.lead.stopped
}

// start proposes the first view once everybody is there and the log has the voters that it will have. Who lacks the state
// that the run begins with comes in by the first Commit.
func (c *Core) start() bool {
	if c.busy() || len(c.st.Members) < c.st.Peers || !c.ready() {
		return false
	}
	var ids []uint64
	for i, m := range c.st.Members {
		if i == 0 || !m.Offer.Late {
			ids = append(ids, m.ID)
		}
	}
	p := c.afresh(ids)
	p.reason = "start"
	return c.proposeNext(p.record(recordView))
}

// bury proposes a view without those members of the current one that are lost, if others hold all that they held, and
// are a quorum: without one, only somebody who comes back could have the view committed, and would be expelled by it.
func (c *Core) bury() bool {
	dead := c.lostInView()
	if len(dead) == 0 || c.busy() || !c.expendable(raft.None) {
		return false
	}
	p := c.planned(false)
	if !p.without(dead) {
		if c.stuck.lacking == 0 || c.tick-c.stuck.lacking < uint64(c.cfg.Timing.LostAfter) {
			return false
		}
		return c.restoreWithout(dead) || c.stopRun(dead[0].ID, c.stuck.reason+": "+c.cfg.LastResort)
	}
	p.reason = c.departure(dead[0])
	if len(dead) > 1 {
		p.reason = fmt.Sprintf("%s, and %d more", p.reason, len(dead)-1)
	}
	p.fill()
	return c.proposeNext(p.record(recordView))
}

// decide proposes how the current attempt ends once every member of the view is done with it.
func (c *Core) decide() bool {
	readies := c.readies()
	if c.busy() || len(readies) < len(c.st.ViewIDs) {
		return false
	}
	d := c.cfg.Decide(c.st.Run, c.st.Payload, c.st.Work, readies)
	kind := d.Kind.record()
	if err := checkWork(d.Work, len(c.st.ViewIDs)); d.Work != nil && err != nil {
		return c.stopRun(0, "the leader's decision is wrong: "+err.Error())
	}
	if kind == 0 || len(d.Payload) > wire.MaxPayload {
		return c.stopRun(0, fmt.Sprintf("the leader's decision of kind %d with %d bytes is not allowed (at most %d bytes)", d.Kind, len(d.Payload), wire.MaxPayload))
	}
	if d.Saved != nil {
		if err := d.Saved.check(); err != nil {
			return c.stopRun(0, "the leader's decision is wrong: "+err.Error())
		}
	}
	if kind == recordStop {
		return c.proposeNext(&record{Kind: recordStop, Follows: c.st.Fence, Reason: text(string(d.Payload))})
	}
	p := c.planned(kind == recordCommit)
	if d.Work != nil {
		p.work = d.Work
	}
	switch kind {
	case recordCommit:
		p.regroup()
		p.fill()
	case recordRetry:
		p.fills = c.st.fills
	}
	r := p.record(kind)
	r.Body, r.Saved = d.Payload, d.Saved
	return c.proposeNext(r)
}

// readies are those of the first members of the view, by rank, up to one that isn't done with the current attempt.
func (c *Core) readies() (list [][]byte) {
	for _, id := range c.st.ViewIDs {
		payload, ok := c.readyOf(id)
		if !ok {
			break
		}
		list = append(list, payload)
	}
	return list
}

// readyOf is a member's Ready for the current attempt.
func (c *Core) readyOf(id uint64) (payload []byte, ok bool) {
	if p := c.peers[id]; p != nil {
		return p.ready, p.hasReady && p.fence == c.st.Fence
	}
	return c.own.payload, id == c.cfg.ID && c.own.set && c.own.fence == c.st.Fence
}

// busy says whether what follows the current fence has been proposed.
func (c *Core) busy() bool { return c.lead.decided && c.lead.fence == c.st.Fence }

func (c *Core) proposeNext(r *record) bool {
	c.lead.fence = c.st.Fence
	c.lead.decided = c.propose(r)
	return c.lead.decided
}
