package fsdp

import "time"

// Event is a span of time in which a member worked on a unit, or waited. Start and End are times since the engine was made.
type Event struct {
	Kind       EventKind
	Step       int
	Unit       int // -1 where it is about no unit
	Start, End time.Duration
}

// EventKind says what was done.
type EventKind string

// What a member's goroutine does, one after the other. All else is in Times.Idle.
const (
	TraceLoad     EventKind = "load"     // reading the own samples
	TracePack     EventKind = "pack"     // preparing the own part of a unit for the others
	TraceWait     EventKind = "wait"     // the part of a gather in which nothing was computed
	TraceUnpack   EventKind = "unpack"   // making a unit of what was gathered
	TraceForward  EventKind = "forward"  // a stage's forward pass over all microbatches
	TraceBackward EventKind = "backward" // a stage's backward pass over all microbatches
	TraceGive     EventKind = "give"     // until a unit's gradient is on its way
	TraceSum      EventKind = "sum"      // after the last gradient, until all sums are whole here
	TraceCommit   EventKind = "commit"   // from being ready to the entry that ends the attempt
	TraceUpdate   EventKind = "update"   // AdamW on all that is held here of a unit
	TraceHash     EventKind = "hash"     // hashing the own shards, to compare or record them
	TraceSave     EventKind = "save"     // the own shards for a checkpoint, with unit 0
)

// What travels meanwhile.
const (
	TraceGather EventKind = "gather" // from asking for a unit to having it
	TraceReduce EventKind = "reduce" // from giving a unit's gradient away until its owners have it
	TraceBackup EventKind = "backup" // from forwarding a unit's sum until its backups have it
	TraceFill   EventKind = "fill"   // from giving a range of the unit to a new holder until that one has it
)

func (e *Engine) now() time.Duration { return time.Since(e.clock) }

// span is an event that has begun.
type span struct {
	kind   EventKind
	unit   int
	start  time.Duration
	before *time.Duration // what ran before it, and goes on after it
}

// doing says that this member is at kind from now on, until did.
func (e *Engine) doing(kind EventKind, unit int) span {
	now := e.now()
	return span{kind, unit, now, e.watch.turn(e.watch.times.of(kind), now)}
}

// did ends a span, and says how long it was.
func (e *Engine) did(s span) time.Duration {
	now := e.now()
	e.watch.turn(s.before, now)
	e.tell(Event{s.kind, e.step, s.unit, s.start, now})
	return now - s.start
}

func (e *Engine) tell(ev Event) {
	if e.cfg.Trace != nil {
		e.cfg.Trace(ev)
	}
	e.lane.add(ev)
}

// traced is wait, which also records when what it waits for was over, though the caller may look only later.
func (e *Engine) traced(kind EventKind, unit int, start time.Duration, wait func() error) func() error {
	if e.cfg.Trace == nil && !e.lane.on.Load() {
		return wait
	}
	var err error
	step, done := e.step, make(chan struct{})
	go func() {
		defer close(done)
		err = wait()
		e.tell(Event{kind, step, unit, start, e.now()})
	}()
	return func() error { <-done; return err }
}
