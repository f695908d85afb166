package fsdp

import "time"

// Event is a span of time in which a member worked on a unit. Start and End are times since the engine was made.
type Event struct {
	Kind       EventKind
	Step       int
	Unit       int
	Start, End time.Duration
}

// EventKind says what was done.
type EventKind string

const (
	TraceGather   EventKind = "gather"   // from asking for a unit to having it
	TraceWait     EventKind = "wait"     // the part of it in which nothing was computed
	TraceForward  EventKind = "forward"  // a stage's forward pass over all microbatches
	TraceBackward EventKind = "backward" // a stage's backward pass over all microbatches
	TraceReduce   EventKind = "reduce"   // from giving a unit's gradient away until its owners have it
	TraceBackup   EventKind = "backup"   // from forwarding a unit's sum until its backups have it
	TraceFill     EventKind = "fill"     // from giving a range of the unit to a new holder until that one has it
	TraceUpdate   EventKind = "update"   // AdamW on all that is held here
	TraceSave     EventKind = "save"     // the own shards for a checkpoint, with unit 0
)

func (e *Engine) now() time.Duration { return time.Since(e.clock) }

func (e *Engine) trace(kind EventKind, unit int, start time.Duration) {
	if e.cfg.Trace != nil {
		e.cfg.Trace(Event{Kind: kind, Step: e.step, Unit: unit, Start: start, End: e.now()})
	}
}

// traced is wait, which also records when what it waits for was over, though the caller may look only later.
func (e *Engine) traced(kind EventKind, unit int, start time.Duration, wait func() error) func() error {
	if e.cfg.Trace == nil {
		return wait
	}
	var err error
	step, done := e.step, make(chan struct{})
	go func() {
		defer close(done)
		err = wait()
		e.cfg.Trace(Event{Kind: kind, Step: step, Unit: unit, Start: start, End: e.now()})
	}()
	return func() error { <-done; return err }
}
