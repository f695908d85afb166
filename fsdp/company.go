package fsdp

import (
	"context"
	"sync"
)

// Company are members of one mesh that rehearse at the same time. Each waits where it would wait for the others in real steps: for
// their parts of a unit or of a gradient until they give them, and for a commit until all are ready.
type Company struct {
	mu    sync.Mutex
	moved *sync.Cond
	paces []pace
}

// pace is how far a member has come.
type pace struct {
	attempt int
	done    [waypoints]int // in the attempt
	gone    bool
}

// waypoint is something that a member does in an attempt, once or several times, always in the same order.
type waypoint int

const (
	gathers waypoint = iota
	gives
	readies
	waypoints
)

// NewCompany is the company of ranks 0 to n-1.
func NewCompany(n int) *Company {
	c := &Company{paces: make([]pace, n)}
	c.moved = sync.NewCond(&c.mu)
	return c
}

func (c *Company) move(rank int, f func(*pace)) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.paces[rank])
	c.moved.Broadcast()
}

// begin has a member begin its next attempt.
func (c *Company) begin(rank int) {
	c.move(rank, func(p *pace) { *p = pace{attempt: p.attempt + 1} })
}

// leave has nobody wait for a member any more.
func (c *Company) leave(rank int) { c.move(rank, func(p *pace) { p.gone = true }) }

// reach has a member come to a waypoint once more. wait blocks until the others have done so as often, or are further.
func (c *Company) reach(ctx context.Context, rank int, w waypoint) (wait func() error) {
	var at pace
	c.move(rank, func(p *pace) {
		p.done[w]++
		at = *p
	})
	if c == nil {
		return func() error { return nil }
	}
	return func() error {
		defer context.AfterFunc(ctx, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.moved.Broadcast()
		})()
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := range c.paces {
			for ctx.Err() == nil && !c.paces[i].has(w, &at) {
				c.moved.Wait()
			}
		}
		return context.Cause(ctx)
	}
}

// has says that a member has come to a waypoint as often as at says, or is further.
func (p *pace) has(w waypoint, at *pace) bool {
	return p.gone || p.attempt > at.attempt || p.attempt == at.attempt && (p.done[w] >= at.done[w] || p.done[readies] > 0)
}
