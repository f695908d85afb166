package member

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
	"shoal/swarm/wire"
)

// confRetry is the number of ticks after which a change of voters and learners that hasn't been seen in the
// configuration is proposed again: the library drops one silently while another is pending (PROTOCOL.md 18).
const confRetry = 5

// leadership is what this member has proposed while it led in one term. A leader that stays one doesn't lose proposals.
type leadership struct {
	term     uint64
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

// act does the next thing that is up to the leader and says whether it proposed something. A leader does nothing before
// it has applied an entry of its own term: until then it doesn't know what the leader before it has decided.
func (c *Core) act() bool {
	if !c.isLeader() || c.over {
		return false
	}
	if term := c.rn.BasicStatus().GetTerm(); c.lead.term != term {
		c.lead = leadership{term: term, left: map[uint64]bool{}, admits: c.lead.admits}
	}
	if c.log.term != c.lead.term {
		return false
	}
	if c.removeLost() {
		return true
	}
	if c.lead.stopped {
		return false
	}
	if !c.st.started() {
		return c.reconfigure() || c.start()
	}
	return c.decide()
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
	if refused := c.st.refuse(m); refused != "" {
		for _, o := range c.st.Members { // it may be the same peer's last process, soon found dead
			if p := c.peers[o.ID]; o.Peer == m.Peer && p != nil && p.down > 0 && !c.st.started() {
				return "", false
			}
		}
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

// farewell tells a member that it was taken out, which the log can't tell it any more (PROTOCOL.md 16).
func (c *Core) farewell(index uint64, r *record) {
	if r.ID == c.cfg.ID {
		c.stop(Stopped{Rank: -1, Local: true, Reason: "this peer left the run: " + r.Reason})
	} else if c.isLeader() {
		c.send(&Message{Kind: wire.ControlGone, To: r.ID, Index: index, Reason: r.Reason})
	}
}

// removeLost proposes what follows from members that are leaving or lost: before the first view they are taken out,
// after it the run ends.
func (c *Core) removeLost() (proposed bool) {
	for _, m := range c.st.Members {
		reason := c.departure(m)
		if reason == "" || c.lead.left[m.ID] || c.lead.stopped {
			continue
		}
		if !c.st.started() && m.ID != c.st.Members[0].ID {
			c.lead.left[m.ID] = c.propose(&record{Kind: recordLeave, ID: m.ID, Reason: reason})
			proposed = proposed || c.lead.left[m.ID]
			continue
		}
		c.lead.stopped = c.propose(&record{Kind: recordStop, ID: m.ID, Reason: reason})
		proposed = proposed || c.lead.stopped
	}
	return proposed
}

// departure says why m will not go on with the run, or "".
func (c *Core) departure(m Member) string {
	why := c.leaving
	if p := c.peers[m.ID]; p != nil {
		why = p.leaving
		if why == "" && c.lost(p) {
			c.cfg.Log.Debug("a member is lost", "peer", m.Peer, "silent", c.tick-p.heard, "down since", p.down, "tick", c.tick)
			return c.st.place(m.ID) + " was lost"
		}
	}
	if why == "" {
		return ""
	}
	return text(fmt.Sprintf("%s left: %s", c.st.name(m.ID), why))
}

// start proposes the first view once everybody is there and the log has the voters that it will have.
func (c *Core) start() bool {
	if c.lead.decided || len(c.st.Members) < c.st.Peers || !c.ready() {
		return false
	}
	r := &record{Kind: recordView, Follows: c.st.Fence, Number: c.st.Number + 1, Reason: "start"}
	for _, m := range c.st.Members {
		r.IDs = append(r.IDs, m.ID)
	}
	return c.proposeNext(r)
}

// decide proposes how the current attempt ends once every member of the view is done with it.
func (c *Core) decide() bool {
	if c.lead.decided && c.lead.fence == c.st.Fence {
		return false
	}
	var readies [][]byte
	for _, id := range c.st.ViewIDs {
		fence, payload, set := c.own.fence, c.own.payload, c.own.set
		if p := c.peers[id]; p != nil {
			fence, payload, set = p.fence, p.ready, p.hasReady
		}
		if !set || fence != c.st.Fence {
			return false
		}
		readies = append(readies, payload)
	}
	d := c.cfg.Decide(c.st.Payload, readies)
	r := &record{Kind: d.Kind.record(), Follows: c.st.Fence, Body: d.Payload}
	switch {
	case r.Kind == 0 || len(d.Payload) > wire.MaxPayload:
		r = &record{Kind: recordStop, Reason: fmt.Sprintf("the leader's decision of kind %d with %d bytes is not allowed (at most %d bytes)", d.Kind, len(d.Payload), wire.MaxPayload)}
	case r.Kind == recordStop:
		r.Reason, r.Body = text(string(d.Payload)), nil
	}
	return c.proposeNext(r)
}

func (c *Core) proposeNext(r *record) bool {
	c.lead.fence = c.st.Fence
	c.lead.decided = c.propose(r)
	return c.lead.decided
}

// reconfigure proposes the voters and learners that the members call for, if the log has others: every member is at
// least a learner; with three daemons that have caught up there are three voters, made so by one joint change; before
// that the leader alone votes.
func (c *Core) reconfigure() bool {
	changes := c.confChanges()
	if len(changes) == 0 || c.lead.confTick > 0 && c.tick-c.lead.confTick < confRetry {
		return false
	}
	if err := c.rn.ProposeConfChange(&raftpb.ConfChangeV2{Changes: changes}); err != nil {
		return false
	}
	c.lead.confTick = max(c.tick, 1)
	return true
}

func (c *Core) confChanges() (changes []*raftpb.ConfChangeSingle) {
	if len(c.conf.GetVotersOutgoing()) > 0 { // joint: the library leaves that by itself
		return nil
	}
	change := func(t raftpb.ConfChangeType, id uint64) {
		changes = append(changes, &raftpb.ConfChangeSingle{Type: t.Enum(), NodeId: new(id)})
	}
	voters, want := c.conf.GetVoters(), c.wantedVoters()
	for _, id := range slices.Concat(voters, c.conf.GetLearners()) {
		if _, ok := c.st.find(id); !ok {
			change(raftpb.ConfChangeRemoveNode, id)
		}
	}
	for _, m := range c.st.Members {
		votes, wanted := slices.Contains(voters, m.ID), slices.Contains(want, m.ID)
		switch {
		case wanted && !votes:
			change(raftpb.ConfChangeAddNode, m.ID)
		case !wanted && (votes || !slices.Contains(c.conf.GetLearners(), m.ID)):
			change(raftpb.ConfChangeAddLearnerNode, m.ID)
		}
	}
	return changes
}

// wantedVoters are three daemons, those that vote already first, the leader in front; or this leader alone. A daemon
// counts once it is a learner that has caught up, and once everybody has applied its admission: a member refuses streams
// from strangers, so one that doesn't know its leader would never hear of it.
func (c *Core) wantedVoters() []uint64 {
	caughtUp, introduced := c.caughtUp(), c.introduced()
	var fit []uint64
	for _, m := range c.st.Members {
		if m.Offer.Kind == "daemon" && (introduced && caughtUp[m.ID] || slices.Contains(c.conf.GetVoters(), m.ID)) {
			fit = append(fit, m.ID)
		}
	}
	if len(fit) < 3 {
		return []uint64{c.cfg.ID}
	}
	slices.SortStableFunc(fit, func(a, b uint64) int { return c.preference(a) - c.preference(b) })
	return fit[:3]
}

func (c *Core) preference(id uint64) int {
	switch {
	case id == c.cfg.ID:
		return 0
	case slices.Contains(c.conf.GetVoters(), id):
		return 1
	}
	return 2
}

// caughtUp are the members that follow the log closely.
func (c *Core) caughtUp() map[uint64]bool {
	up := map[uint64]bool{c.cfg.ID: true}
	c.rn.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if pr.State == tracker.StateReplicate && pr.Match >= c.log.snapshot {
			up[id] = true
		}
	})
	return up
}

// introduced says whether every member has applied the last admission.
func (c *Core) introduced() bool {
	for _, p := range c.peers {
		if p.index < c.st.Joined {
			return false
		}
	}
	return true
}

// ready says whether everybody follows the log and it has the voters that it is to have.
func (c *Core) ready() bool {
	daemons, caughtUp := 0, c.caughtUp()
	for _, m := range c.st.Members {
		if m.Offer.Kind == "daemon" {
			daemons++
		}
		if !caughtUp[m.ID] {
			return false
		}
	}
	return len(c.confChanges()) == 0 && len(c.conf.GetVotersOutgoing()) == 0 && (daemons < 3 || len(c.conf.GetVoters()) == 3)
}
