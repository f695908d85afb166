package swarm

import (
	"errors"
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
			n.core.Step(m)
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

// tick lets a tick pass. After a gap, what has been received meanwhile comes first, and nobody is blamed for it
// (PROTOCOL.md 14).
func (n *Node) tick(since time.Duration) {
	if since > maxGap*n.cfg.Tick {
		n.update(func() { n.stopped = max(n.stopped, since) })
		for len(n.inbox) > 0 {
			n.core.Step(<-n.inbox)
		}
		n.core.Resume()
	}
	n.noticeData()
	n.core.Tick()
}

// noticeData counts tensor data that has arrived as a sign of life: control messages share a connection with it, and
// may be stuck behind it.
func (n *Node) noticeData() {
	x := n.data()
	if x == nil {
		return
	}
	for r, l := range x.links {
		if l == nil {
			continue
		}
		if got := l.count.received.Load(); got != l.noticed {
			l.noticed = got
			n.core.Alive(x.cfg.Members[r].ID)
		}
	}
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

// flush does what the core asks for.
func (n *Node) flush() {
	for {
		out := n.core.Take()
		if len(out.Messages) == 0 && len(out.Events) == 0 {
			break
		}
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
	if n.core.Finished() {
		select {
		case <-n.finished:
		default:
			close(n.finished)
		}
	}
}

func (n *Node) handle(e member.Event) {
	switch e := e.(type) {
	case member.Waiting:
		n.publish()
		n.matchLinks()
		if n.cfg.OnWait != nil {
			n.cfg.OnWait(e.Have, e.Want)
		}
	case member.Admitted:
		n.answerJoin(e.ID, joinAnswer{snapshot: e.Snapshot})
	case member.Refused:
		n.answerJoin(e.ID, joinAnswer{refused: e.Reason})
	case member.Started:
		n.enterView(e.View)
	case member.Ended:
		n.update(func() {
			n.entries = append(n.entries, e.Entry)
			n.done = e.Entry.Kind == EntryDone
		})
	case member.Stopped:
		n.fail(&StoppedError{Peer: e.Peer, Rank: e.Rank, Reason: e.Reason, Local: e.Local})
	}
}

func (n *Node) enterView(v View) {
	cfg := exchangeConfig{Transport: n.cfg.Transport, Run: n.cfg.RunID, Rank: v.Rank, Packing: n.packing, Log: n.cfg.Log}
	for _, m := range v.Members {
		cfg.Members = append(cfg.Members, exchangeMember{ID: m.ID, Peer: m.Peer, Addrs: m.Addrs})
	}
	cfg.Fault = func(err error) {
		n.tasks.Go(func() { n.call(func() { n.fail(err) }) })
	}
	x, err := newExchange(cfg)
	if err != nil {
		n.fail(err)
		return
	}
	n.update(func() { n.exchange, n.view = x, &v })
}

// fail ends the run on this peer: whoever waits is told.
func (n *Node) fail(err error) {
	n.update(func() {
		if n.err == nil {
			n.err = err
		}
	})
	n.end(err)
	if x := n.data(); x != nil {
		n.tasks.Go(x.close) // collectives that will never complete; the loop doesn't wait for it
	}
	var stopped *StoppedError
	if !errors.As(err, &stopped) {
		n.core.Leave(err.Error())
	}
}

// publish tells the other goroutines what they need to know of the log.
func (n *Node) publish() {
	members, old := n.core.Members(), n.known.Load()
	r := &roster{run: n.core.Run(), status: Status{Members: len(members), Fence: n.core.Fence(), Applied: n.core.Applied()}}
	if old != nil && old.status.Applied == r.status.Applied && len(old.members) == len(members) && old.leader.ID == n.core.Leader() {
		return
	}
	r.members = make(map[uint64]Member, len(members))
	for _, m := range members {
		r.members[m.ID] = m
	}
	r.leader = r.members[n.core.Leader()]
	r.status.Leader = r.leader.Peer
	for _, id := range n.core.Voters() {
		r.status.Voters = append(r.status.Voters, r.members[id].Peer)
	}
	n.known.Store(r)
}
