package fsdp

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Rehearsal is what Rehearse has measured of a member's steps. Times are medians.
type Rehearsal struct {
	Share        int           // the most microbatches of a step that a member gets
	Microbatches int           // that were computed in a measured step: Share, or fewer where that would have taken long
	Step         time.Duration // from one attempt to the next
	Microbatch   time.Duration // the part of Step that each microbatch takes
	Update       time.Duration // the part of Step that comes after its commit
}

// Given is what a member gives to others, as it is before packing.
type Given struct {
	Parameters bool   // or a gradient
	Width      int    // bytes of an element
	Data       []byte // unchanged until it is carried
	To         []int  // ranks that get it
	Early      bool   // in a step that is not measured, with numbers as later ones have
}

// Rehearse has member c.Start.View.Rank take steps on c.Device, as in a mesh whose members are equally fast, for about so
// long, and at least one. The member gets what can't be dealt out evenly. Nobody else is there: what others would give is
// made up, and arrives when what the member gives at that time does. So the state that it comes to makes no sense, but work and memory are those of real
// steps. carry stands for the network: its wait blocks until all have what is given. Nil takes no time. The members of company rehearse
// at the same time, this one among them, unless it is nil. An error is that of NewEngine, of the data, of the device or of ctx.
func Rehearse(ctx context.Context, c Config, about time.Duration, carry func(Given) (wait func() error), company *Company) (*Rehearsal, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	layout := NewLayout(c.Model, c.Frozen)
	p, err := newPlacement(layout, c.Start.View)
	if err != nil {
		return nil, err
	}
	c.Hyper.Steps, c.Hyper.HashEvery, c.SaveEvery, c.AuditEvery = 1<<30, 0, 0, 0
	c.Hyper.LR, c.Hyper.MinLR, c.Hyper.Schedule = 0, 0, "constant" // nothing is learnt
	r := newRehearsal(p, c.Order(0), c.Hyper.Microbatch)
	r.decider = &Decider{Layout: layout, Hyper: c.Hyper, BatchSize: func(step int) int { return len(r.order(step)) }}
	r.clock.about, r.network, r.company = about, carry, company
	c.Comm, c.Order, c.Start.Work = r, r.order, r.work
	e, err := NewEngine(c)
	if err != nil {
		return nil, err
	}
	defer company.leave(p.Rank)
	r.clock.start = time.Now()
	if _, err = e.Run(ctx); !errors.Is(err, errRehearsed) {
		return nil, err
	}
	return &Rehearsal{Share: r.share, Microbatches: r.own, Step: middle(r.clock.steps), Microbatch: middle(r.clock.costs),
		Update: middle(r.clock.updates)}, nil
}

var errRehearsed = errors.New("fsdp: the rehearsal is over")

// rehearsalClock measures a member's steps, from one attempt to the next.
type rehearsalClock struct {
	about                 time.Duration // how long all of it may take
	start, began, decided time.Time     // of all, and of the attempt
	cost                  time.Duration // of a microbatch in the attempt
	steps, costs, updates []time.Duration
}

// stepped takes note of the step that has just ended, and says whether there are enough.
func (c *rehearsalClock) stepped() bool {
	now := time.Now()
	c.steps = append(c.steps, now.Sub(c.began))
	c.updates = append(c.updates, now.Sub(c.decided))
	c.costs = append(c.costs, c.cost)
	return now.Sub(c.start) >= c.about
}

// fits is how many microbatches a step may have, if the attempt that ends now had one, so that some steps can be measured.
func (c *rehearsalClock) fits() int { return int(c.about / 4 / max(1, time.Since(c.began))) }

func middle(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}
