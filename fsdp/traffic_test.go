package fsdp

import (
	"context"
	"sync/atomic"
	"testing"

	"shoal/kernel"
	"shoal/kernel/ref"
)

// counting counts the tensor bytes that a member receives.
type counting struct {
	Comm
	n *atomic.Int64
}

type countingSink struct {
	Sink
	rank int
	n    *atomic.Int64
}

func (s countingSink) Add(unit, source, offset int, data []byte) error {
	s.n.Add(int64(len(data)))
	return s.Sink.Add(unit, source, offset, data)
}

func (c counting) Begin(fence uint64, sink Sink) error {
	return c.Comm.Begin(fence, countingSink{sink, c.Rank(), c.n})
}

func (c counting) AllGather(ctx context.Context, tag uint32, width int, mine []byte, parts [][]byte) (wait, given func() error) {
	for r, p := range parts {
		if r != c.Rank() {
			c.n.Add(int64(len(p)))
		}
	}
	return c.Comm.AllGather(ctx, tag, width, mine, parts)
}

func TestReceived(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*setup)
	}{
		{"fsdp", func(s *setup) {}},
		{"fsdp, fp32", func(s *setup) { s.params = kernel.F32 }},
		{"reshard false", func(s *setup) { s.keep = true }},
		{"zero1", func(s *setup) { s.strategy = Zero1 }},
		{"zero2", func(s *setup) { s.strategy = Zero2 }},
		{"ddp", func(s *setup) { s.strategy = DDP }},
		{"fsdp, frozen", func(s *setup) { s.frozen = freezeBlocks }},
		{"zero2, frozen", func(s *setup) { s.strategy = Zero2; s.frozen = freezeBlocks }},
		{"ddp, frozen", func(s *setup) { s.strategy = DDP; s.frozen = freezeBlocks }},
		{"more members than microbatches", func(s *setup) { s.weights = []int64{1, 1, 1, 9, 1, 1, 1, 1} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := base(t)
			s.weights = []int64{3, 1, 1}
			c.change(&s)
			order := func(int) []int { return []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10} }
			d := &Decider{Layout: NewLayout(s.model, []int64{1}, s.frozen), Hyper: s.hyper, BatchSize: func(int) int { return 11 }}
			mesh := NewLocalMesh(len(s.weights), d.Decide)
			var cfgs []*Config
			received := make([]atomic.Int64, len(s.weights))
			errs := make(chan error, len(s.weights))
			for r := range s.weights {
				cfg := &Config{Model: s.model, Device: ref.New(), Comm: counting{mesh.Comm(r), &received[r]}, Hyper: s.hyper,
					Weights: s.weights, Frozen: s.frozen, Strategy: s.strategy, KeepGathered: s.keep, Recompute: s.recompute,
					ParamType: s.params, Train: s.train, Eval: s.eval, Order: order}
				cfgs = append(cfgs, cfg)
				go func() {
					e, err := NewEngine(*cfg)
					if err == nil {
						_, err = e.Run(t.Context())
					}
					errs <- err
				}()
			}
			for range s.weights {
				if err := <-errs; err != nil {
					t.Fatal(err)
				}
			}
			for r, cfg := range cfgs {
				if got, want := received[r].Load(), Received(cfg, r, []int{0}); got != want {
					t.Errorf("rank %d received %d bytes, the formula says %d", r, got, want)
				}
			}
		})
	}
}
