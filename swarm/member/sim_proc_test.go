package member

import (
	"fmt"

	"shoal/swarm/wire"
)

// proc is a simulated process: a Core, an engine, and what befalls it.
type proc struct {
	w     *world
	id    uint64
	self  Member
	core  *Core
	en    *engine
	ticks int

	over    bool // the process has ended
	endedAt int64
	silent  bool     // it ended without a reset: its machine is gone
	stopped bool     // SIGSTOP
	missed  int      // ticks while stopped
	inbox   []func() // what has arrived meanwhile
	slow    int      // ticks that computing takes beside the usual
	disk    bool     // it has the folder with the checkpoints
	trouble int64    // last moment at which it may have looked dead or late
	leaving bool

	reset  map[uint64]bool // whose end its links have told it
	stuck  string
	voters string // as noted last
	gone   string // why it is out
	seen   uint64 // entries of the log compared
}

// runs says whether the process is there and not stopped.
func (p *proc) runs() bool { return !p.over && !p.stopped }

// healthy says whether all processes have run and reached each other for a while: then nobody misses the end.
func (w *world) healthy() bool {
	for _, p := range w.procs {
		if p.stopped && !p.over {
			return false
		}
	}
	return len(w.cut) == 0 && w.now-w.hurt > w.patience()/2
}

// troubled says whether a member may be taken for dead or late, with reason.
func (p *proc) troubled() bool {
	if !p.runs() || p.leaving || p.slow > 0 {
		return true
	}
	for ids := range p.w.cut {
		if ids[0] == p.id || ids[1] == p.id {
			return true
		}
	}
	return p.trouble > 0 && p.w.now-p.trouble < p.w.patience()
}

// delay is how many ticks computing takes.
func (p *proc) delay() int { return p.w.rng.IntN(3) + p.slow }

// receive has something arrive: now, or when the process goes on.
func (p *proc) receive(what func()) {
	switch {
	case p.over:
	case p.stopped:
		p.inbox = append(p.inbox, what)
	default:
		what()
		p.collect()
	}
}

// clock is one tick and the wait for the next.
func (p *proc) clock() {
	if p.over {
		return
	}
	p.w.at(perTick, p.clock)
	if p.stopped {
		p.missed++
		return
	}
	p.tick()
}

func (p *proc) tick() {
	p.ticks++
	p.notice()
	if p.stuck != "" {
		p.hello()
	}
	if a := p.en.att; a != nil && !p.en.done {
		p.core.SetWaiting(a.fence, p.en.phase(), 0, p.en.blockers())
	}
	p.core.Tick()
	p.collect()
	p.en.progress()
	p.collect()
	if p.core.Left() || p.core.Finished() && p.w.healthy() {
		p.end("goes")
	}
}

// notice tells the Core which processes have ended: their links are reset and a new one is refused.
func (p *proc) notice() {
	for _, m := range p.core.Members() {
		o := p.w.procs[m.ID]
		ended := o != nil && o.over && !o.silent && p.w.now > o.endedAt+resets || p.w.abandoned[m.ID]
		if m.ID != p.id && ended && !p.reset[m.ID] && !(o != nil && p.w.cut[pair(p.id, o.id)]) {
			p.reset[m.ID] = true
			p.core.LinkDead(m.ID)
			p.collect()
		}
	}
}

// hello is a handshake with a member's peer where another process answers by now: if that one knows better, it says that
// this member is none any more.
func (p *proc) hello() {
	for _, m := range p.core.Members() {
		for _, id := range p.w.ids {
			o := p.w.procs[id]
			if o.self.Peer == m.Peer && o.id != m.ID && o.runs() && p.w.reaches(o, p) && o.core.Removed(p.id) {
				p.core.Step(&Message{Kind: wire.ControlGone, From: m.ID, To: p.id, Index: o.core.Applied(), Reason: "it was taken out"})
				p.collect()
				return
			}
		}
	}
}

// collect sends and handles what the Core has to say, then checks what must hold.
func (p *proc) collect() {
	for !p.over {
		out := p.core.Take()
		if len(out.Messages) == 0 && len(out.Events) == 0 {
			break
		}
		p.w.compareLog(p)
		for _, m := range out.Messages {
			p.w.post(m)
		}
		for _, e := range out.Events {
			p.handle(e)
		}
	}
	if v := fmt.Sprint(p.core.conf.GetVoters(), p.core.conf.GetVotersOutgoing()); v != p.voters {
		p.voters = v
		if p.core.isLeader() {
			p.w.tell("voters %s", v)
		}
		p.w.note("%d has voters %s", p.id, v)
	}
	p.w.check(p)
}

func (p *proc) handle(e Event) {
	switch e := e.(type) {
	case Admitted:
		p.w.answered(e.ID, e.Snapshot, "")
	case Refused:
		p.w.answered(e.ID, nil, e.Reason)
	case Ended:
		p.w.entry(p, e.Entry)
		p.en.ended(e.Entry)
		p.readable()
	case Stuck:
		if e.Reason == "" {
			p.w.tell("%d is stuck no more", p.id)
		} else {
			p.w.tell("%d is stuck: %s", p.id, e.Reason)
		}
		p.stuck = e.Reason
	case Stopped:
		p.w.tell("%d: %s (gone %v)", p.id, e.Reason, e.Gone)
		p.gone = e.Reason
		p.w.stopped(p, e)
	}
}

// end ends the process.
func (p *proc) end(how string) {
	if p.over {
		return
	}
	p.over, p.endedAt = true, p.w.now
	p.w.tell("%d %s", p.id, how)
}

// reads says whether it has all of the checkpoint before a step: one in four it lacks.
func (p *proc) reads(step int64) bool {
	return p.disk && (p.w.setup.disks || mix(p.w.toy.seed, 13, p.id, uint64(step))%4 > 0)
}

// readable tells the newest checkpoint that it can read.
func (p *proc) readable() {
	name := ""
	for _, s := range p.core.st.Saved {
		if p.reads(int64(s.Step)) {
			name = s.Name
		}
	}
	p.core.SetSaved(name)
}

// halt is SIGSTOP, resume SIGCONT: what has arrived is taken in before time goes on (PROTOCOL.md 14).
func (p *proc) halt() {
	if p.runs() {
		p.w.note("%d is stopped", p.id)
		p.stopped, p.missed = true, 0
	}
}

func (p *proc) resume() {
	if p.over || !p.stopped {
		return
	}
	p.w.note("%d goes on after %d ticks", p.id, p.missed)
	p.stopped = false
	p.trouble, p.w.hurt = p.w.now, p.w.now
	if p.w.setup.burst {
		for range p.missed {
			p.core.Tick()
		}
		p.collect()
	}
	inbox := p.inbox
	p.inbox = nil
	for _, what := range inbox {
		p.receive(what)
	}
	if !p.w.setup.burst {
		p.core.Resume()
	}
	p.collect()
}
