package fsdp

import (
	"context"
	"fmt"

	"shoal/kernel"
)

// gathering is an all-gather on its way.
type gathering struct {
	unit    int
	staging []byte // the whole unit as it travels, the own part included; nil if it is all here already
	wait    func() error
}

// acquire returns when the unit is whole on the device, and sets out for the next one of the plan.
func (e *Engine) acquire(ctx context.Context, plan walk, unit int) error {
	u := e.units[unit]
	if !u.full.None() {
		return nil
	}
	if e.inflight == nil {
		e.post(ctx, plan)
	}
	g := e.inflight
	if g == nil || g.unit != unit {
		return fmt.Errorf("fsdp: unit %s is used before it is gathered", u.Name)
	}
	start := e.now()
	if err := g.wait(); err != nil {
		return fmt.Errorf("fsdp: gather unit %s at step %d: %w", u.Name, e.step, err)
	}
	if err := e.returned(&e.giving, maxGiving); err != nil {
		return err
	}
	e.trace(TraceWait, unit, start)
	e.inflight = nil
	e.post(ctx, plan)
	u.full = e.dev.Alloc(kernel.Gathered, kernel.F32, u.Len)
	e.widen(u, g)
	return nil
}

// post sets out for the next unit of the plan.
func (e *Engine) post(ctx context.Context, plan walk) {
	if e.nextUnit == len(plan.gathers) {
		return
	}
	g := &gathering{unit: plan.gathers[e.nextUnit], wait: func() error { return nil }}
	e.nextUnit++
	if e.shards.state && !e.units[g.unit].fresh {
		e.gatherShards(ctx, g)
	}
	e.inflight = g
}

// gatherShards starts the all-gather of a unit's parameters into a staging area: rank by rank, each one's trained
// elements and then its frozen ones.
func (e *Engine) gatherShards(ctx context.Context, g *gathering) {
	u := e.units[g.unit]
	width := e.cfg.ParamType.Size()
	g.staging = e.spare.take(u.Len * width)
	e.dev.Meter().Add(kernel.Gathered, int64(len(g.staging)))
	parts := make([][]byte, len(u.Cuts)-1)
	at := 0
	for r := range parts {
		n := u.Owned(r) * width
		parts[r] = g.staging[at : at+n]
		at += n
	}
	mine := parts[e.rank]
	if e.cfg.ParamType == kernel.BF16 {
		t := e.dev.Alloc(kernel.Gathered, kernel.BF16, u.p.Len)
		e.dev.ToBF16(t, u.p)
		e.dev.Download(mine, t)
		e.dev.Free(t)
	} else {
		e.dev.Download(mine, u.p)
	}
	start := e.now()
	e.tag++
	wait, given := e.cfg.Comm.AllGather(ctx, e.tag, width, mine, parts)
	g.wait = e.traced(TraceGather, g.unit, start, wait)
	e.giving = append(e.giving, lent{g.staging, kernel.Gathered, given})
}

// widen turns what travelled into the float32 that the stages see. Where nothing had to travel, what is stored is
// rounded the same way.
func (e *Engine) widen(u *unit, g *gathering) {
	t := u.whole
	if t.None() {
		t = e.dev.Alloc(kernel.Gathered, e.cfg.ParamType, u.Len)
		defer e.dev.Free(t)
	}
	bf16 := e.cfg.ParamType == kernel.BF16
	switch {
	case g.staging != nil:
		e.unstage(t, u, g.staging, e.cfg.ParamType.Size())
		u.fresh = !u.whole.None()
	case u.fresh:
	case bf16:
		e.dev.ToBF16(t, u.p)
	default:
		e.dev.Copy(t, u.p)
	}
	if bf16 {
		e.dev.FromBF16(u.full, t)
	} else {
		e.dev.Copy(u.full, t)
	}
}

// unstage brings what was gathered rank by rank, in elements of width bytes, into the order of the unit.
func (e *Engine) unstage(t kernel.Buffer, u *unit, staging []byte, width int) {
	if u.Trained == u.Len {
		e.dev.Upload(t, staging)
		return
	}
	at := 0
	for r := range len(u.Cuts) - 1 {
		for _, cuts := range [][]int{u.Cuts, u.FrozenCuts} {
			n := cuts[r+1] - cuts[r]
			e.dev.Upload(t.Slice(cuts[r], n), staging[at:at+n*width])
			at += n * width
		}
	}
}

// drop gives back a gathered unit.
func (e *Engine) drop(unit int) {
	u := e.units[unit]
	e.dev.Free(u.full)
	u.full = kernel.Buffer{}
}
