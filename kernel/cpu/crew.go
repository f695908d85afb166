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
	job      atomic.Pointer[job]
	helpers  []*helper
	running  sync.WaitGroup
}

// patience is how long whoever waits for another one looks again and again before it sleeps: to wake a thread takes about
// as long as a small op, and in a step one op follows another.
const patience = 100 * time.Microsecond

// helper is a goroutine that works, looks for the next job for a while, and sleeps.
type helper struct {
	sleeps atomic.Bool
	wake   chan struct{} // capacity 1: has one after sleeps was taken back
}

// job is one op. A helper may still look at it after the op's end, so jobs are not reused.
type job struct {
	f      func(worker, lo, hi int) // nil ends the helpers
	piece  int
	shares []share // by worker
	undone atomic.Int64
	done   chan struct{} // closed when undone is 0
}

// share is what a worker begins with. In op after op it is the same part of a batch, which is still in that core's cache.
type share struct {
	next atomic.Int64 // where the next piece starts
	end  int64
	_    [6]uint64 // a cache line of its own
}

func newCrew(size int) *crew {
	c := &crew{size: size, patience: patience}
	if runtime.GOMAXPROCS(0) < size {
		c.patience = 0 // looking would take a core from those who work
	}
	for w := 1; w < size; w++ {
		h := &helper{wake: make(chan struct{}, 1)}
		c.helpers = append(c.helpers, h)
		c.running.Go(func() {
			for j := h.next(c, nil); j.f != nil; j = h.next(c, j) {
				j.work(w)
			}
		})
	}
	return c
}

// next waits for another job than last.
func (h *helper) next(c *crew, last *job) *job {
	if c.look(func() bool { return c.job.Load() != last }) {
		return c.job.Load()
	}
	h.sleeps.Store(true)
	if c.job.Load() == last || !h.sleeps.CompareAndSwap(true, false) {
		<-h.wake
	}
	return c.job.Load()
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

// start gives j to n helpers.
func (c *crew) start(j *job, n int) {
	c.job.Store(j)
	for _, h := range c.helpers[:min(n, len(c.helpers))] {
		if h.sleeps.CompareAndSwap(true, false) {
			h.wake <- struct{}{}
		}
	}
}

// stop ends the helpers and waits for them.
func (c *crew) stop() {
	c.start(&job{}, len(c.helpers))
	c.helpers = nil
	c.running.Wait()
}

// split calls f for pieces of 0..total of at least about grain each, and returns when all are done. worker < size tells
// which scratch memory f may use.
func (c *crew) split(total, grain int, f func(worker, lo, hi int)) {
	pieces := min(total/max(grain, 1), 4*c.size)
	if c.size == 1 || pieces < 2 {
		if total > 0 {
			f(0, 0, total)
		}
		return
	}
	j := &job{f: f, piece: (total + pieces - 1) / pieces, shares: make([]share, c.size), done: make(chan struct{})}
	pieces = (total + j.piece - 1) / j.piece
	j.undone.Store(int64(pieces))
	for w := range j.shares {
		s := &j.shares[w]
		s.next.Store(int64(min(total, pieces*w/c.size*j.piece)))
		s.end = int64(min(total, pieces*(w+1)/c.size*j.piece))
	}
	c.start(j, pieces-1)
	j.work(0)
	if !c.look(func() bool { return j.undone.Load() == 0 }) {
		<-j.done
	}
}

// work does pieces until none is left: first the worker's own share, then what others have not begun.
func (j *job) work(worker int) {
	for i := range j.shares {
		s := &j.shares[(worker+i)%len(j.shares)]
		for {
			hi := s.next.Add(int64(j.piece))
			lo := hi - int64(j.piece)
			if lo >= s.end {
				break
			}
			j.f(worker, int(lo), int(min(hi, s.end)))
			if j.undone.Add(-1) == 0 {
				close(j.done)
			}
		}
	}
}
