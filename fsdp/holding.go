package fsdp

import (
	"fmt"
	"slices"
	"sync"

	"shoal/kernel"
)

// holding is a part of a unit whose state is here: the parameters, AdamW's state, and this step's summed gradient. Its runs
// lie one after another in p, the trained ones first; those also in m, v and acc.
type holding struct {
	runs    []run
	trained int // elements that are trained
	p, m, v kernel.Buffer
	acc     []int32
	class   kernel.Class // of acc
}

// unit is one unit's state on this member.
type unit struct {
	UnitLayout
	own    *holding   // what this member owns
	backup *holding   // what it holds for others
	fills  []*filling // what it is to hold for others once this attempt is committed

	whole  kernel.Buffer // under zero1 and zero2: all parameters, in the form in which they travel
	fresh  bool          // whole is up to date
	others []byte        // under zero1: room for the gradient of what others own

	mu    sync.Mutex
	given map[int][]byte // by rank: sums of what is owned that are not in own.acc yet, see float

	full  kernel.Buffer // the whole unit, F32, while it is gathered
	work  kernel.Buffer // the own microbatches' gradient of the trained elements, in the backward pass
	added bool          // work is own.acc itself
}

// holdings are what this member has of the unit's state.
func (u *unit) holdings() []*holding { return []*holding{u.own, u.backup} }

// classes are what the parameters, AdamW's state and the gradients of a holding count as.
type classes struct{ p, mv, acc kernel.Class }

var (
	ownClasses    = classes{kernel.Parameters, kernel.Optimizer, kernel.Gradients}
	backupClasses = classes{kernel.Backups, kernel.Backups, kernel.Backups}
)

// newHolding allocates memory for the state of runs.
func (e *Engine) newHolding(u *UnitLayout, runs []run, c classes) *holding {
	h := &holding{runs: runs, class: c.acc}
	n := 0
	for _, r := range runs {
		if n += r.n; r.off < u.Trained {
			h.trained += r.n
		}
	}
	h.p = e.dev.Alloc(c.p, kernel.F32, n)
	h.m = e.dev.Alloc(c.mv, kernel.F32, h.trained)
	h.v = e.dev.Alloc(c.mv, kernel.F32, h.trained)
	h.acc = make([]int32, h.trained)
	e.dev.Meter().Add(h.class, int64(4*h.trained))
	return h
}

func (e *Engine) freeHolding(h *holding) {
	e.dev.Free(h.p)
	e.dev.Free(h.m)
	e.dev.Free(h.v)
	e.dev.Meter().Add(h.class, -int64(4*len(h.acc)))
	h.acc = nil
}

// find is the place in p of element off of the unit, and how many follow it there; n is 0 if it is not here.
func (h *holding) find(off int) (at, n int) {
	for _, r := range h.runs {
		if r.off <= off && off < r.off+r.n {
			return at + off - r.off, r.off + r.n - off
		}
		at += r.n
	}
	return 0, 0
}

// each calls f for the part of each tensor of u that is here: n elements from off on of the unit, from at on in p.
func (h *holding) each(u *UnitLayout, f func(s Span, off, n, at int)) {
	at := 0
	for _, r := range h.runs {
		u.within(r.off, r.off+r.n, func(s Span, off, n int) { f(s, off, n, at+off-r.off) })
		at += r.n
	}
}

// store makes what is here of unit i what the placement says. What it takes is here already, perhaps in another role.
func (e *Engine) store(i int) error {
	u := e.units[i]
	old := u.holdings()
	for _, f := range u.fills {
		old = append(old, f.h)
	}
	own, err := e.collect(u, old, e.place.units[i].owned[e.rank], ownClasses)
	if err != nil {
		return err
	}
	backup, err := e.collect(u, old, e.place.runs(i, func(k int) bool { return e.place.backs(k, e.rank) }), backupClasses)
	if err != nil {
		return err
	}
	u.own, u.backup, u.fills = own, backup, nil
	for _, h := range old {
		if h != own && h != backup {
			e.freeHolding(h)
		}
	}
	return nil
}

// collect makes a holding of runs from what old holdings have; the gradient is not kept. Where nothing changes it is one
// of them.
func (e *Engine) collect(u *unit, old []*holding, runs []run, c classes) (*holding, error) {
	for _, h := range old {
		if slices.Equal(h.runs, runs) && h.class == c.acc {
			return h, nil
		}
	}
	h := e.newHolding(&u.UnitLayout, runs, c)
	at := 0
	for _, r := range runs {
		for done := 0; done < r.n; {
			n, from, src := 0, 0, (*holding)(nil)
			for _, o := range old {
				if from, n = o.find(r.off + done); n > 0 {
					src = o
					break
				}
			}
			if src == nil {
				e.freeHolding(h)
				return nil, fmt.Errorf("fsdp: step %d: the log says that this member holds elements %d to %d of unit %s, and it does not",
					e.step, r.off+done, r.off+r.n, u.Name)
			}
			n = min(n, r.n-done)
			e.dev.Copy(h.p.Slice(at+done, n), src.p.Slice(from, n))
			if r.off < u.Trained {
				e.dev.Copy(h.m.Slice(at+done, n), src.m.Slice(from, n))
				e.dev.Copy(h.v.Slice(at+done, n), src.v.Slice(from, n))
			}
			done += n
		}
		at += r.n
	}
	return h, nil
}

// room allocates, or frees, what a strategy wants beside the holdings.
func (e *Engine) room(i int) {
	u := e.units[i]
	kept := strategies[e.cfg.Strategy]
	e.dev.Free(u.whole)
	u.whole, u.fresh = kernel.Buffer{}, false
	e.dev.Meter().Add(kernel.Gradients, -int64(len(u.others)))
	u.others = nil
	if e.place.Size == 1 {
		return
	}
	if kept.params {
		u.whole = e.dev.Alloc(kernel.Parameters, e.cfg.ParamType, u.Len)
	}
	if kept.gradients {
		u.others = make([]byte, 4*(u.Trained-u.own.trained))
		e.dev.Meter().Add(kernel.Gradients, int64(len(u.others)))
	}
}
