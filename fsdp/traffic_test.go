package fsdp

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"testing"

	"shoal/kernel"
)

// counting counts the tensor bytes that a member receives. Elements of 4 bytes that fit in 2 count 2, as they do on
// streams.
type counting struct {
	Comm
	rank int
	n    *atomic.Int64
}

type countingSink struct {
	Sink
	c counting
}

func (s countingSink) Add(kind Kind, tag, source, offset int, data []byte) error {
	s.c.count(data)
	return s.Sink.Add(kind, tag, source, offset, data)
}

func (c counting) Begin(ctx context.Context, fence uint64, sink Sink) (context.Context, error) {
	return c.Comm.Begin(ctx, fence, countingSink{sink, c})
}

func (c counting) AllGather(ctx context.Context, tag uint32, width int, mine []byte, takes []bool, parts [][]byte) (wait, given func() error) {
	inner, given := c.Comm.AllGather(ctx, tag, width, mine, takes, parts)
	return func() error {
		if err := inner(); err != nil {
			return err
		}
		for r, p := range parts {
			switch {
			case r == c.rank:
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
		{"1 backup", func(s *setup) { s.backups = 1 }},
		{"1 backup, frozen, zero1", func(s *setup) { s.strategy, s.frozen, s.backups = Zero1, freezeBlocks, 1 }},
		{"everything everywhere", func(s *setup) { s.backups = 2 }},
		{"bf16, 1 backup", func(s *setup) { s.hyper.Reduce, s.backups = BFloat16, 1 }},
		{"fixed16, 1 backup", func(s *setup) { s.hyper.Reduce, s.backups = Fixed16, 1 }},
		{"more members than microbatches", func(s *setup) { s.weights = []int64{1, 1, 1, 9, 1, 1, 1, 1} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := base(t)
			s.weights = []int64{3, 1, 1}
			c.change(&s)
			order := func(int) []int { return []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10} }
			s.work = make([]int64, len(s.weights))
			mesh := s.mesh(order)
			var cfgs []*Config
			received := make([]atomic.Int64, len(s.weights))
			errs := make(chan error, len(s.weights))
			for r := range s.weights {
				c := s.config(mesh, r, order)
				c.Device, c.Comm = fast(t), counting{mesh.Comm(r), r, &received[r]}
				var err error
				if c.Start, err = mesh.Enter(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				cfg := &c
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
				if got, want := received[r].Load(), Received(cfg, retried); got != want {
					t.Errorf("rank %d received %d bytes, the formula says %d", r, got, want)
				}
			}
		})
	}
}
