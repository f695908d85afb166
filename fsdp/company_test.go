package fsdp

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// waits begins to wait and says whether it still does, and what came of it.
func waits(wait func() error) (still func() bool, err func() error) {
	var ended atomic.Bool
	var result error
	go func() {
		result = wait()
		ended.Store(true)
	}()
	return func() bool {
			synctest.Wait()
			return !ended.Load()
		}, func() error {
			synctest.Wait()
			return result
		}
}

func TestCompany(t *testing.T) {
	for name, goOn := range map[string]func(c *Company){
		"the other comes to the same":   func(c *Company) { c.reach(t.Context(), 1, gathers) },
		"the other is ready without it": func(c *Company) { c.reach(t.Context(), 1, readies) },
		"the other is an attempt ahead": func(c *Company) { c.begin(1) },
		"the other leaves":              func(c *Company) { c.leave(1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := NewCompany(2)
				c.begin(0)
				c.begin(1)
				c.reach(t.Context(), 1, gathers)
				if still, err := waits(c.reach(t.Context(), 0, gathers)); still() || err() != nil {
					t.Errorf("what the other has done already is waited for: %v", err())
				}
				still, err := waits(c.reach(t.Context(), 0, gathers))
				c.reach(t.Context(), 1, gives)
				if !still() {
					t.Error("another waypoint of the other's is taken for this one")
				}
				goOn(c)
				if still() || err() != nil {
					t.Errorf("it waits on: %v", err())
				}
			})
		})
	}
	t.Run("context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			c, why := NewCompany(2), errors.New("enough")
			still, err := waits(c.reach(ctx, 0, readies))
			if !still() {
				t.Error("nobody is waited for")
			}
			if cancel(why); still() || !errors.Is(err(), why) {
				t.Errorf("it ends with %v", err())
			}
		})
	})
}

// TestRehearseTogether: of members that rehearse at once none is more than an attempt ahead of another.
func TestRehearseTogether(t *testing.T) {
	s := base(t)
	s.weights = []int64{1, 1, 1}
	company := NewCompany(len(s.weights))
	var wg sync.WaitGroup
	for rank := range s.weights {
		c := s.rehearsed(t, rank)
		wg.Go(func() {
			carry := func(Given) func() error {
				company.mu.Lock()
				defer company.mu.Unlock()
				own := company.paces[rank].attempt
				if own == 0 {
					t.Errorf("rank %d gives before it begins", rank)
				}
				for _, p := range company.paces {
					if p.attempt > own+1 || p.attempt < own-1 && !p.gone {
						t.Errorf("one member is in attempt %d, rank %d in %d", p.attempt, rank, own)
					}
				}
				return func() error { return nil }
			}
			if r, err := Rehearse(t.Context(), c, 50*time.Millisecond, carry, company); err != nil || r.Step <= 0 {
				t.Errorf("rank %d: %+v, %v", rank, r, err)
			}
		})
	}
	wg.Wait()
}
