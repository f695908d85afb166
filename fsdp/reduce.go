package fsdp

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"shoal/kernel"
)

// lent is memory that a collective reads until it says that everybody has what they need.
type lent struct {
	data  []byte
	class kernel.Class
	done  func() error
}

const (
	maxGiving  = 2 // gathered units whose own part may still be on its way
	maxSending = 2 // units whose gradients may be on their way before the backward pass waits
)

// returned waits until at most n of the lent areas are still in use, oldest first.
func (e *Engine) returned(list *[]lent, n int) error {
	for len(*list) > n {
		l := (*list)[0]
		*list = (*list)[1:]
		if err := l.done(); err != nil {
			return fmt.Errorf("fsdp: send to the others at step %d: %w", e.step, err)
		}
		e.dev.Meter().Add(l.class, -int64(len(l.data)))
		e.spare.give(l.data)
	}
	return nil
}

// arrivals knows when the own intervals are whole.
type arrivals struct {
	mu      sync.Mutex
	want    int // microbatches per interval
	missing int // intervals that are not whole
	whole   chan struct{}
}

// expect prepares for an attempt in which each own interval gets the sum of m microbatches. It runs before anything can
// arrive.
func (e *Engine) expect(m int) {
	a := &e.arrivals
	a.mu.Lock()
	defer a.mu.Unlock()
	a.want, a.missing, a.whole = m, 0, make(chan struct{})
	for _, u := range e.units {
		u.counted = 0
		e.format.finish(u, e.own(u)) // what an attempt that ended early has left
		clear(u.acc)
		if u.Cuts[e.rank] < u.Cuts[e.rank+1] {
			a.missing++
		}
	}
	if a.missing == 0 {
		close(a.whole)
	}
}

// giveBack hands the finished gradient of a unit, summed over n own microbatches, to its owners, and goes on while it
// travels.
func (e *Engine) giveBack(ctx context.Context, unit, n int) error {
	u := e.units[unit]
	work := u.work
	u.work = kernel.Buffer{}
	defer e.dev.Free(work)
	if n == 0 || u.Trained == 0 {
		return nil
	}
	e.format.encode(e.dev, work)
	parts, data, err := e.summands(u, work)
	if err != nil {
		return err
	}
	start := e.now()
	wait := e.traced(TraceReduce, unit, start, e.cfg.Comm.ReduceScatter(ctx, unit, parts, n))
	e.sending = append(e.sending, lent{data, kernel.GradientWork, wait})
	if own := parts[e.rank]; len(own) > 0 {
		if err := e.Add(unit, e.rank, 0, own); err != nil {
			return err
		}
		if err := e.Done(unit, e.rank, n); err != nil {
			return err
		}
	}
	return e.returned(&e.sending, maxSending)
}

// summands brings the own microbatches' gradient of a unit to the host, by owner. What members keep whole gradients for is
// this: those parts that others own stay in acc. data is what else was taken from the spare memory.
func (e *Engine) summands(u *unit, work kernel.Buffer) (parts [][]byte, data []byte, err error) {
	whole := !e.shards.gradients && len(u.Cuts) > 2
	n := u.Trained
	if whole {
		n = u.Cuts[e.rank+1] - u.Cuts[e.rank]
	}
	data = e.spare.take(4 * n)
	e.dev.Meter().Add(kernel.GradientWork, int64(len(data)))
	parts = make([][]byte, len(u.Cuts)-1)
	for r := range parts {
		lo, hi := u.Cuts[r], u.Cuts[r+1]
		switch {
		case !whole:
			parts[r] = data[4*lo : 4*hi]
		case r == e.rank:
			parts[r] = data
		default:
			parts[r] = kernel.Bytes(u.sum(lo, hi))
		}
		err = errors.Join(err, e.dev.Download(parts[r], work.Slice(lo, hi-lo)))
	}
	return parts, data, err
}

// Add implements Sink.
func (e *Engine) Add(unit, source, offset int, data []byte) error {
	if unit < 0 || unit >= len(e.units) || source < 0 || source >= len(e.cfg.Weights) || len(data)%4 != 0 {
		return fmt.Errorf("fsdp: gradient of unit %d from rank %d: no such unit or rank", unit, source)
	}
	u := e.units[unit]
	own, n := e.own(u), len(data)/4
	if offset < 0 || offset+n > len(own) {
		return fmt.Errorf("fsdp: gradient of unit %s from rank %d: elements %d to %d of %d", u.Name, source, offset, offset+n, len(own))
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	e.format.add(u, own, source, offset, data)
	return nil
}

// own is the sum of u's own interval.
func (e *Engine) own(u *unit) []int32 { return u.sum(u.Cuts[e.rank], u.Cuts[e.rank+1]) }

// Done implements Sink.
func (e *Engine) Done(unit, source, microbatches int) error {
	if unit < 0 || unit >= len(e.units) {
		return fmt.Errorf("fsdp: gradient of unit %d from rank %d: no such unit", unit, source)
	}
	u := e.units[unit]
	a := &e.arrivals
	a.mu.Lock()
	defer a.mu.Unlock()
	u.counted += microbatches
	if u.counted > a.want {
		return fmt.Errorf("fsdp: unit %s has %d microbatches after rank %d's, want %d", u.Name, u.counted, source, a.want)
	}
	if u.counted == a.want {
		u.mu.Lock()
		e.format.finish(u, e.own(u))
		u.mu.Unlock()
		if a.missing--; a.missing == 0 {
			close(a.whole)
		}
	}
	return nil
}

// reduced waits until the gradient of everything stored here is whole: the own intervals, and without sharding all the
// others, which their owners then give to everybody.
func (e *Engine) reduced(ctx context.Context) error {
	if err := e.returned(&e.sending, 0); err != nil {
		return err
	}
	select {
	case <-e.arrivals.whole:
	case <-ctx.Done():
		return ctx.Err()
	}
	if e.shards.state || len(e.cfg.Weights) == 1 {
		return nil
	}
	var waits, givens []func() error
	for _, u := range e.units {
		parts := make([][]byte, len(u.Cuts)-1)
		for r := range parts {
			parts[r] = kernel.Bytes(u.sum(u.Cuts[r], u.Cuts[r+1]))
		}
		e.tag++
		wait, given := e.cfg.Comm.AllGather(ctx, e.tag, 4, parts[e.rank], parts)
		waits, givens = append(waits, wait), append(givens, given)
	}
	for i, wait := range waits {
		if err := wait(); err != nil {
			return fmt.Errorf("fsdp: gather the gradient of unit %s at step %d: %w", e.units[i].Name, e.step, err)
		}
	}
	for _, given := range givens {
		if err := given(); err != nil {
			return fmt.Errorf("fsdp: give gradient sums away at step %d: %w", e.step, err)
		}
	}
	return nil
}
