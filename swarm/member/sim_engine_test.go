package member

import (
	"slices"

	"shoal/internal/place"
)

// frameKind is what a frame between two engines carries.
type frameKind int

const (
	frameGather   frameKind = iota // the sender's own ranges: values
	frameGradient                  // sums over the sender's microbatches, for the receiver's ranges
	frameForward                   // reduced gradients of the sender's ranges, for a backup or for one that is being filled
	frameState                     // a range's value: a fill
	frameAck                       // the receiver has been filled with a range
)

// frame is a piece of data between two members. Links carry frames whole and perhaps twice, in any order.
type frame struct {
	kind   frameKind
	fence  uint64
	from   uint64 // member id
	step   int64
	ranges []int
	values []uint64
	micro  uint64 // of a gradient
}

// piece is what a member holds of a range: its value before step.
type piece struct {
	value uint64
	step  int64
}

// attempt is what an engine has gathered since a fence.
type attempt struct {
	fence  uint64
	step   int64
	exps   [2]int64
	fills  []place.Fill
	shares []uint64 // by rank: microbatches

	params   []uint64 // by range
	gathered uint64   // ranges in params
	computed bool
	due      int // tick of the member at which computing is done; 0: not begun

	sums    map[int]uint64 // own ranges
	micro   uint64         // microbatches in sums
	sources map[uint64]bool
	reduced map[int]uint64 // gradients of all microbatches, own and forwarded
	filled  map[int]piece  // received
	owed    map[uint64]int // acks that are still to come, by member
	acks    map[[2]uint64]bool
	report  report
	ready   bool
}

// engine is one member's part of the training.
type engine struct {
	w     *world
	p     *proc
	shard map[int]piece
	place place.Map
	view  *View // nil: in none yet
	att   *attempt
	ahead []*frame // of fences that this member's log has not reached
	done  bool

	restored uint64 // log index of the last Restore
}

// ended takes in what the log says.
func (en *engine) ended(e Entry) {
	if en.done {
		en.w.fault(en.p, "an entry after the end: %+v", e)
		return
	}
	if e.Restored != en.restored {
		en.goBack(e)
	}
	final := false
	if e.Payload != nil {
		o := unpack[outcome](e.Payload)
		final = o.final() && en.att != nil && o.Step == en.att.step
		if final {
			en.apply(o)
			en.place = en.place.Apply(en.att.fills)
		} else if o.final() && (e.Kind == EntryCommit || e.Kind == EntryDone) && en.att != nil {
			en.w.fault(en.p, "3: Commit of step %d in an attempt of step %d", o.Step, en.att.step)
		}
	}
	if e.View != nil {
		en.enter(e)
	}
	if en.done = e.Kind == EntryDone; !en.done && en.view != nil {
		en.begin(e)
	}
}

// apply updates all that this member holds: state changes here only, by fills, and by goBack (invariant 8).
func (en *engine) apply(o outcome) {
	a := en.att
	if !a.ready {
		en.w.fault(en.p, "5: Commit of step %d although this member was not ready for it", o.Step)
	}
	if f := en.w.finals[o.Step]; f.follows != a.fence {
		en.w.fault(en.p, "5: step %d was committed behind fence %d, but the gradients here are those of %d", o.Step, f.follows, a.fence)
	}
	if o.Used != a.exps {
		en.w.fault(en.p, "7: Commit of step %d with exponents %v, tried with %v", o.Step, o.Used, a.exps)
	}
	for r, p := range a.filled {
		en.shard[r] = p
	}
	for r, p := range en.shard {
		sum, ok := a.reduced[r]
		if !ok || p.step != o.Step {
			en.w.fault(en.p, "5: Commit of step %d: range %d is at step %d, gradient %v", o.Step, r, p.step, ok)
		}
		en.shard[r] = piece{en.w.toy.update(p.value, o, r, sum), o.Step + 1}
	}
}

// goBack drops all that is here, and reads what the log says that this member begins with.
func (en *engine) goBack(e Entry) {
	en.restored, en.view, en.att, en.place, en.shard = e.Restored, nil, nil, place.Map{}, map[int]piece{}
	if e.Payload != nil || e.View == nil || e.View.Rank < 0 {
		return
	}
	step, _ := following(e.Run, nil)
	if !en.p.reads(step) {
		en.w.fault(en.p, "8: it is to go back to the checkpoint of step %d, which it can't read", step)
	}
	for r := range en.w.toy.ranges {
		en.shard[r] = piece{en.w.truth.values[step][r], step}
	}
}

