package fsdp

import (
	"fmt"
	"slices"

	"shoal/kernel"
)

// gathering is an all-gather on its way.
type gathering struct {
	unit    int
	staging []byte // the whole unit as it travels, the own part included; nil if it is all here already
	wait    func() error
}

// share deals m microbatches, and is what this member gets. step only says whose turn it is.
func (a *attempt) share(step, m int) Share {
	shares := Deal(step, m, a.e.work)
	a.takes = make([]bool, len(shares))
	for r, s := range shares {
		a.takes[r] = !s.idle()
	}
	return shares[a.e.rank]
}

// setOut begins a walk by plan: the first units travel while the samples are read.
func (a *attempt) setOut(plan walk) {
	a.inflight, a.planned = nil, 0
	if a.takes[a.e.rank] {
		a.e.at(PhaseGather, plan.gathers[0])
		a.postAhead(plan)
	}
}

// acquire returns when the unit is whole on the device, and sets out for the next ones of the plan. A member that computes
// nothing only gives its part.
func (a *attempt) acquire(plan walk, unit int) error {
	e := a.e
	u := e.units[unit]
	if !u.full.None() {
		return nil
	}
	idle := !a.takes[e.rank]
	if idle && (a.planned == len(plan.gathers) || plan.gathers[a.planned] != unit) {
		return nil
	}
	if !idle && a.planned == len(a.inflight) { // the first: its Point was before it set out
		e.cfg.Comm.SetPhase(PhaseGather, unit)
	} else {
		e.at(PhaseGather, unit)
	}
	if idle {
		a.post(plan)
		a.inflight = nil
		defer e.did(e.doing(TraceWait, unit))
		return a.fewer(&a.giving, maxGiving)
	}
	a.postAhead(plan)
	if len(a.inflight) == 0 || a.inflight[0].unit != unit {
		return fmt.Errorf("fsdp: unit %s is used before it is gathered", u.Name)
	}
	g := a.inflight[0]
	if err := a.await(g); err != nil {
		return err
	}
	a.inflight = a.inflight[1:]
	a.widen(g)
	a.postAhead(plan)
	return nil
}

// await waits until all of a unit is here, and the others have enough of what is given to them.
func (a *attempt) await(g *gathering) error {
	e := a.e
	defer e.did(e.doing(TraceWait, g.unit))
	if err := g.wait(); err != nil {
		return interrupted{fmt.Errorf("fsdp: gather unit %s at step %d: %w", e.units[g.unit].Name, e.step, err)}
	}
	return a.fewer(&a.giving, maxGiving)
}

// postAhead sets out for the next units of the plan: so many that the network has something to carry at any time, and more
// while all of them are small. Whether a unit must travel again is known when it has arrived the first time.
func (a *attempt) postAhead(plan walk) {
	for a.planned < len(plan.gathers) {
		unit := plan.gathers[a.planned]
		if len(a.inflight) >= minAhead && bytesOf(a.giving)+a.travels(unit) > a.e.cfg.ahead() {
			return
		}
		if slices.ContainsFunc(a.inflight, func(g *gathering) bool { return g.unit == unit }) {
			return
		}
		a.post(plan)
	}
}

// travels is how many bytes a unit has as it travels.
func (a *attempt) travels(unit int) int64 {
	return int64(a.e.units[unit].Len * a.e.cfg.ParamType.Size())
}

// post sets out for the next unit of the plan. What everybody holds need not travel, nor what is still here.
func (a *attempt) post(plan walk) {
	if a.planned == len(plan.gathers) {
		return
	}
	g := &gathering{unit: plan.gathers[a.planned], wait: func() error { return nil }}
	a.planned++
	if !a.e.place.units[g.unit].everywhere && !a.e.units[g.unit].fresh {
		a.gatherShards(g)
	}
	a.inflight = append(a.inflight, g)
}

