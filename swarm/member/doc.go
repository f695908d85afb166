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
// log and each once; every member gets the same views and entries in the same order.
//
// # The fence
//
// An attempt is named by the log index of the entry that began it, its fence. View, Commit, Retry and Done name the
// fence that they follow and change nothing when that is not the current one, so of two entries that follow one fence
// only the first counts. The leader proposes only after it has applied an entry of its own term, and members repeat
// their Ready to whoever leads until the fence has changed.
//
// # Files
//
//	record.go   the entries of the log and their encoding
//	state.go    the state machine: what each entry does; a snapshot is its state
//	core.go     Core: what the caller calls
//	raft.go     the Raft library underneath: stepping, applying, compaction
//	lead.go     what only the leader does: admissions, voters, the first view, decisions, losses
//	alive.go    who is taken for alive, and when a member gives up
package member
