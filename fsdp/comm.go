package fsdp

import "context"

// Comm is what the engine needs from the mesh: collectives among the members of the view, and the run's log. An attempt
// (a try at a step) is named by its fence, the log index of the entry that began it. Each attempt belongs to one view, and
// ranks are those of that view. The methods that move data take every member's part in the same order on every member;
// what they return fails when the attempt has ended, and its memory is not used any more then.
type Comm interface {
	// Begin enters the attempt that fence names and discards what belongs to older ones. From now on what arrives for this
	// attempt is given to sink. The context that it returns ends as soon as the log holds what ends the attempt.
	Begin(ctx context.Context, fence uint64, sink Sink) (context.Context, error)

	// AllGather gives mine to every other member that takes[r] (nil: to all) and fills parts[r] with what member r gave, for each r but
	// the own rank (parts[rank] is left alone). Lengths are in bytes and agreed on beforehand; any may be 0, and all are
	// for a member that only gives. width is the size of one element. tag names the collective inside its attempt; every
	// member calls AllGather with the same tags and takes in the same order. It returns at once; wait blocks until all
	// parts are here, which belong to the caller from then on; given blocks until every other member that takes has mine,
	// which must stay unchanged until then.
	AllGather(ctx context.Context, tag uint32, width int, mine []byte, takes []bool, parts [][]byte) (wait, given func() error)

	// Give gives parts[r] (elements of 4 bytes) to member r's sink, for each r but the own rank; empty parts are not sent.
	// kind and tag say what they are; count is the number of microbatches that are summed in them, at least 1. It returns
	// at once, also where a Sink's Done calls it; wait blocks until all parts are acknowledged, and they must stay
	// unchanged until then.
	Give(ctx context.Context, kind Kind, tag uint32, parts [][]byte, count int) (wait func() error)

	// SetPhase says what this member is doing, for others to know. It costs next to nothing. See Point.
	SetPhase(phase string, unit int)

	// Ready tells the leader that this member is done with the attempt. It is sent again until the attempt ends.
	Ready(payload []byte) error

	// Next blocks until the log holds the entry that ends the attempt. Where that takes the run back to a checkpoint it is
	// ErrRestored.
	Next(ctx context.Context) (Entry, error)
}

// Kind says what is given to a Sink.
type Kind uint8

const (
	Gradient Kind = iota + 1 // a member's sum of a unit's gradient, for the owner; the tag is the unit
	Forward                  // an owner's sum of all members' gradients, for its backups; the tag is the unit
	FillData                 // the state of a range, for who is to hold it; the tag is the range
)

// Sink takes what others give. Calls may come from several goroutines at once. Add is called once per (kind, tag, source,
// chunk) after its checksum was verified, Done once per (kind, tag, source) after the last Add. data is valid during the
// call only, offset is in elements of 4 bytes from the start of the part. Whoever calls them holds no lock that Give needs.
type Sink interface {
	Add(kind Kind, tag, source, offset int, data []byte) error
	Done(kind Kind, tag, source, count int) error
}

// Entry is what ended an attempt and begins the next one.
type Entry struct {
	Fence   uint64 // names the next attempt
	Kind    EntryKind
	Payload []byte  // the last Commit's, Retry's or Done's, made by Decide; nil before the first
	Work    []int64 // for the next attempt, by rank: see Deal
	Fills   []Fill  // for the next attempt
	View    *View   // the view that begins, if this entry begins one
}

// EntryKind is the kind of a log entry that ends an attempt.
type EntryKind uint8

const (
	EntryCommit EntryKind = iota + 1 // the step is final: update
	EntryRetry                       // the same step again, with other exponents
	EntryDone                        // the run is over
	EntryView                        // the same step again, in another view
	EntryLate                        // the same step again, with the work dealt differently
)

// View is the members of a time, by rank, and who holds which of Layout.Ranges. A range's holders are its owner and its
// backups; only they have its state.
type View struct {
	Fence     uint64 // of the entry that began it
	Rank      int    // this member's place; -1: it is not in this view
	Size      int    // number of members
	Owner     []int  // by range: the owner's rank
	Backups   [][]int
	Exporting bool   // some member wants the final parameters, see Config.Export
	NoFiles   []bool // by rank: who keeps no checkpoints, as browsers don't; nil: all keep them
}

// Fill says that the owner of a range gives its state to rank To in an attempt. When the attempt is committed, To is a
// backup of the range.
type Fill struct{ Range, To int }

// Point is a moment in a member's work, see Config.At.
type Point struct {
	Step  int
	Phase string
	Unit  int // -1 where it is about no unit
}

// Phases of a Point.
const (
	PhaseGather     = "gather"     // before waiting for a unit; for the first before asking for it
	PhaseForward    = "forward"    // before a stage's forward pass
	PhaseBackward   = "backward"   // before a stage's backward pass
	PhaseReduce     = "reduce"     // before a unit's gradient is given away, and before waiting for the own sums
	PhaseReady      = "ready"      // all is done here, but not yet said
	PhaseCommit     = "commit"     // the log has committed the step, nothing is applied here
	PhaseUpdate     = "update"     // before a unit's update
	PhaseFill       = "fill"       // before a range is given to or expected from another member
	PhaseCheckpoint = "checkpoint" // before the own part of a checkpoint is saved
	PhaseEvaluate   = "evaluate"   // before the evaluation

	phaseData = "data" // while the own samples are read; no Point
)
