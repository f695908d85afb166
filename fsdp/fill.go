package fsdp

import (
	"errors"
	"fmt"

	"shoal/kernel"
)

// A fill gives a range's state, as of the step that is tried, to a member that is to hold it; the range's sum of the same
// attempt comes forwarded, as to any backup. When the attempt is committed the receiver takes the same update from there,
// and is a backup. Else nothing has happened.

// filling is a range that arrives in this attempt: its parameters, then AdamW's state where it is trained.
type filling struct {
	k    int // the range
	h    *holding
	data []byte
	got  bool
}

// stateBytes is how much of a range travels.
func stateBytes(r Range) int {
	if r.Frozen {
		return 4 * r.N
	}
	return 12 * r.N
}

// expectFills makes room for what this member is to hold.
func (a *attempt) expectFills() error {
	e := a.e
	for _, f := range a.fills {
		if f.To != e.rank {
			continue
		}
		r := e.layout.Ranges[f.Range]
		e.at(PhaseFill, r.Unit)
		u := e.units[r.Unit]
		x := &filling{k: f.Range, h: e.newHolding(&u.UnitLayout, []run{{r.Off, r.N}}, backupClasses)}
		x.data = e.lend(kernel.Backups, stateBytes(r))
		u.fills = append(u.fills, x)
		a.missing++
	}
	return nil
}

// giveFills sends what others are to hold of what is owned here.
func (a *attempt) giveFills() error {
	e := a.e
	given := map[int]bool{}
	for _, f := range a.fills {
		if e.place.Owner[f.Range] != e.rank || given[f.Range] {
			continue
		}
		given[f.Range] = true
		r := e.layout.Ranges[f.Range]
		e.at(PhaseFill, r.Unit)
		h := e.units[r.Unit].own
		at, _ := h.find(r.Off)
		data := e.lend(kernel.Gathered, stateBytes(r))
		err := e.dev.Download(data[:4*r.N], h.p.Slice(at, r.N))
		if !r.Frozen {
			err = errors.Join(err, e.dev.Download(data[4*r.N:8*r.N], h.m.Slice(at, r.N)), e.dev.Download(data[8*r.N:], h.v.Slice(at, r.N)))
		}
		parts := make([][]byte, e.place.Size)
		for _, g := range a.fills {
			if g.Range == f.Range {
				parts[g.To] = data
			}
		}
		start := e.now()
		wait := e.traced(TraceFill, r.Unit, start, e.cfg.Comm.Give(a.ctx, FillData, uint32(f.Range), parts, 1))
		a.filling = append(a.filling, lent{data, kernel.Gathered, wait})
		if err != nil {
			return err
		}
	}
	return nil
}

// awaited is the fill of range k that comes from source.
func (a *attempt) awaited(k, source int) (*filling, error) {
	if k >= 0 && k < len(a.e.layout.Ranges) && a.e.place.Owner[k] == source {
		for _, f := range a.e.units[a.e.layout.Ranges[k].Unit].fills {
			if f.k == k {
				return f, nil
			}
		}
	}
	return nil, fmt.Errorf("fsdp: rank %d fills range %d, which this member does not expect from it", source, k)
}

func (a *attempt) addFill(k, source, offset int, data []byte) error {
	f, err := a.awaited(k, source)
	if err != nil {
		return err
	}
	if offset > len(f.data)/4 || len(data) > len(f.data)-4*offset {
		return fmt.Errorf("fsdp: rank %d fills %s with more than it has", source, a.e.layout.name(k))
	}
	copy(f.data[4*offset:], data)
	return nil
}

func (a *attempt) fillDone(k, source int) error {
	f, err := a.awaited(k, source)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if f.got {
		return fmt.Errorf("fsdp: rank %d filled %s twice", source, a.e.layout.name(k))
	}
	f.got = true
	a.less()
	return nil
}

// loadFill brings what has arrived to the device: the state before the update that is to follow.
func (e *Engine) loadFill(f *filling) {
	n := f.h.p.Len
	e.dev.Upload(f.h.p, f.data[:4*n])
	if f.h.trained > 0 {
		e.dev.Upload(f.h.m, f.data[4*n:8*n])
		e.dev.Upload(f.h.v, f.data[8*n:])
	}
	e.dropData(f)
}

func (e *Engine) dropData(f *filling) {
	e.dev.Meter().Add(kernel.Backups, -int64(len(f.data)))
	e.spare.give(f.data)
	f.data = nil
}

// forgetFills frees what has arrived in an attempt that was not committed.
func (e *Engine) forgetFills() {
	for _, u := range e.units {
		for _, f := range u.fills {
			e.dropData(f)
			e.freeHolding(f.h)
		}
		u.fills = nil
	}
}
