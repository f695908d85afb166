package fsdp

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"shoal/kernel"
)

// attempt is a try at a step as this member sees it: when it ends, all that is waited for ends, and nothing of it stays.
// It is the Sink of what arrives.
type attempt struct {
	e      *Engine
	ctx    context.Context // ends with the attempt
	cancel context.CancelCauseFunc
	until  context.Context // Comm's, with which the attempt ends
	stop   func() bool     // stops waiting for the attempt's end
	want   int             // microbatches of the step
	takes  []bool          // by rank: who computes in the current walk, and so takes what is gathered for it
	units  []arrival
	fills  []Fill // that have something to do

	gate   sync.RWMutex // held by whoever is in Add or Done
	closed bool

	mu       sync.Mutex // guards what follows, and the counts in units
	missing  int        // sums and fills that are not whole here
	whole    chan struct{}
	news     chan struct{} // has one after a part became whole
	backups  []lent        // sums on their way to backups
	inflight []*gathering  // in the order of the plan
	planned  int           // place in the plan of the next unit to gather
	giving   []lent        // staging areas that others may still read from
	sending  []lent        // gradients on their way to their owners
	filling  []lent        // state on its way to new holders
	tag      uint32
}

// arrival is what has come of a unit's sums.
type arrival struct {
	counted int         // microbatches in own.acc
	from    [][][]int32 // by rank: where the sums go that it forwards, piece by piece
	got     []bool      // by rank: they are all here
	to      [][]run     // by rank: what it gets of own.acc
}

// lent is memory that a collective reads until it says that everybody has what they need.
type lent struct {
	data  []byte
	class kernel.Class
	done  func() error
}

const (
	minAhead   = 2 // units that are on their way here while one is computed
	maxGiving  = 3 // gathered units whose own part may still be on its way
	maxSending = 2 // units whose gradients may be on their way before the backward pass waits

	defaultAhead = 16 << 20 // bytes: what 1 Gbit/s carry in an eighth of a second
)

// interrupted is what a collective returned. Whether the attempt goes on is for the log to say.
type interrupted struct{ error }

func (i interrupted) Unwrap() error { return i.error }

// begin enters the attempt that e.fence names, in which each sum is one of m microbatches. All is prepared before anything
// can arrive.
func (e *Engine) begin(ctx context.Context, m int) (*attempt, error) {
	a := &attempt{e: e, want: m, units: make([]arrival, len(e.units)), whole: make(chan struct{}), news: make(chan struct{}, 1)}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	var err error
	if a.fills, err = e.place.wanted(e.fills); err != nil {
		return nil, err
	}
	for _, u := range e.units {
		for _, h := range u.holdings() {
			e.clear(h.acc)
		}
	}
	if err := a.expectFills(); err != nil {
		return nil, err
	}
	a.expect()
	until, err := e.cfg.Comm.Begin(a.ctx, e.fence, a)
	if err != nil {
		return nil, err
	}
	a.until = until
	a.stop = context.AfterFunc(until, func() { a.cancel(context.Cause(until)) })
	return a, nil
}

// check returns an error once the attempt is over.
func (a *attempt) check() error {
	for _, ctx := range []context.Context{a.until, a.ctx} { // a.ctx ends a moment later
		if ctx.Err() != nil {
			return interrupted{context.Cause(ctx)}
		}
	}
	return nil
}

// end takes back what the attempt has lent out and frees what it has on the device. err is why it did not come to its
// end, if it did not.
func (a *attempt) end(err error) {
	e := a.e
	a.stop()
	a.cancel(err)
	for _, g := range a.inflight {
		_ = g.wait() // ended, or nearly so
	}
	a.close()
	for _, list := range []*[]lent{&a.giving, &a.sending, &a.backups, &a.filling} {
		_ = a.returned(list, 0)
	}
	for _, u := range e.units {
		u.full, u.work = kernel.Buffer{}, kernel.Buffer{}
		if err != nil {
			e.format.forget(u)
		}
	}
	e.dev.freeStep()
}

// close shuts the sink.
func (a *attempt) close() {
	a.gate.Lock()
	a.closed = true
	a.gate.Unlock()
}

// returned waits until at most n of the lent areas are still in use, oldest first.
func (a *attempt) returned(list *[]lent, n int) (err error) {
	for len(*list) > n {
		l := (*list)[0]
		*list = (*list)[1:]
		err = errors.Join(err, l.done())
		a.e.dev.Meter().Add(l.class, -int64(len(l.data)))
		a.e.spare.give(l.data)
	}
	if err != nil {
		return interrupted{fmt.Errorf("fsdp: send to the others at step %d: %w", a.e.step, err)}
	}
	return nil
}

// fewer waits until at most n of the lent areas are still in use, or, where units are small, of at most Config.Ahead bytes.
func (a *attempt) fewer(list *[]lent, n int) error {
	for len(*list) > n && bytesOf(*list) > a.e.cfg.ahead() {
		if err := a.returned(list, len(*list)-1); err != nil {
			return err
		}
	}
	return nil
}

func bytesOf(list []lent) (n int64) {
	for _, l := range list {
		n += int64(len(l.data))
	}
	return n
}

// lend takes n bytes of spare memory, which count as c until they are returned.
func (e *Engine) lend(c kernel.Class, n int) []byte {
	e.dev.Meter().Add(c, int64(n))
	return e.spare.take(n)
}

// Add implements Sink.
func (a *attempt) Add(kind Kind, tag, source, offset int, data []byte) error {
	a.gate.RLock()
	defer a.gate.RUnlock()
	switch {
	case a.closed:
		return errClosed
	case source < 0 || source >= a.e.place.Size || offset < 0 || len(data)%4 != 0:
		return fmt.Errorf("fsdp: %d bytes for element %d from rank %d: there is no such part", len(data), offset, source)
	}
	switch kind {
	case Gradient:
		return a.addGradient(tag, source, offset, data)
	case Forward:
		return a.addSum(tag, source, offset, data)
	case FillData:
		return a.addFill(tag, source, offset, data)
	}
	return fmt.Errorf("fsdp: something of unknown kind %d from rank %d", kind, source)
}

// Done implements Sink.
func (a *attempt) Done(kind Kind, tag, source, count int) error {
	a.gate.RLock()
	defer a.gate.RUnlock()
	switch {
	case a.closed:
		return errClosed
	case source < 0 || source >= a.e.place.Size:
		return fmt.Errorf("fsdp: all of rank %d's part: there is no such rank", source)
	}
	switch kind {
	case Gradient:
		return a.gradientDone(tag, source, count)
	case Forward:
		return a.sumDone(tag, source, count)
	case FillData:
		return a.fillDone(tag, source)
	}
	return fmt.Errorf("fsdp: something of unknown kind %d from rank %d", kind, source)
}

var errClosed = errors.New("fsdp: the attempt is over")

// less counts one of the missing parts as whole. a.mu is held.
func (a *attempt) less() {
	if a.missing--; a.missing == 0 {
		close(a.whole)
	}
	select {
	case a.news <- struct{}{}:
	default:
	}
}
