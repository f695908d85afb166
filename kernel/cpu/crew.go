package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// crew runs pieces of an op on several goroutines: the caller's own and helpers that live until stop. Pieces are taken
// one by one, so a helper that wakes late (the machine is busy) delays nobody: the caller does its share.
type crew struct {
	size     int // goroutines, the caller included
	patience time.Duration
	helpers  []*helper
	running  sync.WaitGroup
	round    atomic.Int64 // how many ops were split; below 0 it ends the helpers

	// The op. Who has taken a piece may read these, and they stay until it is done; see share.
	task   task
	total  int
	piece  int     // items of a piece
	shares []share // by worker
	undone atomic.Int64
	done   chan struct{} // capacity 1: gets one when undone is 0, and may have one of an op before
}

// task is an op with its arguments, of which a crew does piece by piece: items lo to hi. worker < size tells which scratch
// memory it may use.
type task interface{ do(worker, lo, hi int) }

// taskFunc is a task that is a function.
type taskFunc func(worker, lo, hi int)

func (f taskFunc) do(worker, lo, hi int) { f(worker, lo, hi) }

// patience is how long whoever waits for another one looks again and again before it sleeps: to wake a thread takes about
// as long as a small op, and in a step one op follows another.
const patience = 100 * time.Microsecond

// helper is a goroutine that works, looks for the next op for a while, and sleeps.
type helper struct {
	sleeps atomic.Bool
	wake   chan struct{} // capacity 1: has one after sleeps was taken back
}

// share is what a worker begins with. In op after op it is the same part of a batch, which is still in that core's cache.
//
// Both numbers are one word, so that whoever takes a piece takes it of the op that runs, however long before it has come to
// look: after an op none is left, and the next one's are there only once all else about it is known.
type share struct {
	left atomic.Uint64 // number of the next piece, and in the upper half that behind the last one
	_    [7]uint64     // a cache line of its own
}

func (s *share) set(next, end int) { s.left.Store(uint64(end)<<32 | uint64(next)) }

// take is the number of the next piece, if any is left.
func (s *share) take() (int, bool) {
	left := s.left.Add(1) - 1
	return int(uint32(left)), uint32(left) < uint32(left>>32)
}

func newCrew(size int) *crew {
	c := &crew{size: size, patience: patience, shares: make([]share, size), done: make(chan struct{}, 1)}
	if runtime.GOMAXPROCS(0) < size {
		c.patience = 0 // looking would take a core from those who work
	}
	for w := 1; w < size; w++ {
		h := &helper{wake: make(chan struct{}, 1)}
		c.helpers = append(c.helpers, h)
		c.running.Go(func() {
			for round := h.next(c, 0); round >= 0; round = h.next(c, round) {
				c.work(w)
			}
		})
	}
	return c
}

// next waits for another round than last.
func (h *helper) next(c *crew, last int64) int64 {
	if c.look(func() bool { return c.round.Load() != last }) {
		return c.round.Load()
	}
	h.sleeps.Store(true)
	if c.round.Load() == last || !h.sleeps.CompareAndSwap(true, false) {
		<-h.wake
	}
	return c.round.Load()
}

// look waits for a moment until there is something.
func (c *crew) look(there func() bool) bool {
	for start := time.Now(); !there(); {
		if time.Since(start) >= c.patience {
			return false
		}
	}
	return true
}

// wake wakes n helpers, as far as they sleep.
func (c *crew) wake(n int) {
	for _, h := range c.helpers[:min(n, len(c.helpers))] {
		if h.sleeps.CompareAndSwap(true, false) {
			h.wake <- struct{}{}
		}
	}
}

// stop ends the helpers and waits for them.
func (c *crew) stop() {
	c.round.Store(-1)
	c.wake(len(c.helpers))
	c.helpers = nil
	c.running.Wait()
}

// split does pieces of 0..total of at least about grain each, and returns when all are done.
func (c *crew) split(total, grain int, t task) {
	pieces := min(total/max(grain, 1), 4*c.size)
	if c.size == 1 || pieces < 2 {
		if total > 0 {
			t.do(0, 0, total)
		}
		return
	}
	c.task, c.total, c.piece = t, total, (total+pieces-1)/pieces
	pieces = (total + c.piece - 1) / c.piece
	c.undone.Store(int64(pieces))
	for w := range c.shares {
		c.shares[w].set(pieces*w/c.size, pieces*(w+1)/c.size)
	}
	c.round.Add(1)
	c.wake(pieces - 1)
	c.work(0)
	if !c.look(func() bool { return c.undone.Load() == 0 }) {
		for c.undone.Load() > 0 {
			<-c.done
		}
	}
}

// work does pieces until none is left: first the worker's own share, then what others have not begun.
func (c *crew) work(worker int) {
	for i := range c.shares {
		s := &c.shares[(worker+i)%c.size]
		for n, ok := s.take(); ok; n, ok = s.take() {
			lo := n * c.piece
			c.task.do(worker, lo, min(lo+c.piece, c.total))
			if c.undone.Add(-1) > 0 {
				continue
			}
			select {
			case c.done <- struct{}{}:
			default:
			}
		}
	}
}
