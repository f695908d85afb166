package fsdp

import (
	"testing"
	"time"

	"shoal/internal/data"
	"shoal/kernel/cpu"
	"shoal/model/vit"
)

// alone is the engine of a run's only member, which trains a model on digits with kernel/cpu.
func alone(t testing.TB, v vit.Config, threads int, h Hyper, progress func(*Outcome, []float64, []StepHash)) *Engine {
	t.Helper()
	m, err := vit.New(v)
	if err != nil {
		t.Fatal(err)
	}
	digits, err := data.NewDigits(data.DigitsConfig{Image: v.Image, Count: 60000})
	if err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.New(cpu.Config{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	order := func(step int) []int {
		_, list := data.Batch(1, 60000, h.Batch, step)
		return list
	}
	d := &Decider{Layout: NewLayout(m, nil), Hyper: h, BatchSize: func(int) int { return h.Batch }}
	mesh := NewLocalMesh(d.Layout, []int64{1}, 0, d.Decide)
	start, err := mesh.Enter(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(Config{Model: m, Device: dev, Comm: mesh.Comm(0), Start: start, Hyper: h,
		Strategy: FSDP, Recompute: RecomputeNever, Train: digits, Order: order, Progress: progress})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// BenchmarkStep is one member's training step of the default run's model, alone, on all cores.
func BenchmarkStep(b *testing.B) {
	e := alone(b, vit.Config{Image: 28, Patch: 7, Channels: 1, Dim: 64, Depth: 12, Heads: 4, Classes: 10}, 0,
		Hyper{Steps: b.N, Microbatch: 8, Batch: 64, LR: 2e-3, Schedule: "cosine", Warmup: 20, WeightDecay: 0.05, Clip: 1,
			Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Seed: 1}, nil)
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := e.Run(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(64*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
}

// BenchmarkSpan is what taking the time of a part of a step costs where nobody listens. A step has some ten for each unit.
func BenchmarkSpan(b *testing.B) {
	e := &Engine{clock: time.Now()}
	e.watch.start(e.now())
	b.ReportAllocs()
	for b.Loop() {
		e.did(e.doing(TraceForward, 1))
	}
}
