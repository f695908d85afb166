package fsdp

import (
	"context"
	"fmt"

	"shoal/kernel"
)

// export gathers the float32 master parameters unit by unit, so that members that want the final model can write it
// while nobody holds more than one unit of it.
func (e *Engine) export(ctx context.Context) error {
	if !e.cfg.Exporting {
		return nil
	}
	for _, u := range e.units {
		if err := e.exportUnit(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) exportUnit(ctx context.Context, u *unit) error {
	staging := e.spare.take(4 * u.Len)
	defer e.spare.give(staging)
	e.dev.Meter().Add(kernel.Gathered, int64(len(staging)))
	defer e.dev.Meter().Add(kernel.Gathered, -int64(len(staging)))
	if !e.shards.state {
		if err := e.dev.Download(staging, u.p); err != nil {
			return err
		}
		return e.exportTensors(u, staging)
	}
	parts := make([][]byte, len(u.Cuts)-1)
	at := 0
	for r := range parts {
		parts[r] = staging[at : at+4*u.Owned(r)]
		at += len(parts[r])
	}
	if err := e.dev.Download(parts[e.rank], u.p); err != nil {
		return err
	}
	e.tag++
	wait, given := e.cfg.Comm.AllGather(ctx, e.tag, 4, parts[e.rank], parts)
	if err := wait(); err != nil {
		return fmt.Errorf("fsdp: gather unit %s for the final model: %w", u.Name, err)
	}
	if err := given(); err != nil {
		return fmt.Errorf("fsdp: give unit %s away for the final model: %w", u.Name, err)
	}
	if e.cfg.Export == nil {
		return nil
	}
	t := e.dev.Alloc(kernel.Gathered, kernel.F32, u.Len)
	defer e.dev.Free(t)
	e.unstage(t, u, staging, 4)
	if err := e.dev.Download(staging, t); err != nil {
		return err
	}
	return e.exportTensors(u, staging)
}

// exportTensors hands over each tensor of a unit whose values, in the unit's order, are data.
func (e *Engine) exportTensors(u *unit, data []byte) error {
	if e.cfg.Export == nil {
		return nil
	}
	for _, s := range u.Spans {
		if err := e.cfg.Export(s.Param, kernel.Floats(data[4*s.Off:4*(s.Off+s.N)])); err != nil {
			return fmt.Errorf("fsdp: export %s: %w", s.Param.Name, err)
		}
	}
	return nil
}
