package fsdp

import (
	"fmt"
	"slices"

	"shoal/kernel"
)

// Backups by gradient: the owner of a range sends its whole sum to those who hold it too, and they take the same step of
// AdamW. The part that one member gets of a unit are the ranges that it holds of those that the sender owns, in order.

// route works out what goes where of unit i's sums: from the log alone, so that both ends agree.
func (a *attempt) route(i int) {
	e, u, x := a.e, a.e.units[i], &a.units[i]
	for k := u.first; k < u.end; k++ {
		r, owner := e.layout.Ranges[k], e.place.Owner[k]
		if r.Frozen {
			continue
		}
		for _, to := range a.receivers(k) {
			switch {
			case owner == e.rank:
				at, _ := u.own.find(r.Off)
				if n := len(x.to[to]); n > 0 && x.to[to][n-1].off+x.to[to][n-1].n == at {
					x.to[to][n-1].n += r.N
				} else {
					x.to[to] = append(x.to[to], run{at, r.N})
				}
			case to == e.rank:
				x.from[owner] = append(x.from[owner], u.place(k, r))
			}
		}
	}
}

// receivers are the backups of range k, present and future.
func (a *attempt) receivers(k int) []int {
	list := slices.Clone(a.e.place.Backups[k])
	for _, f := range a.fills {
		if f.Range == k {
			list = append(list, f.To)
		}
	}
	return list
}

// place is the sum of a range that is held for another member, or will be.
func (u *unit) place(k int, r Range) []int32 {
	for _, f := range u.fills {
		if f.k == k {
			return f.h.acc
		}
	}
	at, _ := u.backup.find(r.Off)
	return u.backup.acc[at : at+r.N]
}

// forward sends the sum of what is owned of a unit to the backups.
func (a *attempt) forward(unit int) {
	e, u, x := a.e, a.e.units[unit], &a.units[unit]
	size := 0
	for _, runs := range x.to {
		if len(runs) > 1 {
			for _, r := range runs {
				size += 4 * r.n
			}
		}
	}
	data := e.lend(kernel.GradientWork, size)
	parts, room, some := make([][]byte, len(x.to)), data, false
	for r, runs := range x.to {
		some = some || len(runs) > 0
		if len(runs) == 1 {
			parts[r] = kernel.Bytes(u.own.acc[runs[0].off : runs[0].off+runs[0].n])
			continue
		}
		n := 0
		for _, x := range runs {
			n += copy(room[n:], kernel.Bytes(u.own.acc[x.off:x.off+x.n]))
		}
		parts[r], room = room[:n:n], room[n:]
	}
	if !some {
		return
	}
	start := e.now()
	wait := e.traced(TraceBackup, unit, start, e.cfg.Comm.Give(a.ctx, Forward, uint32(unit), parts, a.want))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.backups = append(a.backups, lent{data, kernel.GradientWork, wait})
}

// addSum takes a piece of an owner's sum.
func (a *attempt) addSum(unit, source, offset int, data []byte) error {
	u, err := a.unit(unit, source)
	if err != nil {
		return err
	}
	for _, piece := range a.units[unit].from[source] {
		to := kernel.Bytes(piece)
		skip := min(offset, len(piece))
		offset, to = offset-skip, to[4*skip:]
		if n := copy(to, data); n > 0 {
			data = data[n:]
		}
		if len(data) == 0 {
			return nil
		}
	}
	if len(data) > 0 {
		return fmt.Errorf("fsdp: rank %d forwards %d bytes more of unit %s than this member holds of what it owns", source, len(data), u.Name)
	}
	return nil
}

// sumDone takes note that an owner's sum is here.
func (a *attempt) sumDone(unit, source, microbatches int) error {
	u, err := a.unit(unit, source)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	x := &a.units[unit]
	if len(x.from[source]) == 0 || x.got[source] || microbatches != a.want {
		return fmt.Errorf("fsdp: rank %d forwarded unit %s with %d microbatches, want %d, once, from an owner", source, u.Name, microbatches, a.want)
	}
	x.got[source] = true
	a.less()
	return nil
}
