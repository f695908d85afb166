package member

import (
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// confRetry is the number of ticks after which a change of voters and learners that hasn't been seen in the
// configuration is proposed again: the library drops one silently while another is pending (PROTOCOL.md 18).
const confRetry = 5

// reconfigure proposes the voters and learners that the members call for, if the log has others, by one joint change:
// every member is at least a learner, whoever is no member is nothing. A dead voter votes until a living one takes its
// place or it is no member any more, so at each moment there is the quorum that there was. Without a quorum nothing is
// proposed: it could come to pass later, when other members are there. Nor is it behind a view that is on its way.
func (c *Core) reconfigure() bool {
	changes := c.confChanges()
	if len(changes) == 0 || c.busy() || !c.quorumWithout(raft.None) || c.lead.confTick > 0 && (c.cfg.broken.confOnce || c.tick < c.lead.confTick+confRetry) {
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
		if _, ok := c.st.find(id); !ok && !slices.Contains(want, id) {
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

// votersFor is the number of voters among so many daemons: a majority that survives a death needs three, two deaths
// five.
func votersFor(daemons int) int {
	switch {
	case daemons >= 5:
		return 5
	case daemons >= 3:
		return 3
	}
	return 1
}

// wantedVoters are as many of the daemons as there may be voters: the leader, those that vote already, other living ones,
// and those that vote and are lost only if there is nobody else. A leader that is leaving needs another voter who can
// lead. While others are about to be fit, who votes goes on voting: fewer voters would survive fewer deaths.
func (c *Core) wantedVoters() []uint64 {
	fit, soon := c.fitVoters()
	slices.SortStableFunc(fit, func(a, b uint64) int { return c.preference(a) - c.preference(b) })
	n := votersFor(len(fit))
	if now := c.conf.GetVoters(); n < len(now) && n < votersFor(len(fit)+soon) {
		return now
	}
	if c.leaving != "" {
		n = max(n, min(2, len(fit)))
	}
	return fit[:n]
}

// fitVoters are the daemons that may vote: in the view, not leaving. One that doesn't vote yet must have caught up, and
// everybody must have applied its admission: a member refuses streams from strangers, so one that doesn't know its leader
// would never hear of it. soon counts those that only lack that.
func (c *Core) fitVoters() (fit []uint64, soon int) {
	caughtUp, introduced := c.caughtUp(), c.introduced()
	for _, m := range c.st.Members {
		may := m.Offer.Kind == "daemon" && c.farewell(m.ID) == "" && (c.st.rank(m.ID) >= 0 || !c.st.started())
		p := c.peers[m.ID]
		if p == nil || may && (c.votes(m.ID) || introduced && caughtUp[m.ID] && !c.lost(p)) { // nil: the leader itself
			fit = append(fit, m.ID)
		} else if may && !c.lost(p) {
			soon++
		}
	}
	return fit, soon
}

func (c *Core) preference(id uint64) int {
	votes := slices.Contains(c.conf.GetVoters(), id)
	switch {
	case id == c.cfg.ID:
		return 0
	case c.lost(c.peers[id]):
		return 3
	case votes:
		return 1
	}
	return 2
}

// votes says whether id is a voter, or still one while the voters change.
func (c *Core) votes(id uint64) bool {
	return slices.Contains(c.conf.GetVoters(), id) || slices.Contains(c.conf.GetVotersOutgoing(), id)
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

// introduced says whether every member that isn't lost has applied the last admission.
func (c *Core) introduced() bool {
	for _, p := range c.peers {
		if p.index < c.st.Joined && !c.lost(p) {
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
	return len(c.confChanges()) == 0 && len(c.conf.GetVotersOutgoing()) == 0 && len(c.conf.GetVoters()) == votersFor(daemons)
}

// expendable says whether the log can do without a member, or is rid of those that are lost (raft.None), as far as that
// can be said: while the voters are about to change, it can't.
func (c *Core) expendable(id uint64) bool { return c.lead.confTick == 0 && c.quorumWithout(id) }

// quorumWithout says whether a majority of the voters is heard without one of them.
func (c *Core) quorumWithout(id uint64) bool {
	for _, voters := range [][]uint64{c.conf.GetVoters(), c.conf.GetVotersOutgoing()} {
		here := 0
		for _, v := range voters {
			if p := c.peers[v]; v != id && (v == c.cfg.ID || p != nil && !c.lost(p)) {
				here++
			}
		}
		if len(voters) > 0 && 2*here <= len(voters) {
			return false
		}
	}
	return true
}

// handOver has another member lead when this one is leaving; without one that can, the run ends.
func (c *Core) handOver() bool {
	if c.leaving == "" {
		return false
	}
	for _, m := range c.st.Members {
		if m.ID != c.cfg.ID && m.Offer.Kind == "daemon" {
			return c.abdicate()
		}
	}
	return c.stopRun(c.cfg.ID, c.departure(Member{ID: c.cfg.ID})+"; nobody else can keep the run's log")
}

// abdicate has another voter lead, if there is one. While the voters change, that might be one that soon votes no more.
func (c *Core) abdicate() bool {
	if c.lead.confTick > 0 || len(c.conf.GetVotersOutgoing()) > 0 {
		return false
	}
	caughtUp := c.caughtUp()
	for _, m := range c.st.Members {
		p := c.peers[m.ID]
		if p != nil && slices.Contains(c.conf.GetVoters(), m.ID) && caughtUp[m.ID] && !c.lost(p) && p.leaving == "" {
			c.rn.TransferLeader(m.ID)
			return true
		}
	}
	return false
}

// election is what a voter does when it knows that the leader's process has ended.
type election struct {
	open bool   // there is to be one
	tick uint64 // when this member has last stood
}

// hurry stands for election at once if the leader is dead and no living voter has a lower id. Others that haven't noticed
// the death yet don't vote, so it is tried again.
func (c *Core) hurry() {
	lead := c.Leader()
	if p := c.peers[lead]; p != nil && p.dead {
		if err := c.rn.ForgetLeader(); err != nil {
			return
		}
		c.election.open, lead = true, 0
	}
	if lead != 0 {
		c.election = election{}
	}
	again := c.election.tick == 0 || c.tick >= c.election.tick+uint64(c.cfg.Timing.Beat)
	if !c.election.open || !again || !c.firstVoter() || c.rn.BasicStatus().RaftState == raft.StateCandidate {
		return
	}
	c.election.tick = max(c.tick, 1)
	if err := c.rn.Campaign(); err != nil {
		c.cfg.Log.Debug("could not stand for election", "err", err)
	}
}

// firstVoter says whether this member votes and no voter with a lower id lives.
func (c *Core) firstVoter() bool {
	for _, id := range slices.Sorted(slices.Values(c.conf.GetVoters())) {
		if id == c.cfg.ID {
			return true
		}
		if p := c.peers[id]; p != nil && !c.lost(p) {
			return false
		}
	}
	return false
}
