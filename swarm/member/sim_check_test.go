package member

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/proto"
	"shoal/internal/place"
)

// chronicle is what a world knows of the log: the first member to apply an entry writes it down, all others are compared.
//
// Which invariant of PROTOCOL.md is asserted where, by its number:
//
//	1   compareLog (raft's entries), entry (what members were told)
//	2   final: one Commit for each step, equal to the one-member run's; score: the values at the end
//	3   check, engine.ended
//	4   check, engine.value
//	5   engine.apply
//	6   engine.add, toy.decide
//	7   engine.apply, toy.decide
//	8   check: a value is that of the one-member run at its step; only apply, enter and goBack write one; goneBack, engine.goBack
//	9   check, engine.accept
//	10  engine.take
//	11  check
//	12  score
//	13  view
//	14  view: nobody is taken out who was well (not in PROTOCOL.md's list; its rule 14)
type chronicle struct {
	generation uint64
	log        map[uint64][]byte  // by index: raft's entry
	follows    map[uint64]uint64  // by index: the fence that the entry names
	fences     map[uint64]*moment // by fence
	newest     *moment
	survived   uint64 // highest index among those who recovered
	finals     map[int64]final
	abandoned  map[uint64]bool // member ids that were given to nobody
	restores   int             // times that the run went back to a checkpoint
}

type final struct{ fence, follows uint64 }

// moment is the run as of a fence.
type moment struct {
	entry   Entry
	ids     []uint64
	place   place.Map
	step    int64 // that is tried
	payload []byte
}

func newChronicle() chronicle {
	return chronicle{log: map[uint64][]byte{}, follows: map[uint64]uint64{}, fences: map[uint64]*moment{}, finals: map[int64]final{}, abandoned: map[uint64]bool{}}
}

// compareLog compares what a member has newly applied with what others have.
func (w *world) compareLog(p *proc) {
	c := p.core
	if c.Generation() < w.generation {
		return
	}
	if c.Generation() > w.generation { // begun anew from what survives
		w.begunAnew(c.Generation())
	}
	first, err := c.storage.FirstIndex()
	if err != nil {
		w.fault(p, "log: %v", err)
		return
	}
	lo, hi := max(first, p.seen+1), c.log.applied+1
	if lo >= hi {
		return
	}
	entries, err := c.storage.Entries(lo, hi, 1<<40)
	if err != nil {
		w.fault(p, "log: entries %d to %d: %v", lo, hi, err)
		return
	}
	for _, e := range entries {
		i := e.GetIndex()
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(e)
		if err != nil {
			w.fault(p, "log: %v", err)
		}
		if known := w.log[i]; known == nil {
			w.log[i] = b
			if r, err := decodeRecord(e.GetData()); err == nil {
				w.follows[i] = r.Follows
			}
		} else if !bytes.Equal(known, b) {
			w.fault(p, "1: another entry %d than other members have", i)
		}
	}
	p.seen = hi - 1
}

// begunAnew forgets what only the dead knew of the log that a new generation goes on from.
func (w *world) begunAnew(generation uint64) {
	w.note("generation %d begins", generation)
	w.generation, w.log, w.follows, w.newest = generation, map[uint64][]byte{}, map[uint64]uint64{}, nil
	for _, p := range w.procs {
		p.seen = 0
	}
	for fence, m := range w.fences {
		if fence > w.survived {
			delete(w.fences, fence)
		} else if w.newest == nil || fence > w.newest.entry.Fence {
			w.newest = m
		}
	}
	for step, f := range w.finals {
		if f.fence > w.survived {
			delete(w.finals, step)
		}
	}
}

// entry compares what a member was told of the log's course, and takes down what is new.
func (w *world) entry(p *proc, e Entry) {
	w.note("%d: %s", p.id, describe(e))
	if p.core.Generation() < w.generation {
		return
	}
	if known := w.fences[e.Fence]; known != nil {
		w.sameEntry(p, known, e)
		return
	}
	if n := w.newest; n != nil && e.Fence < n.entry.Fence {
		w.fault(p, "1: fence %d, which nobody saw who is at fence %d", e.Fence, n.entry.Fence)
		return
	}
	m := &moment{entry: e, payload: e.Payload}
	m.step, _ = following(e.Run, e.Payload)
	if w.newest != nil {
		m.ids, m.place = w.newest.ids, w.newest.place
	}
	back := w.newest != nil && e.Restored != w.newest.entry.Restored
	if back {
		w.goneBack(p, e)
	}
	if e.Kind == EntryCommit || e.Kind == EntryDone {
		w.final(p, e)
		m.place = m.place.Apply(w.newest.entry.Fills)
	}
	if e.View != nil {
		m.ids, m.place = nil, e.View.Place
		for _, x := range e.View.Members {
			m.ids = append(m.ids, x.ID)
		}
		w.view(p, e, m, back)
	}
	w.fences[e.Fence], w.newest = m, m
	w.tell("log %s", describe(e))
}

