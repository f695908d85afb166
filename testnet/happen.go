package testnet

import (
	"fmt"
	"slices"
	"time"
)

// How long faults of one moment wait for one another, and how long a peer that was told to leave may take.
const (
	gather = time.Second
	polite = 10 * time.Second
)

// happening is a fault and what came of it.
type happening struct {
	Fault
	victim *peerState // that waits at the point, or was hit; of a Join the new peer
	phase  string     // at which it was hit
	step   int
	fired  bool
	at     int64 // when, Unix time in nanoseconds
}

// plan adds a fault, before the processes that it may hit are started.
func (n *network) plan(f Fault) *happening {
	h := &happening{Fault: f}
	n.happenings = append(n.happenings, h)
	return h
}

// arm adds a fault for processes that run already.
func (n *network) arm(f Fault) *happening {
	h := n.plan(f)
	for _, p := range n.alive() {
		if h.may(p.peer) {
			p.say("pause " + f.pause().String())
		}
	}
	return h
}

// disarm takes a fault back that has not happened.
func (n *network) disarm(h *happening) {
	n.happenings = slices.DeleteFunc(n.happenings, func(g *happening) bool { return g == h })
	for _, p := range n.alive() {
		p.say("clear")
		p.say("go")
	}
}

// may says whether the fault may hit a peer.
func (h *happening) may(peer int) bool {
	return h.Kind != Join && (h.Role != "" || h.Fault.Peer == peer)
}

// pauses are the points at which a peer that is started must wait.
func (n *network) pauses(peer int) (points []string) {
	for _, h := range n.happenings {
		if h.victim == nil && h.may(peer) {
			points = append(points, h.pause().String())
		}
	}
	return points
}

// reached takes a peer that waits at a point. If nothing is to happen to it there (any more), it goes on.
func (n *network) reached(p *peerState, at *atEvent) error {
	if at.Point == n.holding {
		n.holding = ""
		return nil
	}
	i := slices.IndexFunc(n.happenings, func(h *happening) bool {
		return h.victim == nil && h.may(p.peer) && h.pause().String() == at.Point
	})
	if i < 0 || p.fate != running {
		p.say("go")
		return nil
	}
	h := n.happenings[i]
	h.victim, h.step, h.phase = p, at.Step, at.Phase
	group := n.group(h)
	if slices.ContainsFunc(group, func(g *happening) bool { return g.victim == nil }) {
		n.after(gather, func() error { return n.fire(group) })
		return nil
	}
	return n.fire(group)
}

// group are the faults that are meant to happen at the same moment as h.
func (n *network) group(h *happening) (list []*happening) {
	for _, g := range n.happenings {
		if g == h || g.together(&h.Fault) {
			list = append(list, g)
		}
	}
	return list
}

// fire has those faults happen whose victims are there.
func (n *network) fire(group []*happening) error {
	for _, h := range group {
		if h.victim == nil || h.fired {
			continue
		}
		n.changed = time.Now()
		h.fired, h.at = true, n.changed.UnixNano()
		if err := n.hit(h); err != nil {
			return fmt.Errorf("testnet: --%s %s: peer %d: %w", h.Kind, h.Fault, h.victim.peer, err)
		}
	}
	return nil
}

// hit does to the victim what the fault says.
func (n *network) hit(h *happening) error {
	p := h.victim
	switch h.Kind {
	case Kill:
		p.fate = killed
		p.kill()
	case Stop:
		p.fate = stopped
		p.stops++
		p.thaws = h.For > 0
		if err := p.freeze(); err != nil {
			return err
		}
		if h.For > 0 {
			n.after(h.For, func() error { return n.goOn(p) })
		}
	case Leave:
		p.fate = leaving
		if err := p.interrupt(); err != nil {
			return err
		}
		p.say("go")
		p.due = time.Now().Add(polite)
		n.after(polite, func() error {
			if p.due.IsZero() || p.fate != leaving {
				return nil
			}
			return fmt.Errorf("testnet: peer %d was told to leave and is still there after %v", p.peer, polite)
		})
	}
	return nil
}

// goOn lets a stopped peer go on.
func (n *network) goOn(p *peerState) error {
	if p.fate != stopped {
		return nil
	}
	p.fate, n.changed = running, time.Now()
	err := p.thaw()
	p.say("go")
	return err
}

// joins starts the processes whose step has been committed.
func (n *network) joins() error {
	for _, h := range slices.Clone(n.happenings) {
		if h.Kind != Join || h.fired || n.step < h.Step {
			continue
		}
		h.fired = true
		for i := range h.Count {
			g := h
			if i > 0 { // a row of its own in the report
				g = &happening{Fault: h.Fault, fired: true}
				n.happenings = append(n.happenings, g)
			}
			p, err := n.join()
			if err != nil {
				return err
			}
			g.victim, g.step, g.at = p, h.Step, p.began.UnixNano()
		}
	}
	return nil
}

// missed is the first fault that did not happen, or nil.
func (n *network) missed() error {
	for _, h := range n.happenings {
		if !h.fired {
			return fmt.Errorf("testnet: --%s %s: the run ended before anybody came there", h.Kind, h.Fault)
		}
	}
	return nil
}
