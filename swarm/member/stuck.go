package member

import (
	"fmt"
	"slices"
	"strings"
)

// stuck is why the run can't go on, as far as this member sees.
type stuck struct {
	reason  string
	lacking uint64 // tick since when no living member holds some range; 0: it isn't so
}

// watch looks whether the run is stuck, and says so when that has changed. Voters that were stopped or cut off
// may come back (PROTOCOL.md 19), so nobody gives up because of them.
func (c *Core) watch() {
	if c.over {
		return
	}
	if c.isLeader() {
		c.contact = max(c.contact, c.quorumHeard())
	}
	lost, reason := c.lostInView(), ""
	unheld := c.unheld(lost)
	if unheld == 0 {
		c.stuck.lacking = 0
	} else if c.stuck.lacking == 0 {
		c.stuck.lacking = c.tick
	}
	switch {
	case c.CutOff():
		c.giveUp()
		lost = c.lostMembers()
		reason = c.lostContact(lost, unheld)
	case unheld > 0:
		reason = c.nobodyHolds(unheld, lost)
		if saved, _ := c.st.newest(c.livingInView(), c.reads); saved != nil {
			reason += fmt.Sprintf(": unless that comes back, the run goes back to the checkpoint of step %d", saved.Step)
		}
	}
	if c.over || reason == c.stuck.reason {
		return
	}
	c.stuck.reason = reason
	if reason == "" {
		lost = nil
	}
	c.event(Stuck{Missing: lost, Reason: reason})
}

// unheld counts the ranges that nobody but lost holds.
func (c *Core) unheld(lost []Member) (n int) {
	if len(lost) == 0 {
		return 0
	}
	dead := make([]bool, len(c.st.ViewIDs))
	for _, m := range lost {
		dead[c.st.rank(m.ID)] = true
	}
	for i := range c.st.have.Owner {
		gone := true
		for r := range c.st.have.Holders(i) {
			gone = gone && dead[r]
		}
		if gone {
			n++
		}
	}
	return n
}

// lostMembers are all members that are lost, by admission.
func (c *Core) lostMembers() (list []Member) {
	for _, m := range c.st.Members {
		if p := c.peers[m.ID]; p != nil && c.lost(p) {
			list = append(list, m)
		}
	}
	return list
}

// CutOff says whether no leader with a quorum has been seen for too long: nothing can be decided then, also not that
// somebody was lost. Where so many voters are known to be gone that there can't be a quorum, there is less to wait for.
func (c *Core) CutOff() bool {
	limit := c.cfg.Timing.Stuck
	if c.quorumDown() {
		limit = c.cfg.Timing.Down
	}
	return c.tick-c.contact >= uint64(limit)
}

// giveUp ends this member's part if the processes have ended that alone held some range, and so many voters with them that
// the log can't say so. Not where somebody has a checkpoint who may live: the others may go back to that, with a quorum, or
// this member by a recovery.
func (c *Core) giveUp() {
	if c.stuck.lacking == 0 || c.tick-c.stuck.lacking < uint64(c.cfg.Timing.LostAfter) {
		return
	}
	var dead []Member
	for _, m := range c.lostInView() {
		if c.peers[m.ID].dead {
			dead = append(dead, m)
		}
	}
	may := slices.DeleteFunc(slices.Clone(c.st.ViewIDs), func(id uint64) bool { return c.peers[id] != nil && c.peers[id].dead })
	if saved, _ := c.st.newest(may, c.reads); saved != nil {
		return
	}
	if unheld := c.unheld(dead); unheld > 0 {
		c.stop(Stopped{Peer: dead[0].Peer, Rank: c.st.rank(dead[0].ID), Local: true, Reason: c.nobodyHolds(unheld, dead) + ": " + c.cfg.LastResort})
	}
}

func (c *Core) nobodyHolds(unheld int, lost []Member) string {
	return fmt.Sprintf("nobody else holds %d of %d ranges of the model that %s had", unheld, len(c.st.ranges), c.names(lost))
}

func (c *Core) lostContact(missing []Member, unheld int) string {
	if len(missing) == 0 {
		return "no leader was found although all peers answer"
	}
	why, help := c.votersInWords(), "shoal recover goes on without it"
	if unheld > 0 {
		why += fmt.Sprintf(", and nobody else holds %d of %d ranges of the model", unheld, len(c.st.ranges))
		help = c.cfg.LastResort
		if saved, _ := c.st.newest(c.livingInView(), c.reads); saved != nil {
			help = fmt.Sprintf("shoal recover goes back to the checkpoint of step %d", saved.Step)
		}
	}
	return fmt.Sprintf("waiting for %s, without which the run can't go on (%s); if that is gone for good, %s", c.names(missing), why, help)
}

func (c *Core) names(members []Member) string {
	var names []string
	for _, m := range members {
		names = append(names, c.st.place(m.ID))
	}
	return strings.Join(names, " and ")
}

// votersInWords says why the log can't go on without those that are missing.
func (c *Core) votersInWords() string {
	n := len(c.conf.GetVoters())
	if n == 1 {
		return fmt.Sprintf("with %d peers there is one voter", len(c.st.Members))
	}
	return fmt.Sprintf("more than half of its %d voters must be there", n)
}

// quorumDown says whether the links to so many voters are known to be broken that the others are no majority.
func (c *Core) quorumDown() bool {
	for _, voters := range [][]uint64{c.conf.GetVoters(), c.conf.GetVotersOutgoing()} {
		down := 0
		for _, id := range voters {
			if p := c.peers[id]; p != nil && p.down > 0 && c.lost(p) {
				down++
			}
		}
		if down > 0 && 2*(len(voters)-down) <= len(voters) {
			return true
		}
	}
	return false
}

// quorumHeard is the latest tick up to which a majority of the voters, this leader included, has been heard.
func (c *Core) quorumHeard() uint64 {
	oldest := c.tick
	for _, voters := range [][]uint64{c.conf.GetVoters(), c.conf.GetVotersOutgoing()} {
		var heard []uint64
		for _, id := range voters {
			switch p := c.peers[id]; {
			case id == c.cfg.ID:
				heard = append(heard, c.tick)
			case p != nil:
				heard = append(heard, p.heard)
			default:
				heard = append(heard, 0)
			}
		}
		if len(heard) > 0 {
			slices.Sort(heard)
			oldest = min(oldest, heard[(len(heard)-1)/2])
		}
	}
	return oldest
}
