package fsdp

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// rehearsal is the Comm of Rehearse: one member, and others that are made up. In the first step, in which memory is
// touched for the first time, every member has one microbatch; it isn't measured.
type rehearsal struct {
	*placement
	decider *Decider
	batch   []int // samples of a whole step
	size    int   // of a microbatch
	work    []int64
	share   int // of the member in a whole step
	own     int // of the member in a step as it is rehearsed
	dealt   int // to all members then

	step    int
	sink    Sink
	shares  []Share
	said    []byte // the member's Ready
	last    Entry
	zeros   []byte
	network func(Given) (wait func() error)
	company *Company
	clock   rehearsalClock
}

var _ Comm = (*rehearsal)(nil)

func newRehearsal(p *placement, batch []int, size int) *rehearsal {
	r := &rehearsal{placement: p, batch: batch, size: size, work: slices.Repeat([]int64{1 << 30}, p.Size), zeros: make([]byte, 1<<20)}
	r.work[p.Rank]-- // the quickest by a hair
	m := len(microbatches(len(batch), size))
	if m == 1 { // the member's, not another one's now and then
		r.work = slices.Repeat([]int64{NoWork}, p.Size)
		r.work[p.Rank] = 1
	}
	r.share = r.deal(m)
	r.deal(p.Size)
	return r
}

// deal has the next steps consist of m microbatches, and is how many of them the member gets.
func (r *rehearsal) deal(m int) int {
	r.dealt = m
	s := Deal(0, m, r.work)[r.Rank]
	r.own = s.Last - s.First
	return r.own
}

// order is the samples of a step.
func (r *rehearsal) order(int) []int { return r.batch[:min(len(r.batch), r.dealt*r.size)] }

// Begin implements Comm.
func (r *rehearsal) Begin(ctx context.Context, _ uint64, sink Sink) (context.Context, error) {
	if r.step > 1 && r.last.Kind == EntryCommit && r.clock.stepped() {
		return nil, errRehearsed
	}
	r.company.begin(r.Rank)
	r.sink, r.clock.began = sink, time.Now()
	r.shares = Deal(r.step, len(microbatches(len(r.order(r.step)), r.size)), r.work)
	return ctx, nil
}

// carry has the network carry what the member gives now.
func (r *rehearsal) carry(g Given) (wait func() error) {
	if r.network == nil || len(g.Data) == 0 || len(g.To) == 0 {
		return func() error { return nil }
	}
	g.Early = r.step == 0 && (r.last.Kind == EntryRetry || !r.decider.Hyper.Reduce.Exact()) // the first sums of integers are 0
	return r.network(g)
}

// AllGather implements Comm. What others give looks like mine.
func (r *rehearsal) AllGather(ctx context.Context, _ uint32, width int, mine []byte, takes []bool, parts [][]byte) (wait, given func() error) {
	var to []int
	for rank, part := range parts {
		if rank == r.Rank {
			continue
		}
		if takes == nil || takes[rank] {
			to = append(to, rank)
		}
		for at := 0; at < len(part); {
			if len(mine) == 0 {
				clear(part)
				break
			}
			at += copy(part[at:], mine)
		}
	}
	carried, others := r.carry(Given{Parameters: true, Width: width, Data: mine, To: to}), r.company.reach(ctx, r.Rank, gathers)
	given = sync.OnceValue(carried)
	return sync.OnceValue(func() error { return errors.Join(given(), others()) }), given
}

// Give implements Comm. The others give the same unit's gradient, and its sums where they are held here.
func (r *rehearsal) Give(ctx context.Context, kind Kind, tag uint32, parts [][]byte, _ int) (wait func() error) {
	var carried []func() error
	for rank, part := range parts {
		if rank != r.Rank {
			carried = append(carried, r.carry(Given{Width: 4, Data: part, To: []int{rank}}))
		}
	}
	carried = append(carried, r.company.reach(ctx, r.Rank, gives))
	done, sink, shares := make(chan error, 1), r.sink, r.shares
	go func() {
		var err error
		for _, wait := range carried {
			err = errors.Join(err, wait())
		}
		if err == nil && kind == Gradient {
			err = r.arrive(sink, shares, int(tag))
		}
		done <- err
	}()
	return func() error { return <-done }
}

// arrive gives sink what others have of a unit's gradient. All of it is zero.
func (r *rehearsal) arrive(sink Sink, shares []Share, unit int) (err error) {
	all := shares[r.Size-1].Last
	u := &r.layout.Units[unit]
	for rank, s := range shares {
		if rank == r.Rank {
			continue
		}
		if n := r.units[unit].trained[r.Rank]; n > 0 && !s.idle() {
			err = errors.Join(err, r.add(sink, Gradient, unit, rank, n, s.Last-s.First))
		}
		sums := 0
		for k := u.first; k < u.end; k++ {
			if x := r.layout.Ranges[k]; !x.Frozen && r.Owner[k] == rank && r.backs(k, r.Rank) {
				sums += x.N
			}
		}
		if sums > 0 {
			err = errors.Join(err, r.add(sink, Forward, unit, rank, sums, all))
		}
	}
	return err
}

// add gives n elements in pieces.
func (r *rehearsal) add(sink Sink, kind Kind, unit, rank, n, count int) error {
	for at := 0; at < n; {
		piece := min(n-at, len(r.zeros)/4)
		if err := sink.Add(kind, unit, rank, at, r.zeros[:4*piece]); err != nil {
			return err
		}
		at += piece
	}
	return sink.Done(kind, unit, rank, count)
}

// SetPhase implements Comm.
func (r *rehearsal) SetPhase(string, int) {}

// Ready implements Comm.
func (r *rehearsal) Ready(payload []byte) error {
	r.said = payload
	return nil
}

// Next implements Comm.
func (r *rehearsal) Next(ctx context.Context) (Entry, error) {
	if ctx.Err() != nil {
		return Entry{}, context.Cause(ctx)
	}
	var own ready
	if err := decoding.Unmarshal(r.said, &own); err != nil {
		return Entry{}, err
	}
	if err := r.company.reach(ctx, r.Rank, readies)(); err != nil {
		return Entry{}, err
	}
	r.clock.cost = time.Duration(own.Cost) * time.Microsecond
	others := ready{Step: own.Step, Samples: int64(len(r.order(r.step))) - own.Samples, Finite: true, Max: own.Max,
		Squares: make([]u128, len(own.Squares)), Counts: slices.Repeat([]int{-1}, len(own.Counts))}
	b, err := cbor.Marshal(others)
	if err != nil {
		return Entry{}, err
	}
	next := Entry{Fence: r.last.Fence + 1, Work: r.work}
	if next.Kind, next.Payload, _, err = r.decider.Decide(r.last.Payload, r.work, [][]byte{r.said, b}); err != nil {
		return Entry{}, err
	}
	if next.Kind == EntryCommit {
		if r.step == 0 {
			r.settle()
		}
		r.step++
	}
	r.last, r.clock.decided = next, time.Now()
	return next, nil
}

// settle chooses how much is computed in the steps that are measured.
func (r *rehearsal) settle() {
	m := len(microbatches(len(r.batch), r.size))
	if n := max(1, r.clock.fits()); n < r.share {
		m = n * r.Size
	}
	r.deal(m)
}
