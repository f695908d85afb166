package shoal

import (
	"context"
	"errors"
	"math"
	"os"
	"sync"
	"time"

	"shoal/internal/report"
	"shoal/internal/status"
	"shoal/swarm"
)

// Status is a run at one moment, as this peer sees it; its fields are documented in docs/status.md.
type Status = status.Status

// bytesPerParameter is what a holder keeps of one: itself and two moments of AdamW, as float32.
const bytesPerParameter = 12

// rateWindow is how far back a rate looks: long enough to be steady, short enough to follow a change.
const rateWindow = 10 * time.Second

// Live is a run while it lasts. Its methods may be called from any goroutine, also after the run.
type Live struct {
	mu     sync.Mutex
	base   Status // what doesn't change
	node   liveNode
	counts func() (streams, conns int)
	bytes  func() []status.Traffic
	relays func() status.Relaying
	lacks  string // what this peer waits for of the data; empty if it does not
	now    progressed
	seen   []progressed // within rateWindow, oldest first
	own    int64        // samples that were computed here
	membership
}

// liveNode is the *swarm.Node of this peer's membership.
type liveNode interface {
	Status() swarm.Status
	Recover(ctx context.Context) error
}

// progressed is where the run was at a time.
type progressed struct {
	at      time.Time
	step    int
	samples int64
	loss    float64
	retries int
}

// newLive is a Live without a membership. base has what doesn't change. counts are the host's open streams and
// connections, bytes what has travelled, relays what is carried for others.
func newLive(base Status, counts func() (streams, conns int), bytes func() []status.Traffic, relays func() status.Relaying) *Live {
	base.Version, base.PID = status.Version, os.Getpid()
	return &Live{base: base, counts: counts, bytes: bytes, relays: relays, now: progressed{loss: math.NaN()}}
}

// entered begins a membership: a peer that was taken out by mistake has one after another.
func (l *Live) entered(node liveNode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.node = node
}

// lacking says what this peer waits for of the data, or "".
func (l *Live) lacking(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lacks = what
}

// committed takes note of a step. step counts from 1, samples are those of the whole run, retries of this peer's part of it.
func (l *Live) committed(step int, samples int64, loss float64, retries int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if step <= l.now.step { // back at a checkpoint
		l.seen = nil
	}
	l.now = progressed{time.Now(), step, samples, loss, retries}
	l.seen = append(l.seen, l.now)
	drop := 0
	for drop < len(l.seen)-2 && l.now.at.Sub(l.seen[drop].at) > rateWindow {
		drop++
	}
	l.seen = l.seen[drop:]
}

// computed takes note of samples of a committed step that were computed here.
func (l *Live) computed(samples int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own += samples
}

// Computed is how many samples this peer has computed in committed steps.
func (l *Live) Computed() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.own
}

// rate is the run's samples per second; 0 if it is not known.
func (l *Live) rate() float64 {
	if len(l.seen) < 2 {
		return 0
	}
	first, last := l.seen[0], l.seen[len(l.seen)-1]
	if d := last.at.Sub(first.at); d > 0 {
		return float64(last.samples-first.samples) / d.Seconds()
	}
	return 0
}

// Status is the run as it is now.
func (l *Live) Status() Status {
	l.mu.Lock()
	s, node, lacks := l.base, l.node, l.lacks
	s.Step, s.Samples, s.Loss, s.Retries = l.now.step, l.now.samples, report.Number(l.now.loss), l.now.retries
	s.SamplesPerSecond = l.rate()
	l.mu.Unlock()
	s.Members, s.Waiting, s.Faults = []status.Member{}, []string{}, []status.Fault{} // lists in JSON, also when empty
	if l.counts != nil {                                                             // nil in a zero Live, which tests have
		s.Streams, s.Connections = l.counts()
		s.Traffic, s.Relaying = l.bytes(), l.relays()
	}
	if node != nil {
		addMesh(&s, node.Status())
	}
	if s.Stuck == "" {
		s.Stuck = lacks
	}
	return s
}

// addMesh adds what the log says.
func addMesh(s *Status, m swarm.Status) {
	s.Generation, s.View, s.Fence, s.Applied, s.Leader = m.Generation, m.View, m.Fence, m.Applied, m.Leader
	s.Survives, s.Redundancy, s.Wanted = m.Promise, m.Redundancy, m.Wanted
	s.Phase, s.Unit, s.Waiting, s.Stuck = m.Phase, m.Unit, append(s.Waiting, m.Waiting...), m.Stuck
	for _, p := range m.Members {
		if p.Voter {
			s.Voters++
		}
		s.Members = append(s.Members, status.Member{ID: p.ID, Peer: p.Peer, Kind: p.Kind, Rank: p.Rank, Voter: p.Voter,
			Data: p.Data, Owned: p.Owns * bytesPerParameter, BackedUp: p.Holds * bytesPerParameter, ToFill: p.FillsLeft, Micros: p.Work})
	}
	status.Sort(s.Members)
	for _, f := range m.Faults {
		s.Faults = append(s.Faults, status.Fault{Peer: f.Peer, Reason: f.Reason, Fence: f.Fence,
			Seconds: (time.Duration(f.Ago) * swarm.Tick).Seconds()})
	}
}

// Recover has the run go on without members whose loss has stopped it: from what the members that can be reached hold,
// under a new generation of the log. It fails if the run is not stuck, or if nobody holds a part of the model.
func (l *Live) Recover(ctx context.Context) error {
	l.mu.Lock()
	node := l.node
	l.mu.Unlock()
	if node == nil {
		return errors.New("this peer is not in the run yet")
	}
	return node.Recover(ctx)
}
