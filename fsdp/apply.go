package fsdp

import (
	"fmt"
	"slices"

	"shoal/kernel"
)

// apply makes the entry that ended an attempt this member's state, and what it says of the next attempt. A member that
// missed entries gets one that begins a view; its Payload tells whether the step that it was in was committed.
func (e *Engine) apply(entry Entry) (done bool, err error) {
	ends := entry.Kind == EntryCommit || entry.Kind == EntryRetry || entry.Kind == EntryDone
	var o *Outcome
	if entry.Payload != nil || ends {
		if o, err = e.decode(entry.Payload); err != nil {
			return false, err
		}
		switch step, try, _, _, _ := e.decider.next(o); {
		case o.Step == e.step && o.Attempt == e.try:
		case !ends && step == e.step && try == e.try:
			o = nil // what began this attempt: the entry decides nothing
		default:
			return false, fmt.Errorf("fsdp: the log ends step %d, try %d, this member is at step %d, try %d", o.Step, o.Attempt, e.step, e.try)
		}
	}
	if o != nil {
		if done, err := e.decided(o); done || err != nil {
			return done, err
		}
	}
	e.forgetFills()
	if err := e.follow(entry, o != nil && o.Kind == EntryCommit); err != nil {
		return false, err
	}
	if o != nil && e.cfg.Progress != nil {
		e.cfg.Progress(o, slices.Clip(e.res.Losses), slices.Clip(e.res.StepHashes))
	}
	return false, e.dev.Sync()
}

// decode reads an outcome from the log.
func (e *Engine) decode(payload []byte) (*Outcome, error) {
	o, err := DecodeOutcome(payload)
	if err == nil {
		err = o.check(len(e.layout.Tensors))
	}
	return o, err
}

// decided applies the outcome of this member's attempt.
func (e *Engine) decided(o *Outcome) (done bool, err error) {
	if o.Saved != nil && e.cfg.Saver != nil {
		e.cfg.Saver.Finish(o.Saved)
	}
	if h, ok := o.Hash(); ok && (o.Step == e.cfg.Hyper.Steps || e.hashDue(o.Step)) {
		e.res.hashed(o.Step, h)
	}
	e.cover, e.audit, e.saved, e.untold = nil, nil, nil, o.Kind == EntryCommit
	switch o.Kind {
	case EntryCommit:
		e.committed(o.Step)
		if err := e.commit(o); err != nil {
			return false, err
		}
	case EntryRetry:
		e.res.Retries++
	case EntryDone:
		e.res.StateHash, e.res.EvalLoss = o.StateHash, o.EvalLoss
		e.res.EvalCount, e.res.Correct, e.res.MemberRows = o.EvalCount, o.Correct, o.MemberRows
		e.forgetFills()
		return true, e.dev.Sync()
	}
	e.step, e.try, _, _, e.exps = e.decider.next(o)
	return false, nil
}

// commit takes the step on all that is held here, and on what arrived in the attempt, which is held from now on.
func (e *Engine) commit(o *Outcome) error {
	e.at(PhaseCommit, -1)
	if err := e.tried.complete(); err != nil {
		return err
	}
	for _, u := range e.units {
		for _, f := range u.fills {
			e.loadFill(f)
		}
	}
	if o.Skipped {
		e.res.Skipped++
	} else if err := e.update(o); err != nil {
		return err
	}
	e.res.Samples += e.computed
	if e.computed > 0 {
		e.res.Computed++
	}
	if e.cfg.Computed != nil {
		e.cfg.Computed(e.computed)
	}
	e.res.RunSamples = o.Total
	e.res.Losses = append(e.res.Losses, o.Loss)
	e.place.fill(e.tried.fills)
	filled := false
	for i, u := range e.units {
		if len(u.fills) > 0 {
			if err := e.store(i); err != nil {
				return err
			}
			filled = true
		}
	}
	if filled {
		e.dev.Trim()
	}
	e.rest()
	return nil
}

// follow prepares for the attempt that entry begins. stepped says that the step before was committed.
func (e *Engine) follow(entry Entry, stepped bool) error {
	if entry.View != nil {
		if err := e.change(entry.View); err != nil {
			return err
		}
	}
	if entry.Kind == EntryView || entry.Kind == EntryLate {
		for _, u := range e.units {
			u.fresh = false // not every member came to gather it
		}
	}
	if err := e.next(entry); err != nil {
		return err
	}
	if e.untold && (stepped || entry.View != nil) {
		return e.pending()
	}
	return nil
}

// next takes from entry what the next attempt needs to know.
func (e *Engine) next(entry Entry) error {
	if n := len(entry.Work); n != 0 && n != e.place.Size {
		return fmt.Errorf("fsdp: the log has the work of %d members, the view %d", n, e.place.Size)
	}
	e.fence, e.work, e.fills = entry.Fence, entry.Work, entry.Fills
	if len(e.work) == 0 {
		e.work = make([]int64, e.place.Size)
	}
	return nil
}

// change switches to another view: what is held here, and who owns it. What is not held any more is freed.
func (e *Engine) change(v *View) error {
	if v.Rank < 0 {
		return ErrLeft
	}
	p, err := newPlacement(e.layout, v)
	if err != nil {
		return err
	}
	e.place, e.rank = p, v.Rank
	for i, u := range e.units {
		e.format.forget(u)
		if err := e.store(i); err != nil {
			return err
		}
		e.room(i)
	}
	e.spare.clear()
	e.dev.Trim()
	return e.entered(v)
}

// entered takes note of the view that has begun.
func (e *Engine) entered(v *View) error {
	e.res.Rank = v.Rank
	e.res.Views = append(e.res.Views, ViewStart{Fence: v.Fence, Step: e.step, Size: v.Size})
	e.rest()
	return e.dev.Sync()
}

// rest measures what is here between two steps.
func (e *Engine) rest() {
	meter := e.dev.Meter()
	e.res.Owned = e.place.owned()
	e.res.ParameterBytes = meter.Live(kernel.Parameters)
	e.res.GradientBytes = meter.Live(kernel.Gradients)
	e.res.OptimizerBytes = meter.Live(kernel.Optimizer)
	e.res.BackupBytes = meter.Live(kernel.Backups)
}

// pending makes what the next Ready is to say of the state that was just reached: its hash, the audit, this member's part
// of a checkpoint. In another view it is made anew, since other members own what is saved.
func (e *Engine) pending() error {
	e.cover, e.audit, e.saved = nil, nil, nil
	resumed := e.cfg.Resume != nil && e.step == e.cfg.Resume.Step
	save := e.saveDue() && !resumed
	if save || resumed || e.step == e.cfg.Hyper.Steps || e.step > 0 && e.hashDue(e.step) {
		if err := e.hash(); err != nil {
			return err
		}
	}
	if save || e.step > 0 && e.cfg.AuditEvery > 0 && e.step%e.cfg.AuditEvery == 0 {
		if err := e.makeAudit(); err != nil {
			return err
		}
	}
	if save {
		e.save()
	}
	return nil
}

// hashDue says whether the hash of the state after so many steps is recorded.
func (e *Engine) hashDue(step int) bool {
	return e.cfg.Hyper.HashEvery > 0 && step%e.cfg.Hyper.HashEvery == 0
}
