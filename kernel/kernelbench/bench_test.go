package kernelbench

import (
	"context"
	"errors"
	"testing"
	"time"

	"shoal/kernel"
	"shoal/kernel/cpu/gemm"
)

// TestRun measures shortly, on the best code path: each op has one rate, and its share of what that could be.
func TestRun(t *testing.T) {
	r, err := Run(t.Context(), Config{Rounds: 1, Slice: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	if r.Backend != "cpu/"+gemm.Paths()[0] || r.Threads != 1 || !(r.Peak > 0) || !(r.Copy > 0) || len(r.Ops) != len(Ops()) {
		t.Errorf("%+v", r)
	}
	for _, o := range r.Ops {
		if !(o.Micros > 0) || o.GFLOPS > 0 == (o.GBS > 0) || !(o.Share > 0) {
			t.Errorf("%+v", o)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if r, err := Run(ctx, Config{}); !errors.Is(err, enough) {
		t.Errorf("%v, %v", r, err)
	}
}

func TestRunSaysWhatCannotRun(t *testing.T) {
	for _, cfg := range []Config{{Path: "abacus"}, {Threads: -1}} {
		if r, err := Run(t.Context(), cfg); err == nil {
			t.Errorf("%+v: %+v", cfg, r)
		}
	}
}

// TestProducts: so many products are so many times the work.
func TestProducts(t *testing.T) {
	b, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	one, many := Products(kernel.NT, 4, 5, 6, 1), Products(kernel.NT, 4, 5, 6, 7)
	if one.Shape != "4x5x6" || many.Shape != "7 of 4x5x6" || many.FLOPs != 7*one.FLOPs {
		t.Errorf("%+v, %+v", one, many)
	}
	for _, o := range []Op{one, many} {
		if s, err := b.Seconds(o, time.Microsecond); err != nil || !(s > 0) {
			t.Errorf("%s: %v s, %v", o.Shape, s, err)
		}
	}
}
