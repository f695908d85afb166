package member

import (
	"fmt"
	"slices"
	"strings"
)

// Timing is in ticks, which a Core counts itself: time in which the process does not run does not count.
type Timing struct {
	Beat     int // between two beats to each other member; default 5
	Election int // without a leader before voters elect one, up to twice that; default 10
	Resend   int // before a Ready that the leader hasn't confirmed is sent again; default 10
	Down     int // silent and its link known to be broken: lost; default 10
	Suspect  int // silent: lost; default 60
	GiveUp   int // without a leader that has a quorum: this member ends; default 85
}

// LAN is the default: with ticks of 100 ms, a peer whose connection was reset is lost after 1 s, one that is only silent
// after 6 s. A process that is killed is found by its reset; silence alone is also what a machine with far more
// processes than cores, or one that swaps, looks like for seconds at a time.
func LAN() Timing {
	return Timing{Beat: 5, Election: 10, Resend: 10, Down: 10, Suspect: 60, GiveUp: 85}
}

func (t *Timing) validate() error {
	lan := LAN()
	for _, f := range []struct {
		name  string
		value *int
		lan   int
	}{
		{"Beat", &t.Beat, lan.Beat}, {"Election", &t.Election, lan.Election}, {"Resend", &t.Resend, lan.Resend},
		{"Down", &t.Down, lan.Down}, {"Suspect", &t.Suspect, lan.Suspect}, {"GiveUp", &t.GiveUp, lan.GiveUp},
	} {
		if *f.value == 0 {
			*f.value = f.lan
		}
		if *f.value < 1 {
			return fmt.Errorf("member: Timing.%s is %d, must be positive", f.name, *f.value)
		}
	}
	if t.Election < 2 || t.Suspect <= 2*t.Beat || t.GiveUp <= t.Suspect {
		return fmt.Errorf("member: Timing %+v: want Election > 1, Suspect > 2*Beat, GiveUp > Suspect", *t)
	}
	return nil
}

// gone says whether a member is taken for lost that has been silent for so many ticks.
func (t Timing) gone(silent uint64, down bool) bool {
	return silent >= uint64(t.Suspect) || down && silent >= uint64(t.Down)
}

func (c *Core) lost(p *peer) bool { return c.cfg.Timing.gone(c.tick-p.heard, p.down > 0) }

// LinkDown tells that the stream to a member has broken or was refused; LinkUp, that there is one again.
func (c *Core) LinkDown(id uint64) {
	if p := c.peers[id]; p != nil && p.down == 0 {
		p.down = max(c.tick, 1)
	}
}

func (c *Core) LinkUp(id uint64) {
	if p := c.peers[id]; p != nil {
		p.down = 0
	}
}

// Alive tells that there was a sign of life from a member other than a message, such as a piece of a tensor: behind a
// bulk transfer over a slow link, its beats come late.
func (c *Core) Alive(id uint64) {
	if p := c.peers[id]; p != nil {
		p.heard = c.tick
	}
}

// Resume starts all deadlines afresh. It is to be called after a gap in which the process did not run, once everything
// that was received meanwhile has been stepped (PROTOCOL.md 14).
func (c *Core) Resume() {
	c.contact = c.tick
	for _, p := range c.peers {
		p.heard = c.tick
		if p.down > 0 {
			p.down = max(c.tick, 1)
		}
	}
}

// watch gives up when no leader with a quorum has been seen for too long: without one, nothing will ever be decided,
// also not that somebody was lost. Where too many voters have been reset for a quorum, there is less to wait for.
func (c *Core) watch() {
	if c.over {
		return
	}
	if c.isLeader() {
		c.contact = max(c.contact, c.quorumHeard())
	}
	limit := c.cfg.Timing.GiveUp
	if c.quorumDown() {
		limit = min(limit, 3*c.cfg.Timing.Down)
	}
	if c.tick-c.contact < uint64(limit) {
		return
	}
	var missing []Member
	for id, p := range c.peers {
		if m, ok := c.st.find(id); ok && c.lost(p) {
			missing = append(missing, m)
		}
	}
	c.stop(c.lostContact(missing))
}

func (c *Core) lostContact(missing []Member) Stopped {
	s := Stopped{Rank: -1, Local: true}
	if len(missing) == 0 {
		s.Reason = "no leader was found although all peers answer: the run can't go on"
		return s
	}
	slices.SortFunc(missing, func(a, b Member) int { return c.order(a) - c.order(b) })
	var names []string
	for _, m := range missing {
		names = append(names, c.st.place(m.ID))
	}
	s.Peer, s.Rank = missing[0].Peer, c.st.rank(missing[0].ID)
	s.Reason = fmt.Sprintf("lost contact with %s, which the run's log needs: %s", strings.Join(names, " and "), c.votersInWords())
	return s
}

// votersInWords says why the log can't go on without those that are missing.
func (c *Core) votersInWords() string {
	n := len(c.conf.GetVoters())
	if n == 1 {
		return fmt.Sprintf("with %d peers there is one voter", len(c.st.Members))
	}
	return fmt.Sprintf("more than half of its %d voters must be there", n)
}

// order is the place among all members.
func (c *Core) order(m Member) int {
	return slices.IndexFunc(c.st.Members, func(o Member) bool { return o.ID == m.ID })
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
