// Package trainer takes training steps when it is told to, for programs that measure them: a run with one member, in this
// process.
package trainer

import (
	"context"
	"math"
	"time"

	"shoal/fsdp"
	"shoal/kernel"
	"shoal/model"
)

// Hyper is what is trained with. The rate is low, so that many steps on one batch don't end with gradients of 0.
var Hyper = fsdp.Hyper{Steps: math.MaxInt32, LR: 1e-5, Schedule: "constant", WeightDecay: 0.05, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8,
	Seed: 1}

// Trainer is a run with one member that takes steps when it is told to.
type Trainer struct {
	device kernel.Device
	steps  chan int           // to take
	took   chan time.Duration // for them
	left   int                // of the steps that were told
	start  time.Time          // of the first of them

	stop context.CancelFunc
	done chan struct{}
	err  error // after done
}

// New starts a run of m on dev, which it takes over, in which each batch is all of data, as one microbatch. It returns after the
// first step. An error is that of fsdp.
func New(m model.Model, data fsdp.Dataset, dev kernel.Device) (*Trainer, error) {
	t := &Trainer{device: dev, steps: make(chan int), took: make(chan time.Duration), left: 1, done: make(chan struct{})}
	var ctx context.Context
	ctx, t.stop = context.WithCancel(context.Background())
	e, err := t.engine(ctx, m, data)
	if err != nil {
		t.stop()
		dev.Close()
		return nil, err
	}
	go func() {
		defer close(t.done)
		_, t.err = e.Run(ctx)
	}()
	if _, err := t.wait(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Trainer) engine(ctx context.Context, m model.Model, data fsdp.Dataset) (*fsdp.Engine, error) {
	batch := data.Len()
	h := Hyper
	h.Batch, h.Microbatch = batch, batch
	d := &fsdp.Decider{Layout: fsdp.NewLayout(m, nil), Hyper: h, BatchSize: func(int) int { return batch }}
	mesh := fsdp.NewLocalMesh(d.Layout, []int64{1}, 0, d.Decide)
	begin, err := mesh.Enter(ctx, 0)
	if err != nil {
		return nil, err
	}
	all := make([]int, batch)
	for i := range all {
		all[i] = i
	}
	return fsdp.NewEngine(fsdp.Config{Model: m, Device: t.device, Comm: mesh.Comm(0), Start: begin, Hyper: h, Strategy: fsdp.FSDP,
		Recompute: fsdp.RecomputeNever, ParamType: kernel.F32, Train: data,
		Order:    func(int) []int { return all },
		Progress: func(o *fsdp.Outcome, _ []float64, _ []fsdp.StepHash) { t.progress(ctx, o) }})
}

// progress runs between two steps: it lets the run go on once there are steps to take.
func (t *Trainer) progress(ctx context.Context, o *fsdp.Outcome) {
	if o.Kind != fsdp.EntryCommit {
		return // the same step comes again
	}
	if t.left--; t.left > 0 {
		return
	}
	select {
	case t.took <- time.Since(t.start):
	case <-ctx.Done():
		return
	}
	select {
	case t.left = <-t.steps:
		t.start = time.Now()
	case <-ctx.Done():
	}
}

func (t *Trainer) wait() (time.Duration, error) {
	select {
	case d := <-t.took:
		return d, nil
	case <-t.done:
		return 0, t.err
	}
}

// take takes n steps.
func (t *Trainer) take(n int) (time.Duration, error) {
	select {
	case t.steps <- n:
		return t.wait()
	case <-t.done:
		return 0, t.err
	}
}

// Turn takes steps for about d, after one that warms up and counts them, and says how many seconds one took. A step that is
// longer than d is measured once.
func (t *Trainer) Turn(d time.Duration) (float64, error) {
	first, err := t.take(1)
	if err != nil || first >= d {
		return first.Seconds(), err
	}
	n := 1 + int(d/first)
	all, err := t.take(n)
	return all.Seconds() / float64(n), err
}

// Close ends the run and closes the device.
func (t *Trainer) Close() error {
	t.stop()
	<-t.done
	return t.device.Close()
}
