package cpu

import (
	"sync"
	"sync/atomic"
)

// crew runs pieces of an op on several goroutines: the caller's own and helpers that live until stop. Pieces are taken
// one by one, so a helper that wakes late (the machine is busy) delays nobody: the caller does its share.
type crew struct {
	size    int // goroutines, the caller included
	job     atomic.Pointer[job]
	wake    []chan struct{} // one per helper, capacity 1
	running sync.WaitGroup
}

// job is one op. A helper may still look at it after the op's end, so jobs are not reused.
type job struct {
	f            func(worker, lo, hi int)
	total, piece int
	next         atomic.Int64 // where the next piece starts
	left         sync.WaitGroup
}

func newCrew(size int) *crew {
	c := &crew{size: size}
	for w := 1; w < size; w++ {
		wake := make(chan struct{}, 1)
		c.wake = append(c.wake, wake)
		c.running.Add(1)
		go func() {
			defer c.running.Done()
			for range wake {
				c.job.Load().work(w)
			}
		}()
	}
	return c
}

// stop ends the helpers and waits for them.
func (c *crew) stop() {
	for _, wake := range c.wake {
		close(wake)
	}
	c.wake = nil
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
	j := &job{f: f, total: total, piece: (total + pieces - 1) / pieces}
	pieces = (total + j.piece - 1) / j.piece
	j.left.Add(pieces)
	c.job.Store(j)
	for _, wake := range c.wake[:min(len(c.wake), pieces-1)] {
		select {
		case wake <- struct{}{}:
		default: // it has not taken the last signal yet, and will see this job then
		}
	}
	j.work(0)
	j.left.Wait()
}

// work does pieces until none is left.
func (j *job) work(worker int) {
	for {
		lo := int(j.next.Add(int64(j.piece))) - j.piece
		if lo >= j.total {
			return
		}
		j.f(worker, lo, min(lo+j.piece, j.total))
		j.left.Done()
	}
}
