package fsdp

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Times is how long a member was at what. Its goroutine is always at one thing, so all of them together are the time that
// passed. Units and gradients that travel meanwhile cost only what is waited for them.
type Times struct {
	Compute    time.Duration // forward and backward passes of the own microbatches
	Parameters time.Duration // having units: preparing the own part, waiting for the others' and until they have it, making it whole
	Reduce     time.Duration // giving gradients away, and waiting for the sums of what is held here
	Commit     time.Duration // from being ready to the log's entry: the others are not ready, or the log takes its time
	Update     time.Duration // AdamW
	Idle       time.Duration // the rest: samples, hashes, checkpoints, fills
}

// of is where the time of an event's kind counts.
func (t *Times) of(kind EventKind) *time.Duration {
	switch kind {
	case TraceForward, TraceBackward:
		return &t.Compute
	case TracePack, TraceWait, TraceUnpack:
		return &t.Parameters
	case TraceGive, TraceSum:
		return &t.Reduce
	case TraceCommit:
		return &t.Commit
	case TraceUpdate:
		return &t.Update
	}
	return &t.Idle
}

// stopwatch adds up Times. It belongs to the engine's goroutine.
type stopwatch struct {
	times Times
	at    *time.Duration // what runs
	since time.Duration
}

// start begins to count from nothing, as idle.
func (w *stopwatch) start(now time.Duration) {
	w.times = Times{}
	w.at, w.since = &w.times.Idle, now
}

// turn counts the time from now on as that of to. It returns what ran before.
func (w *stopwatch) turn(to *time.Duration, now time.Duration) (before *time.Duration) {
	before = w.at
	if before != nil { // nil before the first attempt
		*before += now - w.since
		w.at, w.since = to, now
	}
	return before
}

// total is what has been counted up to now.
func (w *stopwatch) total(now time.Duration) Times {
	w.turn(w.at, now)
	return w.times
}

// TimelineStep is the step, from 0, whose events every member of a run of so many steps keeps: the middle one of the last ten.
func TimelineStep(steps int) int { return steps - 1 - min(steps, 10)/2 }

// MaxEvents is how many events a member keeps of one step, at most; the shortest are left out.
const MaxEvents = 256

// lane keeps the events of one step, from the commit before it to its own.
type lane struct {
	on     atomic.Bool
	zero   time.Duration // when the step before was committed
	mu     sync.Mutex
	events []Event // with times since zero
}

// begin starts to keep events.
func (l *lane) begin(zero time.Duration) {
	l.zero = zero
	l.on.Store(true)
}

// add keeps an event, if it is to be kept.
func (l *lane) add(e Event) {
	if !l.on.Load() {
		return
	}
	e.Start, e.End = e.Start-l.zero, e.End-l.zero
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events = append(l.events, e); len(l.events) == 2*MaxEvents {
		l.shorten()
	}
}

// end is what was kept, in order of time. Nothing is added any more.
func (l *lane) end() []Event {
	l.on.Store(false)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shorten()
	slices.SortStableFunc(l.events, func(a, b Event) int { return cmp.Compare(a.Start, b.Start) })
	return l.events
}

// shorten leaves out the shortest events, down to MaxEvents. mu is held.
func (l *lane) shorten() {
	slices.SortStableFunc(l.events, func(a, b Event) int { return cmp.Compare(b.End-b.Start, a.End-a.Start) })
	l.events = l.events[:min(len(l.events), MaxEvents)]
}

// begun starts to take times: the first attempt begins.
func (e *Engine) begun(now time.Duration) {
	e.watch.start(now)
	if e.step == TimelineStep(e.cfg.Hyper.Steps) {
		e.lane.begin(now)
	}
}

// timed takes the time of a step that was committed. The first one is told apart: it is no example.
func (e *Engine) timed(now, start time.Duration) {
	e.res.Wall = now - start
	if e.res.First == 0 {
		e.res.First = e.res.Wall
		e.watch.start(now)
		return
	}
	e.res.Steps++
	e.res.Times = e.watch.total(now)
}

// committed takes note that a step is final, which was heard of at e.heard.
func (e *Engine) committed(step int) {
	switch kept := TimelineStep(e.cfg.Hyper.Steps); step {
	case kept - 1:
		e.lane.begin(e.heard)
	case kept:
		e.res.Timeline = e.lane.end()
	}
}
