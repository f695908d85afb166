package fsdp

import (
	"fmt"
	"slices"

	"shoal/kernel"
	"shoal/kernel/ref"
	"shoal/model"
)

// start makes the state with which this member begins: the initial one, that of a checkpoint, or none, where it joins a
// run that is under way.
func (e *Engine) start() error {
	c := &e.cfg
	if r := c.Resume; r != nil {
		if err := r.Position.check(&c.Hyper, len(e.layout.Tensors)); err != nil {
			return err
		}
		e.decider.Start = &r.Position
	}
	var last *Outcome
	if c.Start.Payload != nil {
		var err error
		if last, err = e.decode(c.Start.Payload); err != nil {
			return err
		}
		e.res.RunSamples, e.res.Missed = last.Total, last.Total
	}
	e.remember(last)
	first, _, _, _, _ := e.decider.next(nil)
	if e.step, e.try, _, _, e.exps = e.decider.next(last); e.step > c.Hyper.Steps || last != nil && last.Kind == EntryDone {
		return fmt.Errorf("fsdp: the run is over")
	}
	e.untold = last == nil || last.Kind == EntryCommit
	return e.enter(c.Start.View, e.step == first)
}

// remember takes over what is known of earlier steps.
func (e *Engine) remember(last *Outcome) {
	losses, hashes := e.cfg.Losses, e.cfg.StepHashes
	if r := e.cfg.Resume; r != nil && losses == nil {
		losses, hashes = r.Losses, r.StepHashes
	}
	e.res.Losses, e.res.StepHashes = slices.Clip(losses), slices.Clip(hashes) // what is appended must not be seen by whoever else has them
	e.cfg.Losses, e.cfg.StepHashes = nil, nil
	if last == nil || !e.hashDue(last.Step) {
		return
	}
	if h, ok := last.Hash(); ok {
		e.res.hashed(last.Step, h)
	}
}

// enter begins the first view. made says that nothing was committed yet, so that what this member holds is made here.
func (e *Engine) enter(v *View, made bool) error {
	if v.Rank < 0 {
		return ErrLeft
	}
	p, err := newPlacement(e.layout, v)
	if err != nil {
		return err
	}
	e.place, e.rank = p, v.Rank
	for i, u := range e.units {
		u.own = e.newHolding(&u.UnitLayout, p.units[i].owned[e.rank], ownClasses)
		u.backup = e.newHolding(&u.UnitLayout, p.runs(i, func(k int) bool { return p.backs(k, e.rank) }), backupClasses)
		for _, h := range u.holdings() {
			if !made && len(h.runs) > 0 {
				return fmt.Errorf("fsdp: this member joins at step %d, and the log says that it holds a part of unit %s", e.step, u.Name)
			}
			if err := e.fillIn(u, h); err != nil {
				return err
			}
		}
		e.room(i)
	}
	if err := e.next(e.cfg.Start); err != nil {
		return err
	}
	if err := e.entered(v); err != nil {
		return err
	}
	if e.untold {
		return e.pending()
	}
	return nil
}

// fillIn makes the initial state of what is held, a piece at a time.
func (e *Engine) fillIn(u *unit, h *holding) (err error) {
	e.dev.Zero(h.m)
	e.dev.Zero(h.v)
	chunk := make([]float32, min(h.p.Len, 1<<16))
	h.each(&u.UnitLayout, func(s Span, off, n, at int) {
		key := ref.Hash64(e.cfg.Hyper.Seed, s.Param.Name)
		for done := 0; done < n && err == nil; done += len(chunk) {
			c := chunk[:min(len(chunk), n-done)]
			if e.cfg.Resume != nil {
				err = e.cfg.Resume.Read(Params, s.Param.Name, off-s.Off+done, c)
			} else if e.cfg.Initial != nil {
				err = e.cfg.Initial(s.Param.Name, off-s.Off+done, c)
			} else {
				fill(s.Param.Init, key, off-s.Off+done, c)
			}
			e.dev.Upload(h.p.Slice(at+done, len(c)), kernel.Bytes(c))
		}
	})
	if err == nil && e.cfg.Resume != nil {
		err = e.loadState(u, h)
	}
	return err
}

// fill writes the initial values of elements first, first+1, ... of a tensor.
func fill(init model.Init, key uint64, first int, dst []float32) {
	switch init.Kind {
	case model.Zeros:
		clear(dst)
	case model.Ones:
		for i := range dst {
			dst[i] = 1
		}
	case model.Uniform:
		ref.FillUniform(dst, key, first, init.A)
	case model.Normal:
		ref.FillNormal(dst, key, first, init.A)
	}
}