// enter begins another view. What it doesn't name as this member's is dropped.
func (en *engine) enter(e Entry) {
	v := e.View
	if v.Rank < 0 {
		en.view, en.att = nil, nil
		return
	}
	if en.view == nil && e.Restored == 0 && (v.Number == 1 || e.Payload == nil) { // it can be made from the seed
		for r := range en.w.toy.ranges {
			en.shard[r] = piece{value: en.w.toy.first(r)}
		}
	}
	en.view, en.place = v, v.Place
	for r := range en.shard {
		if !v.Place.Holds(r, v.Rank) {
			delete(en.shard, r)
		}
	}
}

func (en *engine) begin(e Entry) {
	step, exps := following(e.Run, e.Payload)
	work := e.Work
	if len(work) != len(en.view.Members) {
		en.w.fault(en.p, "work %v for %d members", work, len(en.view.Members))
		return
	}
	en.att = &attempt{fence: e.Fence, step: step, exps: exps, fills: e.Fills, shares: en.w.toy.deal(step, work),
		params: make([]uint64, len(en.w.toy.ranges)), sums: map[int]uint64{}, sources: map[uint64]bool{}, reduced: map[int]uint64{},
		filled: map[int]piece{}, owed: map[uint64]int{}, acks: map[[2]uint64]bool{}, report: report{Step: step, Exps: exps}}
	en.fill()
	en.giveParams()
	waiting := en.ahead
	en.ahead = nil
	for _, f := range waiting {
		en.take(f)
	}
	en.progress()
}

// owned lists the ranges of a rank.
func (en *engine) owned(rank int) (list []int) {
	for r, o := range en.place.Owner {
		if o == rank {
			list = append(list, r)
		}
	}
	return list
}

// value is what this member has of a range that it holds.
func (en *engine) value(r int) uint64 {
	p, ok := en.shard[r]
	if !ok || p.step != en.att.step {
		en.w.fault(en.p, "4: it is to have range %d at step %d, has %+v, %v", r, en.att.step, p, ok)
	}
	return p.value
}

func (en *engine) giveParams() {
	mine := en.owned(en.view.Rank)
	if len(mine) == 0 {
		return
	}
	f := frame{kind: frameGather, ranges: mine}
	for _, r := range mine {
		f.values = append(f.values, en.value(r))
	}
	for _, m := range en.view.Members {
		en.send(m.ID, f)
	}
}

// fill sends the ranges that the log says are to travel from here.
func (en *engine) fill() {
	for _, x := range en.att.fills {
		if en.place.Owner[x.Range] == en.view.Rank {
			en.owe(x.To, frame{kind: frameState, ranges: []int{x.Range}, values: []uint64{en.value(x.Range)}})
		}
	}
}

// send gives a frame of the current attempt to a member, oneself included.
func (en *engine) send(id uint64, f frame) {
	f.fence, f.from, f.step = en.att.fence, en.p.id, en.att.step
	if id == en.p.id {
		en.take(&f)
		return
	}
	en.w.carry(en.p.id, id, &f)
}

// owe sends what Ready waits for an acknowledgement of.
func (en *engine) owe(rank int, f frame) {
	id := en.view.Members[rank].ID
	en.att.owed[id]++
	en.send(id, f)
}

// take accepts a frame of the current fence, keeps one that is ahead, and drops an older one (PROTOCOL.md 3).
func (en *engine) take(f *frame) {
	switch {
	case en.done || en.att != nil && f.fence < en.att.fence:
	case en.att == nil || f.fence > en.att.fence:
		en.ahead = append(en.ahead, f)
	case !slices.ContainsFunc(en.view.Members, func(m Member) bool { return m.ID == f.from }):
		en.w.fault(en.p, "10: a frame of fence %d from %d, which is not in the view", f.fence, f.from)
	default:
		en.accept(f)
	}
}

func (en *engine) accept(f *frame) {
	a := en.att
	if f.step != a.step {
		en.w.fault(en.p, "9: a frame of fence %d for step %d, here it is step %d", f.fence, f.step, a.step)
	}
	switch f.kind {
	case frameGather:
		for i, r := range f.ranges {
			a.params[r] = f.values[i]
			a.gathered |= 1 << r
		}
	case frameGradient:
		en.add(f)
	case frameForward:
		for i, r := range f.ranges {
			a.reduced[r] = f.values[i]
		}
	case frameState:
		a.filled[f.ranges[0]] = piece{f.values[0], f.step}
		en.send(f.from, frame{kind: frameAck, ranges: f.ranges})
	case frameAck:
		key := [2]uint64{f.from, uint64(f.ranges[0])}
		if !a.acks[key] {
			a.acks[key] = true
			a.owed[f.from]--
		}
	}
}

