package main

import (
	"context"
	"math"
	"time"

	"shoal/fsdp"
	"shoal/kernel"
	"shoal/kernel/cpu"
	"shoal/model"
)

// What both sides train with. The rate is low, so that many steps on one batch don't end with gradients of 0.
var hyper = fsdp.Hyper{Steps: math.MaxInt32, LR: 1e-5, Schedule: "constant", WeightDecay: 0.05, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8,
	Seed: 1}

// trainer is a run with one member, in this process, that takes steps when it is told to.
type trainer struct {
	device *clocked
	steps  chan int           // to take
	took   chan time.Duration // for them
	left   int                // of the steps that were told
	start  time.Time          // of the first of them

	stop context.CancelFunc
	done chan struct{}
	err  error // after done
}

// newTrainer starts a run of m in which each batch is all of data, and returns after its first step. An error is that of the
// device or of fsdp.
func newTrainer(m model.Model, data fsdp.Dataset, threads int) (*trainer, error) {
	dev, err := cpu.New(cpu.Config{Threads: threads})
	if err != nil {
		return nil, err
	}
	t := &trainer{device: &clocked{Device: dev}, steps: make(chan int), took: make(chan time.Duration), left: 1, done: make(chan struct{})}
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
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *trainer) engine(ctx context.Context, m model.Model, data fsdp.Dataset) (*fsdp.Engine, error) {
	batch := data.Len()
	h := hyper
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
		Progress: func(o *fsdp.Outcome, _ []float64) { t.progress(ctx, o) }})
}

// progress runs between two steps: it lets the run go on once there are steps to take.
func (t *trainer) progress(ctx context.Context, o *fsdp.Outcome) {
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

func (t *trainer) wait() (time.Duration, error) {
	select {
	case d := <-t.took:
		return d, nil
	case <-t.done:
		return 0, t.err
	}
}

// take takes n steps.
func (t *trainer) take(n int) (time.Duration, error) {
	select {
	case t.steps <- n:
		return t.wait()
	case <-t.done:
		return 0, t.err
	}
}

// turn takes steps for about d, after one that warms up and counts them, and says how many seconds one took. A step that is
// longer than d is measured once.
func (t *trainer) turn(d time.Duration) (float64, error) {
	first, err := t.take(1)
	if err != nil || first >= d {
		return first.Seconds(), err
	}
	n := 1 + int(d/first)
	all, err := t.take(n)
	return all.Seconds() / float64(n), err
}

// close ends the run.
func (t *trainer) close() error {
	t.stop()
	<-t.done
	return t.device.Close()
}

// clocked is a device that takes the time of its products and attention ops. kernel/cpu has computed when a call returns.
type clocked struct {
	kernel.Device
	products, attention time.Duration
}

func (d *clocked) MatMul(t kernel.Trans, c, a, b kernel.Buffer, m, n, k int, accumulate bool) {
	defer since(&d.products, time.Now())
	d.Device.MatMul(t, c, a, b, m, n, k, accumulate)
}

func (d *clocked) Attention(y, stats, qkv kernel.Buffer, s kernel.AttentionShape) {
	defer since(&d.attention, time.Now())
	d.Device.Attention(y, stats, qkv, s)
}

func (d *clocked) AttentionBackward(dqkv, dy, y, qkv, stats kernel.Buffer, s kernel.AttentionShape) {
	defer since(&d.attention, time.Now())
	d.Device.AttentionBackward(dqkv, dy, y, qkv, stats, s)
}

func since(total *time.Duration, start time.Time) { *total += time.Since(start) }
