package fsdp

import (
	"fmt"

	"shoal/kernel"
)

// export gathers the float32 master parameters unit by unit, so that members that want the final model can write it
// while nobody holds more than one unit of it.
func (a *attempt) export() error {
	if !a.e.place.Exporting {
		return nil
	}
	for i := range a.e.units {
		if err := a.exportUnit(i); err != nil {
			return err
		}
	}
	return nil
}

func (a *attempt) exportUnit(unit int) error {
	e := a.e
	u := e.units[unit]
	everywhere := e.place.units[unit].everywhere
	if everywhere && e.cfg.Export == nil {
		return nil
	}
	staging := e.lend(kernel.Gathered, 4*u.Len)
	given := func() error { return nil }
	if !everywhere {
		parts := e.staged(unit, staging, 4)
		if err := e.dev.Download(parts[e.rank], u.own.p); err != nil {
			return err
		}
		a.tag++
		var wait func() error
		wait, given = e.cfg.Comm.AllGather(a.ctx, a.tag, 4, parts[e.rank], nil, parts)
		if err := wait(); err != nil {
			a.giving = append(a.giving, lent{staging, kernel.Gathered, given})
			return interrupted{fmt.Errorf("fsdp: gather unit %s for the final model: %w", u.Name, err)}
		}
	}
	a.giving = append(a.giving, lent{staging, kernel.Gathered, given})
	if err := e.exportWhole(unit, staging, everywhere); err != nil {
		return err
	}
	return a.returned(&a.giving, 0)
}

// exportWhole brings a unit's parameters into its order and hands them over.
func (e *Engine) exportWhole(unit int, staging []byte, everywhere bool) error {
	if e.cfg.Export == nil {
		return nil
	}
	u := e.units[unit]
	t := e.dev.Alloc(kernel.Gathered, kernel.F32, u.Len)
	defer e.dev.Free(t)
	if everywhere {
		e.assemble(u, func(off, n int, p kernel.Buffer) { e.dev.Copy(t.Slice(off, n), p) })
	} else {
		e.unstage(t, unit, staging, 4)
	}
	data := e.lend(kernel.Gathered, 4*u.Len) // staging may still be on its way to others
	defer e.spare.give(data)
	defer e.dev.Meter().Add(kernel.Gathered, -int64(len(data)))
	if err := e.dev.Download(data, t); err != nil {
		return err
	}
	return e.exportTensors(u, data)
}

// exportTensors hands over each tensor of a unit whose values, in the unit's order, are data.
func (e *Engine) exportTensors(u *unit, data []byte) error {
	for _, s := range u.Spans {
		if err := e.cfg.Export(s.Param, kernel.Floats(data[4*s.Off:4*(s.Off+s.N)])); err != nil {
			return fmt.Errorf("fsdp: export %s: %w", s.Param.Name, err)
		}
	}
	return nil
}