// add counts a member's microbatches once, however often they come (PROTOCOL.md 4).
func (en *engine) add(f *frame) {
	a := en.att
	if a.sources[f.from] {
		return
	}
	a.sources[f.from] = true
	if a.micro&f.micro != 0 {
		en.w.fault(en.p, "6: microbatches %b of step %d come twice, again from %d", a.micro&f.micro, a.step, f.from)
	}
	a.micro |= f.micro
	for i, r := range f.ranges {
		a.sums[r] += f.values[i]
	}
}

// progress does what has become possible.
func (en *engine) progress() {
	a := en.att
	if a == nil || a.ready || en.done {
		return
	}
	if a.gathered == all(len(a.params)) && a.due == 0 {
		a.due = en.p.ticks + en.p.delay()
	}
	if a.due > 0 && !a.computed && en.p.ticks >= a.due {
		en.compute()
	}
	if mine := en.owned(en.view.Rank); a.micro == all(en.w.toy.micro) && len(mine) > 0 {
		if _, ok := a.reduced[mine[0]]; !ok {
			en.reduce(mine)
		}
	}
	if len(en.waiting()) == 0 && a.computed {
		en.finish()
	}
}

func (en *engine) compute() {
	a := en.att
	a.computed = true
	p := en.w.toy.params(a.params)
	mine := a.shares[en.view.Rank]
	if mine == 0 {
		return
	}
	for m := range en.w.toy.micro {
		if mine&(1<<m) != 0 {
			a.report.add(&en.w.toy, p, m)
		}
	}
	for rank, to := range en.view.Members {
		f := frame{kind: frameGradient, micro: mine, ranges: en.owned(rank)}
		if len(f.ranges) == 0 {
			continue
		}
		for _, r := range f.ranges {
			sum := uint64(0)
			for m := range en.w.toy.micro {
				if mine&(1<<m) != 0 {
					sum += en.w.toy.gradient(p, a.step, a.exps, m, r)
				}
			}
			f.values = append(f.values, sum)
		}
		en.send(to.ID, f)
	}
}

// reduce forwards the whole gradients of the own ranges to all who hold them, or will when this attempt is committed.
func (en *engine) reduce(mine []int) {
	a := en.att
	for _, r := range mine {
		a.reduced[r] = a.sums[r]
		a.report.Owned |= 1 << r
		a.report.Norm += en.w.toy.norm(r, a.sums[r])
		a.report.State += en.w.toy.state(r, en.value(r))
	}
	for rank := range en.view.Members {
		f := frame{kind: frameForward}
		for _, r := range mine {
			if slices.Contains(en.place.Backups[r], rank) || slices.Contains(a.fills, place.Fill{Range: r, To: rank}) {
				f.ranges, f.values = append(f.ranges, r), append(f.values, a.sums[r])
			}
		}
		if len(f.ranges) > 0 {
			en.send(en.view.Members[rank].ID, f)
		}
	}
}

// finish says Ready: everything is here that a Commit will need.
func (en *engine) finish() {
	a := en.att
	a.ready = true
	if err := en.p.core.SetReady(a.fence, pack(a.report)); err != nil {
		en.w.fault(en.p, "SetReady: %v", err)
	}
}

// waiting lists the members that this one waits for in its attempt.
func (en *engine) waiting() (ids []uint64) {
	a := en.att
	wait := func(rank int) {
		if id := en.view.Members[rank].ID; id != en.p.id && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for r, owner := range en.place.Owner {
		if a.gathered&(1<<r) == 0 {
			wait(owner)
		}
	}
	if len(ids) > 0 {
		return ids // computing can't have begun
	}
	if len(en.owned(en.view.Rank)) > 0 {
		for rank, share := range a.shares {
			if share&^a.micro != 0 {
				wait(rank)
			}
		}
	}
	for r, owner := range en.place.Owner {
		_, reduced := a.reduced[r]
		_, filled := a.filled[r]
		fill := slices.Contains(a.fills, place.Fill{Range: r, To: en.view.Rank})
		if !reduced && !en.w.setup.hasty && (fill || en.place.Holds(r, en.view.Rank)) || fill && !filled {
			wait(owner)
		}
	}
	for rank, m := range en.view.Members {
		if a.owed[m.ID] > 0 {
			wait(rank)
		}
	}
	return ids
}

// blockers are those whom it waits for right now: nobody while it is computing.
func (en *engine) blockers() []uint64 {
	if a := en.att; a.due > 0 && !a.computed {
		return nil
	}
	return en.waiting()
}

// phase is what SetWaiting tells.
func (en *engine) phase() string {
	switch a := en.att; {
	case a.ready:
		return "ready"
	case a.computed:
		return "reduce"
	case a.due > 0:
		return "forward"
	}
	return "gather"
}
