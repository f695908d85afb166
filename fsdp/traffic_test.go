package fsdp

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"testing"

	"shoal/kernel"
	"shoal/kernel/ref"
)

// counting counts the tensor bytes that a member receives. Elements of 4 bytes that fit in 2 count 2, as they do on
// streams.
type counting struct {
	Comm
	n *atomic.Int64
}

type countingSink struct {
	Sink
	c counting
}

func (s countingSink) Add(unit, source, offset int, data []byte) error {
	s.c.count(data)
	return s.Sink.Add(unit, source, offset, data)
}

func (c counting) Begin(fence uint64, sink Sink) error {
	return c.Comm.Begin(fence, countingSink{sink, c})
}

func (c counting) AllGather(ctx context.Context, tag uint32, width int, mine []byte, parts [][]byte) (wait, given func() error) {
	inner, given := c.Comm.AllGather(ctx, tag, width, mine, parts)
	return func() error {
		if err := inner(); err != nil {
			return err
		}
		for r, p := range parts {
			switch {
			case r == c.Rank():
			case width == 4:
				c.count(p)
			default:
				c.n.Add(int64(len(p)))
			}
		}
		return nil
	}, given
}

// count counts elements of 4 bytes.
func (c counting) count(data []byte) {
	ints, halves := true, true
	for i := 0; i < len(data); i += 4 {
		v := int32(binary.LittleEndian.Uint32(data[i:]))
		ints, halves = ints && v == int32(int16(v)), halves && v&0xffff == 0
	}
	n := int64(len(data))
	if ints || halves {
		n /= 2
	}
	c.n.Add(n)
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
		{"fixed16", func(s *setup) { s.hyper.Reduce = Fixed16 }},
		{"fixed16, ddp", func(s *setup) { s.hyper.Reduce, s.strategy = Fixed16, DDP }},
		{"fp32", func(s *setup) { s.hyper.Reduce = Float32 }},
		{"bf16", func(s *setup) { s.hyper.Reduce = BFloat16 }},
		{"bf16, ddp", func(s *setup) { s.hyper.Reduce, s.strategy = BFloat16, DDP }},
		{"more members than microbatches", func(s *setup) { s.weights = []int64{1, 1, 1, 9, 1, 1, 1, 1} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := base(t)
			s.weights = []int64{3, 1, 1}
			c.change(&s)
			order := func(int) []int { return []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10} }
			d := &Decider{Layout: NewLayout(s.model, s.frozen), Hyper: s.hyper, BatchSize: func(int) int { return 11 }}
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
			var retried []int
			if s.hyper.Reduce.Exact() {
				retried = []int{0}
			}
			for r, cfg := range cfgs {
				if got, want := received[r].Load(), Received(cfg, r, retried); got != want {
					t.Errorf("rank %d received %d bytes, the formula says %d", r, got, want)
				}
			}
		})
	}
}
