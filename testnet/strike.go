package testnet

import (
	"context"
	"fmt"
	"slices"
)

// restored waits until all peers that run are in the view, the run is as safe as it can be with them, and a step has been
// committed; or the run is over.
func (n *network) restored(ctx context.Context, step int) error {
	ok, err := n.pumpFor(ctx, wholeWithin, func() bool { return n.whole() && n.step >= step })
	if err != nil || ok || n.over() {
		return err
	}
	if n.whole() {
		return n.pump(ctx, func() bool { return n.step >= step })
	}
	return fmt.Errorf("testnet: redundancy is not restored after %v: %s", wholeWithin, n.describe())
}

// whole says whether every peer that runs says so of the run, and has said it since the last change.
func (n *network) whole() bool {
	alive := n.alive()
	var ids []string
	for _, p := range alive {
		ids = append(ids, p.id)
	}
	slices.Sort(ids)
	return len(alive) > 0 && !slices.ContainsFunc(n.peers, func(p *peerState) bool { return p.fate == stopped || p.fate == leaving }) &&
		!slices.ContainsFunc(alive, func(p *peerState) bool { return p.seen.Before(n.changed) || !p.standing.whole(ids) })
}

// describe says how things stand, for an error.
func (n *network) describe() string {
	p := n.speaker()
	if p == nil {
		return "nobody is left"
	}
	s := &p.standing
	text := fmt.Sprintf("step %d, %d peers run, peer %d sees view %d of %d peers, redundancy %d of %d, %d ranges to fill, survives %d",
		n.step, len(n.alive()), p.peer, s.View, len(s.Members), s.Redundancy, s.Wanted, s.Fills, s.Promise)
	if s.Stuck != "" {
		text += ": " + s.Stuck
	}
	return text
}

// strike has a fault happen and waits until the others have gone on without the victim. If nobody comes to its point, the
// victim is hit where it comes next.
func (n *network) strike(ctx context.Context, f Fault) (*happening, error) {
	h := n.arm(f)
	fired, err := n.pumpFor(ctx, reachWithin, func() bool { return h.fired })
	if err == nil && !fired && !n.over() {
		n.disarm(h)
		f.Phase = ""
		h = n.arm(f)
		fired, err = n.pumpFor(ctx, reachWithin, func() bool { return h.fired })
	}
	if err != nil || n.over() {
		return h, err
	}
	if !fired {
		return h, fmt.Errorf("testnet: --%s %s: nobody came there: %s", f.Kind, f, n.describe())
	}
	answered, err := n.pumpFor(ctx, answerWithin, func() bool { return n.answered(h) })
	if err == nil && !answered && !n.over() {
		err = fmt.Errorf("testnet: no step was committed for %v after --%s %s: %s", answerWithin, f.Kind, f, n.describe())
	}
	return h, err
}

// hold has a peer wait between two steps, until it is told "go". False if it didn't come there.
func (n *network) hold(ctx context.Context, p *peerState) (bool, error) {
	n.holding = pausePoint{role: self, step: n.step + 1, phase: "commit"}.String()
	p.say("pause " + n.holding)
	held, err := n.pumpFor(ctx, reachWithin, func() bool { return n.holding == "" })
	if !held {
		n.holding = ""
		p.say("clear")
		p.say("go")
	}
	return held, err
}

// answered says whether the others have gone on since a fault.
func (n *network) answered(h *happening) bool {
	_, ok := answer(h, n.peers)
	return ok
}

// joinNow starts a peer, as a fault of its own.
func (n *network) joinNow() error {
	n.plan(Fault{Kind: Join, Count: 1, Step: n.step})
	return n.joins()
}

// processes is how many there are, stopped ones included.
func (n *network) processes() (count int) {
	for _, p := range n.peers {
		if p.fate != killed && p.fate != ended {
			count++
		}
	}
	return count
}
