// Package member is the run's log: who belongs to the run, which view trains, and which steps are final. It is a pure
// core on top of Raft: no goroutine, no clock, no I/O. Its caller owns a Core, in one goroutine, and goes round:
//
//	for {
//		select {
//		case m := <-received:   core.Step(m)      // m.From is the member whose stream it came from
//		case <-ticker:          core.Tick()       // after a gap: take in all that is received, core.Resume(), then Tick
//		case ...:               core.SetReady, core.Admit, core.Leave, core.LinkDown, ...
//		}
//		out := core.Take()      // send out.Messages, act on out.Events
//	}
//
// Messages may be lost, doubled, delayed and reordered: whatever matters is sent again. Events come in the order of the
// log and each once; every member gets the same entries in the same order, from the first view on that it is in. Only one
// that was so far behind that it got a snapshot has several entries told as one.
//
// # The fence
//
// An attempt is named by the log index of the entry that began it, its fence. View, Commit, Retry, Late, Restore and Done name the
// fence that they follow and change nothing when that is not the current one, so of two entries that follow one fence
// only the first counts. The leader proposes only after it has applied an entry of its own term, and members repeat
// their Ready to whoever leads until the fence has changed.
//
// # Coming and going
//
// Members die, and a View takes them out: the same step again among the others. All else waits for a Commit, so that no
// attempt is aborted for it: newcomers enter the view, members leave, owners change. What is to be sent from one to
// another (fills) is in the log, too: it is done once the attempt that it is for is committed. Nobody is taken out who is
// the last holder of a range.
//
// # Files
//
//	record.go   the entries of the log and their encoding
//	state.go    the state machine: what each entry does; a snapshot is its state
//	view.go     the part of an entry that begins a view, and what it is checked for
//	core.go     Core: what the caller calls
//	status.go   what can be asked of a Core
//	restore.go  back to a checkpoint, when nobody holds some range
//	raft.go     the Raft library underneath: stepping, compaction
//	apply.go    what is told when an entry or a snapshot is applied
//	lead.go     what only the leader does: admissions, the first view, deaths, decisions
//	plan.go     what the leader's next entry says: who is in the view, who holds and is sent what
//	voters.go   who votes and who leads
//	late.go     how long attempts take, and what is done about those that hold the others up
//	alive.go    who is taken for alive
//	stuck.go    when the run can't go on
//	recover.go  a new log from survivors
//	broken.go   rules that a test can turn off
//
// The tests simulate whole runs of random kills, stops, partitions, joins and leaves, with a toy model whose numbers must
// equal those of a run of one member (sim_test.go; -schedules N for more of them), and clusters that follow scripts
// (testdata; -update writes what they print).
package member
