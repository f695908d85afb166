package fsdp

import (
	"errors"
	"fmt"

	"shoal/kernel"
)

// expect says what must be here before this member is ready: the sums of what it owns, which all members' gradients make
// up, and those that owners forward.
func (a *attempt) expect() {
	e := a.e
	for i, u := range e.units {
		x := &a.units[i]
		*x = arrival{from: make([][][]int32, e.place.Size), got: make([]bool, e.place.Size), to: make([][]run, e.place.Size)}
		if a.want == 0 {
			continue
		}
		if u.own.trained > 0 {
			a.missing++
		}
		a.route(i)
		for _, pieces := range x.from {
			if len(pieces) > 0 {
				a.missing++
			}
		}
	}
	if a.missing == 0 {
		close(a.whole)
	}
}

// giveBack hands the finished gradient of a unit, summed over n own microbatches, to its owners, and goes on while it
// travels.
func (a *attempt) giveBack(unit, n int) error {
	e := a.e
	u := e.units[unit]
	work := u.work
	u.work = kernel.Buffer{}
	if n == 0 {
		return nil
	}
	defer e.dev.Free(work)
	if u.Trained == 0 {
		return nil
	}
	e.at(PhaseReduce, unit)
	defer e.did(e.doing(TraceGive, unit))
	e.format.encode(e.dev, work)
	parts, data, err := e.summands(unit, work, u.added || e.format.addHere(e, u, work))
	if err != nil {
		return err
	}
	start := e.now()
	wait := e.traced(TraceReduce, unit, start, e.cfg.Comm.Give(a.ctx, Gradient, uint32(unit), parts, n))
	a.sending = append(a.sending, lent{data, kernel.GradientWork, wait})
	if u.own.trained > 0 {
		if err := errors.Join(a.Add(Gradient, unit, e.rank, 0, parts[e.rank]), a.Done(Gradient, unit, e.rank, n)); err != nil {
			return err
		}
	}
	return a.fewer(&a.sending, maxSending)
}

// summands brings the own microbatches' gradient of a unit to the host, by owner, but for what is owned here if that was added
// already. data is what was taken from the spare memory; under zero1 there is room for what others own.
func (e *Engine) summands(unit int, work kernel.Buffer, added bool) (parts [][]byte, data []byte, err error) {
	u, p := e.units[unit], &e.place.units[unit]
	room, size := u.others, 4*u.Trained-len(u.others)
	if added {
		size -= 4 * u.own.trained
	}
	if data = e.lend(kernel.GradientWork, size); room == nil {
		room = data
	}
	parts = make([][]byte, e.place.Size)
	for r := range parts {
		if added && r == e.rank {
			continue
		}
		n := 4 * p.trained[r]
		if r == e.rank && u.others != nil {
			parts[r] = data
		} else {
			parts[r], room = room[:n:n], room[n:]
		}
		at := 0
		for _, x := range p.owned[r] {
			if x.off < u.Trained {
				err = errors.Join(err, e.dev.Download(parts[r][4*at:4*(at+x.n)], work.Slice(x.off, x.n)))
				at += x.n
			}
		}
	}
	return parts, data, err
}

// addGradient adds a piece of a member's gradient to the sum of what is owned here.
func (a *attempt) addGradient(unit, source, offset int, data []byte) error {
	u, err := a.unit(unit, source)
	if err != nil {
		return err
	}
	if n := len(data) / 4; offset > len(u.own.acc)-n {
		return fmt.Errorf("fsdp: gradient of unit %s from rank %d: %d elements from %d on, of %d", u.Name, source, n, offset, len(u.own.acc))
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	a.e.format.add(u, u.own.acc, source, offset, data)
	return nil
}

func (a *attempt) unit(unit, source int) (*unit, error) {
	if unit < 0 || unit >= len(a.units) {
		return nil, fmt.Errorf("fsdp: gradient of unit %d from rank %d: there is no such unit", unit, source)
	}
	return a.e.units[unit], nil
}

// gradientDone counts what a member's gradient was summed over. A sum that is whole goes to the backups at once.
func (a *attempt) gradientDone(unit, source, microbatches int) error {
	u, err := a.unit(unit, source)
	if err != nil {
		return err
	}
	a.mu.Lock()
	x := &a.units[unit]
	if microbatches < 1 || microbatches > a.want-x.counted || u.own.trained == 0 {
		defer a.mu.Unlock()
		return fmt.Errorf("fsdp: unit %s has %d microbatches and %d more from rank %d, want %d", u.Name, x.counted, microbatches, source, a.want)
	}
	x.counted += microbatches
	counted := x.counted
	a.mu.Unlock()
	if counted < a.want {
		return nil
	}
	u.mu.Lock()
	a.e.format.finish(u, u.own.acc)
	u.mu.Unlock()
	a.forward(unit)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.less()
	return nil
}

// reduced waits until everything that this member holds or is to hold is whole. That its backups have their copies they say
// by their own Ready, without which nothing is committed.
func (a *attempt) reduced() error {
	defer a.e.did(a.e.doing(TraceSum, -1))
	if err := a.returned(&a.sending, 0); err != nil {
		return err
	}
	a.e.at(PhaseReduce, -1)
	for waits := true; waits; {
		unit := -1
		if k := a.lacks(); k >= 0 {
			unit = a.e.layout.Ranges[k].Unit
		}
		a.e.cfg.Comm.SetPhase(PhaseReduce, unit) // so that whoever doesn't give its part is found out
		select {
		case <-a.whole:
			waits = false
		case <-a.news:
		case <-a.ctx.Done():
			return a.check()
		}
	}
	return a.returned(&a.filling, 0)
}

// complete says whether all that is held here has the whole sum of this attempt.
func (a *attempt) complete() error {
	if k := a.lacks(); k >= 0 {
		return fmt.Errorf("fsdp: internal error: step %d is committed and the sum of %s is not whole here", a.e.step, a.e.layout.name(k))
	}
	return nil
}

// lacks is a range that is held here without the whole sum of this attempt, or -1.
func (a *attempt) lacks() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, r := range a.e.layout.Ranges {
		x, owner := &a.units[r.Unit], a.e.place.Owner[k]
		mine := owner == a.e.rank
		if r.Frozen || !mine && !a.e.place.backs(k, a.e.rank) {
			continue
		}
		if mine && x.counted != a.want || !mine && !x.got[owner] {
			return k
		}
	}
	return -1
}
