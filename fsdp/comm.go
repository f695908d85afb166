package fsdp

import "context"

// Comm is what the engine needs from the mesh: collectives among the members of the frozen view, and the run's log. An
// attempt (a try at a step) is named by its fence, the log index of the entry that began it. Both methods that move data
// take every member's part in the same order on every member.
type Comm interface {
	// Rank and Size are this member's place in the view (from 0) and the number of members.
	Rank() int
	Size() int

	// Begin enters the attempt that fence names and discards what belongs to older ones. From now on each piece of
	// gradient that arrives for this attempt is given to sink.
	Begin(fence uint64, sink Sink) error

	// AllGather gives mine to every other member and fills parts[r] with what member r gave, for each r but the own
	// rank (parts[rank] is left alone). Lengths are in bytes and agreed on beforehand; any may be 0. width is the
	// size of one element. tag names the collective inside its attempt; every member calls AllGather with the same
	// tags in the same order. It returns at once; wait blocks until all parts are here, which belong to the caller
	// from then on; given blocks until every other member has mine, which must stay unchanged until then.
	AllGather(ctx context.Context, tag uint32, width int, mine []byte, parts [][]byte) (wait, given func() error)

	// ReduceScatter gives parts[r] (elements of 4 bytes) to member r's sink, for each r but the own rank; empty parts
	// are not sent. microbatches says how many are summed in them, at least 1. It returns at once; wait blocks until
	// the parts may be reused.
	ReduceScatter(ctx context.Context, unit int, parts [][]byte, microbatches int) (wait func() error)

	// Ready tells the leader that this member is done with the attempt. It is sent again until the attempt ends.
	Ready(payload []byte) error

	// Next blocks until the log holds the entry that ends the attempt.
	Next(ctx context.Context) (Entry, error)
}

// Sink takes gradients as they arrive. Calls may come from several goroutines at once. Add is called once per
// (source, unit, chunk) after its checksum was verified, Done once per (source, unit) after the last Add. data is valid
// during the call only.
type Sink interface {
	Add(unit, source, offset int, data []byte) error // offset in elements from the start of the own interval
	Done(unit, source, microbatches int) error
}

// Entry is what ended an attempt.
type Entry struct {
	Fence   uint64 // names the next attempt
	Kind    EntryKind
	Payload []byte // a Commit's, Retry's or Done's scalars, made by Decide
}

// EntryKind is the kind of a log entry that ends an attempt.
type EntryKind uint8

const (
	EntryCommit EntryKind = iota + 1 // the step is final: update
	EntryRetry                       // the same step again, with other exponents
	EntryDone                        // the run is over
)