// gatherShards starts the all-gather of a unit's parameters into a staging area: rank by rank, each one's runs.
func (a *attempt) gatherShards(g *gathering) {
	e := a.e
	defer e.did(e.doing(TracePack, g.unit))
	u := e.units[g.unit]
	width := e.cfg.ParamType.Size()
	var mine []byte
	parts := make([][]byte, e.place.Size)
	if a.takes[e.rank] {
		g.staging = e.lend(kernel.Gathered, u.Len*width)
		parts = e.staged(g.unit, g.staging, width)
		mine = parts[e.rank]
	} else {
		g.staging = e.lend(kernel.Gathered, u.own.p.Len*width)
		mine = g.staging
	}
	if e.cfg.ParamType == kernel.BF16 {
		t := e.dev.Alloc(kernel.Gathered, kernel.BF16, u.own.p.Len)
		e.dev.ToBF16(t, u.own.p)
		e.dev.Download(mine, t)
		e.dev.Free(t)
	} else {
		e.dev.Download(mine, u.own.p)
	}
	start := e.now()
	a.tag++
	wait, given := e.cfg.Comm.AllGather(a.ctx, a.tag, width, mine, a.takes, parts)
	g.wait = e.traced(TraceGather, g.unit, start, wait)
	a.giving = append(a.giving, lent{g.staging, kernel.Gathered, given})
}

// staged divides a staging area for a unit among ranks.
func (e *Engine) staged(unit int, staging []byte, width int) [][]byte {
	parts := make([][]byte, e.place.Size)
	for r, n := range e.place.units[unit].all {
		parts[r], staging = staging[:n*width:n*width], staging[n*width:]
	}
	return parts
}

// widen turns what travelled into the float32 that the stages see. Where nothing had to travel, what is held here is
// rounded the same way.
func (a *attempt) widen(g *gathering) {
	e := a.e
	defer e.did(e.doing(TraceUnpack, g.unit))
	u := e.units[g.unit]
	if e.inPlace(u) {
		u.full = u.own.p
		return
	}
	u.full = e.dev.Alloc(kernel.Gathered, kernel.F32, u.Len)
	t := u.whole
	if t.None() {
		t = e.dev.Alloc(kernel.Gathered, e.cfg.ParamType, u.Len)
		defer e.dev.Free(t)
	}
	bf16 := e.cfg.ParamType == kernel.BF16
	switch {
	case g.staging != nil:
		e.unstage(t, g.unit, g.staging, e.cfg.ParamType.Size())
	case u.fresh:
	case bf16:
		e.assemble(u, func(off, n int, p kernel.Buffer) { e.dev.ToBF16(t.Slice(off, n), p) })
	default:
		e.assemble(u, func(off, n int, p kernel.Buffer) { e.dev.Copy(t.Slice(off, n), p) })
	}
	u.fresh = u.fresh || !u.whole.None() && !slices.Contains(a.takes, false)
	if bf16 {
		e.dev.FromBF16(u.full, t)
	} else {
		e.dev.Copy(u.full, t)
	}
}

// inPlace says whether the stages can compute with what this member owns of a unit as it lies there.
func (e *Engine) inPlace(u *unit) bool {
	return e.cfg.ParamType == kernel.F32 && u.whole.None() && slices.Equal(u.own.runs, []run{{0, u.Len}})
}

// unstage brings what was gathered rank by rank, in elements of width bytes, into the order of the unit.
func (e *Engine) unstage(t kernel.Buffer, unit int, staging []byte, width int) {
	for _, runs := range e.place.units[unit].owned {
		for _, r := range runs {
			e.dev.Upload(t.Slice(r.off, r.n), staging[:r.n*width])
			staging = staging[r.n*width:]
		}
	}
}

// assemble calls f for each run of a unit that is held here: n parameters from element off of the unit on.
func (e *Engine) assemble(u *unit, f func(off, n int, p kernel.Buffer)) {
	for _, h := range u.holdings() {
		at := 0
		for _, r := range h.runs {
			f(r.off, r.n, h.p.Slice(at, r.n))
			at += r.n
		}
	}
}

// drop gives back a gathered unit.
func (e *Engine) drop(unit int) {
	u := e.units[unit]
	if !e.inPlace(u) {
		e.dev.Free(u.full)
	}
	u.full = kernel.Buffer{}
}
