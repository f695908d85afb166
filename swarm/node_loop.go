package swarm

import (
	"time"

	"shoal/swarm/member"
	"shoal/swarm/wire"
)

// maxGap is how many ticks late a tick may be; later, the process is taken to have been stopped meanwhile.
const maxGap = 5

// loop owns the core: nobody else touches it.
func (n *Node) loop() {
	ticker := time.NewTicker(n.cfg.Tick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-n.ctx.Done():
			return
		case m := <-n.inbox:
			n.step(m)
		case f := <-n.calls:
			f()
		case <-ticker.C:
			now := time.Now()
			n.tick(now.Sub(last))
			last = now
		}
		n.flush()
	}
}

// step takes a member's message, unless it is of another log, or of one that is about to begin anew (see Recover).
func (n *Node) step(m *wire.Control) {
	if m.Generation != n.core.Generation() || m.Kind == wire.ControlRaft && n.ballot.open() {
		return
	}
	n.core.Step(m)
}

// tick lets a tick pass. After a gap, what has been received meanwhile comes first, and nobody is blamed for it
// (PROTOCOL.md 14).
func (n *Node) tick(since time.Duration) {
	if since > maxGap*n.cfg.Tick {
		for len(n.inbox) > 0 {
			n.step(<-n.inbox)
		}
		n.core.Resume()
	}
	// Tensor data is a sign of life: control messages share a connection with it, and may be stuck behind it.
	for _, id := range n.exchange.heard() {
		n.core.Alive(id)
	}
	doing := n.doing.Load()
	fence, ids := n.exchange.waiting(doing.reducing())
	n.core.SetWaiting(fence, doing.name, doing.unit, ids)
	n.core.Tick()
	n.look()
}

// reducing is the unit for whose gradients the caller waits, or -1.
func (p *phase) reducing() int {
	if p.name == "reduce" {
		return p.unit
	}
	return -1
}

// call runs f in the loop and waits for it; false if the loop has ended.
func (n *Node) call(f func()) bool {
	done := make(chan struct{})
	select {
	case n.calls <- func() { f(); close(done) }:
		<-done
		return true
	case <-n.ctx.Done():
		return false
	}
}

// flush does what the core asks for. New members have links before an attempt can have them in its view, and who is gone
// keeps its link until the attempt with it in its view is over.
func (n *Node) flush() {
	for {
		out := n.core.Take()
		if len(out.Messages) == 0 && len(out.Events) == 0 {
			break
		}
		n.publish()
		n.meet()
		for _, m := range out.Messages {
			if l := n.links[m.To]; l != nil && !l.push(m) && m.Kind == wire.ControlRaft {
				n.core.Unreachable(m.To)
			}
		}
		for _, e := range out.Events {
			n.handle(e)
		}
	}
	n.publish()
	n.part()
	if n.core.Finished() {
		closeOnce(n.finished)
	}
	if n.core.Left() && closeOnce(n.left) {
		n.update(func() { n.away, n.deserted = true, n.core.Deserted() })
	}
}

// closeOnce is for the loop alone. It says whether c was open.
func closeOnce(c chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		close(c)
		return true
	}
}

func (n *Node) handle(e member.Event) {
	switch e := e.(type) {
	case member.Waiting:
		if n.cfg.OnWait != nil {
			n.cfg.OnWait(e.Have, e.Want)
		}
	case member.Admitted:
		n.answerJoin(e.ID, joinAnswer{snapshot: e.Snapshot})
	case member.Refused:
		n.answerJoin(e.ID, joinAnswer{refused: e.Reason})
	case member.Ended:
		n.enter(e.Entry)
	case member.Stuck:
		n.stuck = e.Reason
		if n.cfg.OnStuck != nil {
			n.cfg.OnStuck(e.Reason)
		}
	case member.Stopped:
		n.fail(&StoppedError{Peer: e.Peer, Rank: e.Rank, Reason: e.Reason, Local: e.Local, Gone: e.Gone})
	}
}

// enter begins the attempt that an entry names.
func (n *Node) enter(e Entry) {
	n.exchange.advance(e.Fence, e.Kind == EntryCommit || e.Kind == EntryRetry || e.Kind == EntryDone)
	n.update(func() {
		if !n.away { // whoever was told that it has left hears nothing more
			n.entries = append(n.entries, e)
		}
		n.done = n.done || e.Kind == EntryDone
	})
}

// fail ends the run on this peer: whoever waits is told.
func (n *Node) fail(err error) {
	n.update(func() {
		if n.err == nil {
			n.err = err
		}
	})
	n.end(err)
	n.exchange.abort(err)
}

// publish tells the other goroutines what they need to know of the log.
func (n *Node) publish() {
	old, lead := n.known.Load(), n.core.Leader()
	if old != nil && old.applied == n.core.Applied() && old.generation == n.core.Generation() && old.leader.ID == lead {
		return
	}
	members := n.core.Members()
	r := &roster{run: n.core.Run(), applied: n.core.Applied(), generation: n.core.Generation(), members: make(map[uint64]Member, len(members))}
	for _, m := range members {
		r.members[m.ID] = m
	}
	r.leader = r.members[lead]
	n.known.Store(r)
	if old != nil && old.generation != r.generation {
		n.resetStreams(r.generation)
	}
}
