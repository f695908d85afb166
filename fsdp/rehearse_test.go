package fsdp

import (
	"context"
	"errors"
	"testing"
	"time"

	"shoal/kernel"
)

// rehearse is Rehearse for one member of the run that s describes, and the memory that it took.
func (s setup) rehearse(t *testing.T, rank int, about time.Duration) (*Rehearsal, *kernel.Meter) {
	t.Helper()
	c := s.rehearsed(t, rank)
	r, err := Rehearse(t.Context(), c, about, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r, c.Device.Meter()
}

// rehearsed is what one member of the run that s describes can rehearse.
func (s setup) rehearsed(t *testing.T, rank int) Config {
	t.Helper()
	mesh := s.mesh(s.sequence())
	c := s.config(mesh, rank, s.sequence())
	c.Comm, c.Device = nil, fast(t)
	var err error
	if c.Start, err = mesh.Enter(t.Context(), rank); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRehearse compares the memory of a rehearsed step with that of real ones: at rest to the byte, the peaks but for what
// happens to be on its way at the same moment.
func TestRehearse(t *testing.T) {
	for _, c := range []struct {
		name    string
		members int
		change  func(*setup)
	}{
		{"alone", 1, func(*setup) {}},
		{"fsdp", 3, func(*setup) {}},
		{"1 backup", 3, func(s *setup) { s.backups = 1 }},
		{"reshard false", 2, func(s *setup) { s.keep = true }},
		{"zero2", 3, func(s *setup) { s.strategy = Zero2 }},
		{"zero1, frozen", 2, func(s *setup) { s.strategy, s.frozen = Zero1, freezeBlocks }},
		{"ddp", 3, func(s *setup) { s.strategy = DDP }},
		{"fixed16", 2, func(s *setup) { s.hyper.Reduce = Fixed16 }},
		{"bf16", 3, func(s *setup) { s.hyper.Reduce, s.backups = BFloat16, 1 }},
		{"fp32 parameters", 2, func(s *setup) { s.params = kernel.F32 }},
		{"more members than microbatches", 8, func(*setup) {}},
		{"one microbatch", 3, func(s *setup) { s.hyper.Batch, s.backups = s.hyper.Microbatch, 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := base(t)
			for range c.members - 1 {
				s.weights = append(s.weights, 1)
			}
			c.change(&s)
			_, devices, err := s.run(t)
			if err != nil {
				t.Fatal(err)
			}
			got, meter := s.rehearse(t, 0, 20*time.Millisecond)
			m := len(microbatches(s.hyper.Batch, s.hyper.Microbatch))
			if want := (m + c.members - 1) / c.members; got.Share != want {
				t.Errorf("the most of %d microbatches that one of %d members computes is %d, want %d", m, c.members, got.Share, want)
			}
			if got.Step <= got.Update || got.Update <= 0 || got.Microbatch <= 0 {
				t.Errorf("rehearsed %+v", got)
			}
			real := devices[0].Meter()
			for _, class := range []kernel.Class{kernel.Parameters, kernel.Gradients, kernel.Optimizer, kernel.Backups} {
				if a, b := meter.Live(class), real.Live(class); a != b {
					t.Errorf("%d bytes of %v at rest, in a run %d", a, class, b)
				}
			}
			for _, class := range []kernel.Class{kernel.Gathered, kernel.GradientWork} {
				if a, b := float64(meter.Peak(class)), float64(real.Peak(class)); a < 0.5*b || a > 2*b {
					t.Errorf("%.0f bytes of %v at most, in a run %.0f", a, class, b)
				}
			}
		})
	}
}

// TestRehearseWithoutTime: a member that has no time for its share computes one microbatch, and says so.
func TestRehearseWithoutTime(t *testing.T) {
	s := base(t)
	s.weights = []int64{1, 1}
	got, meter := s.rehearse(t, 0, time.Nanosecond)
	if got.Share != 3 || got.Microbatches != 1 {
		t.Errorf("rehearsed %d microbatches of %d, want 1 of 3", got.Microbatches, got.Share)
	}
	whole, all := s.rehearse(t, 0, time.Second)
	if whole.Microbatches != 3 {
		t.Errorf("in a second it rehearsed %d microbatches of 3", whole.Microbatches)
	}
	if a, b := float64(3*meter.Peak(kernel.Activations)), float64(all.Peak(kernel.Activations)); a < b || a > 1.3*b {
		t.Errorf("three times the activations of one microbatch are %.0f bytes, those of three %.0f", a, b)
	}
}

func TestRehearseEnds(t *testing.T) {
	s := base(t)
	mesh := s.mesh(s.sequence())
	c := s.config(mesh, 0, s.sequence())
	c.Device = fast(t)
	if _, err := Rehearse(t.Context(), c, time.Second, nil, nil); err == nil {
		t.Error("a rehearsal without a view went on")
	}
	var err error
	if c.Start, err = mesh.Enter(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := Rehearse(ctx, c, time.Hour, nil, nil); !errors.Is(err, why) {
		t.Errorf("a rehearsal that was cancelled ended with %v", err)
	}
}

func TestEdges(t *testing.T) {
	s := base(t)
	s.weights = []int64{1, 1}
	edges := func() (first, last int64, gathers int) {
		mesh := s.mesh(s.sequence())
		c := s.config(mesh, 0, s.sequence())
		var err error
		if c.Start, err = mesh.Enter(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		return Edges(&c)
	}
	root := int64(NewLayout(s.model, nil).Units[0].Len)
	first, last, gathers := edges()
	own := root - first/2 // of two bytes each
	if own <= 0 || first <= 0 || last != 4*own || gathers != 1+3+2 {
		t.Errorf("fsdp: %d bytes first, %d last, %d gathers; the root unit has %d elements, 3 others", first, last, gathers, root)
	}
	s.strategy = Zero2
	if f, l, g := edges(); f != first || l != last || g != 1+3 {
		t.Errorf("zero2: %d bytes first, %d last, %d gathers", f, l, g)
	}
	s.strategy = DDP
	if f, l, g := edges(); f != 0 || l != 4*root || g != 0 {
		t.Errorf("ddp: %d bytes first, %d last, %d gathers", f, l, g)
	}
}
