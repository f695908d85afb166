package member

import "fmt"

// Timing is in ticks, which a Core counts itself: time in which the process does not run does not count. Zero values mean
// those of LAN.
type Timing struct {
	Beat      int // between two beats to each other member
	Election  int // without a leader before voters elect one, up to twice that
	Resend    int // before a Ready that the leader hasn't confirmed is sent again
	Down      int // silent and its link known to be broken: lost
	Suspect   int // silent: lost
	Stuck     int // without a leader that has a quorum: the run is stuck
	Deadline  int // of an attempt, at least; see deadline
	LostAfter int // during which nobody lives that holds some range: the run ends
}

// LAN is the default: with ticks of 100 ms, a peer whose process ends is lost at once, one whose connection was reset
// after 1 s, one that is only silent (stopped, asleep, unplugged) after 2.5 s.
func LAN() Timing {
	return Timing{Beat: 2, Election: 10, Resend: 10, Down: 10, Suspect: 25, Stuck: 50, Deadline: 50, LostAfter: 600}
}

// WAN is for slow and uneven paths, and for machines that have far more processes than cores: silence means death after 6 s.
func WAN() Timing {
	return Timing{Beat: 5, Election: 20, Resend: 20, Down: 20, Suspect: 60, Stuck: 110, Deadline: 150, LostAfter: 600}
}

func (t *Timing) validate() error {
	lan := LAN()
	for _, f := range []struct {
		name  string
		value *int
		lan   int
	}{
		{"Beat", &t.Beat, lan.Beat}, {"Election", &t.Election, lan.Election}, {"Resend", &t.Resend, lan.Resend},
		{"Down", &t.Down, lan.Down}, {"Suspect", &t.Suspect, lan.Suspect}, {"Stuck", &t.Stuck, lan.Stuck},
		{"Deadline", &t.Deadline, lan.Deadline}, {"LostAfter", &t.LostAfter, lan.LostAfter},
	} {
		if *f.value == 0 {
			*f.value = f.lan
		}
		if *f.value < 1 {
			return fmt.Errorf("member: Timing.%s is %d, must be positive", f.name, *f.value)
		}
	}
	if t.Election < 2 || t.Suspect <= 2*t.Beat || t.Stuck <= t.Suspect {
		return fmt.Errorf("member: Timing %+v: want Election > 1, Suspect > 2*Beat, Stuck > Suspect", *t)
	}
	return nil
}

// gone says whether a member is taken for lost that has been silent for so many ticks.
func (t Timing) gone(silent uint64, down bool) bool {
	return silent >= uint64(t.Suspect) || down && silent >= uint64(t.Down)
}

func (c *Core) lost(p *peer) bool { return p.dead || c.cfg.Timing.gone(c.tick-p.heard, p.down > 0) }

// Quiet says whether a member has been silent for a third of the time after which it is lost: perhaps only the path to it
// is broken, and there is another one.
func (c *Core) Quiet(id uint64) bool {
	p := c.peers[id]
	return p != nil && c.tick-p.heard >= uint64(c.cfg.Timing.Suspect)/3
}

// lostInView are the members of the view that are lost, by rank.
func (c *Core) lostInView() (list []Member) {
	for _, id := range c.st.ViewIDs {
		if p := c.peers[id]; p != nil && c.lost(p) {
			m, _ := c.st.find(id)
			list = append(list, m)
		}
	}
	return list
}

// LinkDead tells that the process of a member has ended: its stream was reset and nobody listens there any more. It is
// lost at once, until LinkUp.
func (c *Core) LinkDead(id uint64) {
	defer c.rescue()
	p := c.peers[id]
	if p == nil || c.rn == nil {
		return
	}
	c.LinkDown(id)
	p.dead = true
	c.hurry()
	c.settle()
}

// LinkDown tells that the stream to a member has broken or was refused; LinkUp, that there is one again.
func (c *Core) LinkDown(id uint64) {
	if p := c.peers[id]; p != nil && p.down == 0 {
		p.down = max(c.tick, 1)
	}
}

func (c *Core) LinkUp(id uint64) {
	if p := c.peers[id]; p != nil {
		p.down, p.dead = 0, false
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
	if c.cfg.broken.noResume {
		return
	}
	if c.stuck.reason == "" { // or it would seem to go on
		c.contact = c.tick
	}
	for _, p := range c.peers {
		p.heard = c.tick
		if p.down > 0 {
			p.down = max(c.tick, 1)
		}
	}
}