func (w *world) sameEntry(p *proc, m *moment, e Entry) {
	same := bytes.Equal(m.payload, e.Payload) && slices.Equal(m.entry.Work, e.Work) && slices.Equal(m.entry.Fills, e.Fills)
	if e.Kind == EntryView && m.entry.Kind != EntryView { // by a snapshot: all of it at once
		same = same && e.View != nil && e.View.Place.Equal(m.place)
	} else {
		same = same && e.Kind == m.entry.Kind && (e.View == nil) == (m.entry.View == nil)
	}
	if e.View != nil {
		same = same && e.View.Place.Equal(m.place) && slices.EqualFunc(e.View.Members, m.ids, func(x Member, id uint64) bool { return x.ID == id })
		if rank := slices.Index(m.ids, p.id); rank != e.View.Rank {
			same = false
		}
	}
	if !same {
		w.fault(p, "1: was told %s, another member %s", describe(e), describe(m.entry))
	}
}

// goneBack asserts that the run goes back to a checkpoint only where nobody holds some range, and forgets what was decided
// after that checkpoint.
func (w *world) goneBack(p *proc, e Entry) {
	w.restores++
	old := w.newest
	held := true
	for r := range old.place.Owner {
		held = held && slices.ContainsFunc(slices.Collect(old.place.Holders(r)), func(h int) bool {
			x := w.procs[old.ids[h]]
			return x != nil && !x.troubled()
		})
	}
	if held {
		w.fault(p, "8: the run goes back to a checkpoint although somebody holds each range")
	}
	step, _ := following(e.Run, nil)
	for s := range w.finals {
		if s >= step {
			delete(w.finals, s)
		}
	}
}

// final takes down that a step was committed.
func (w *world) final(p *proc, e Entry) {
	o := unpack[outcome](e.Payload)
	if old, ok := w.finals[o.Step]; ok {
		w.fault(p, "2: step %d was committed by entry %d and again by %d", o.Step, old.fence, e.Fence)
	}
	if !w.truth.same(e.Payload) {
		w.fault(p, "2: the Commit of step %d differs from the one-member run's: %+v", o.Step, o)
	}
	if w.newest == nil || w.newest.step != o.Step {
		w.fault(p, "2: Commit of step %d out of turn", o.Step)
	}
	w.finals[o.Step] = final{e.Fence, w.follows[e.Fence]}
}

// view asserts invariant 13, and that nobody is taken out who did nothing wrong, or was the last to have something.
func (w *world) view(p *proc, e Entry, m *moment, back bool) {
	old := w.newest
	if old == nil {
		return
	}
	removed, added := 0, 0
	for _, id := range old.ids {
		if slices.Contains(m.ids, id) {
			continue
		}
		removed++
		_, stays := p.core.st.find(id) // whoever can't read what the others have gone back to
		if x := w.procs[id]; x != nil && !x.troubled() && !(back && stays) {
			w.fault(p, "14: view %d takes out %d, which was well: %s", e.View.Number, id, e.View.Reason)
		}
	}
	for _, id := range m.ids {
		if !slices.Contains(old.ids, id) {
			added++
		}
	}
	if e.Kind == EntryView && !back && (removed == 0 || added > 0) {
		w.fault(p, "13: an attempt was aborted for view %d, in which nobody is lost: %s", e.View.Number, e.View.Reason)
	}
	for r, owner := range m.place.Owner {
		if owner < 0 {
			w.fault(p, "4: nobody has range %d in view %d", r, e.View.Number)
		}
	}
}

// patience is how long after a trouble has passed a member may still be taken out for it.
func (w *world) patience() int64 { return int64(5*w.setup.timing.Suspect) * perTick }

// check asserts what must hold for a member at any moment.
func (w *world) check(p *proc) {
	en := p.en
	for _, f := range en.ahead {
		if en.att != nil && f.fence <= en.att.fence {
			w.fault(p, "11: a frame of fence %d is kept, the current one is %d", f.fence, en.att.fence)
		}
	}
	if limit := 16 * (len(w.ids) + 1) * (len(w.toy.ranges) + 2); len(en.ahead) > limit {
		w.fault(p, "11: %d frames are kept, at most %d", len(en.ahead), limit)
	}
	if first, _ := p.core.storage.FirstIndex(); w.setup.snapshots > 0 && p.core.log.applied > first+uint64(3*w.setup.snapshots)+20 {
		w.fault(p, "11: the log is kept from %d to %d", first, p.core.log.applied)
	}
	if en.view == nil || en.att == nil || en.done || p.over {
		return
	}
	for r := range en.place.Owner {
		if !en.place.Holds(r, en.view.Rank) {
			continue
		}
		have, ok := en.shard[r]
		if !ok || have.step != en.att.step {
			w.fault(p, "3: fence %d: it holds range %d, step %d wanted: has step %d, %v", en.att.fence, r, en.att.step, have.step, ok)
			continue
		}
		if have.value != w.truth.values[have.step][r] {
			w.fault(p, "9: range %d at step %d differs from the one-member run's", r, have.step)
		}
	}
}
