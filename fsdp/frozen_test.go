package fsdp

import (
	"strings"
	"testing"

	"shoal/kernel"
)

// freezeBlocks freezes one whole unit, a part of another, and a part of the root.
func freezeBlocks(name string) bool {
	return strings.HasPrefix(name, "blocks.0.") || strings.HasPrefix(name, "blocks.2.attn") || strings.HasPrefix(name, "pos")
}

func TestFrozen(t *testing.T) {
	s := base(t)
	s.frozen = freezeBlocks
	l := NewLayout(s.model, s.frozen)
	whole, part := 0, 0
	for _, u := range l.Units {
		if u.Trained == 0 {
			whole++
		} else if u.Trained < u.Len {
			part++
		}
	}
	if whole != 1 || part != 2 {
		t.Fatalf("%d units are frozen, %d in part; want 1 and 2: the test's names are out of date", whole, part)
	}
	want := s.mustRun(t)[0]
	if want.StateHash == base(t).mustRun(t)[0].StateHash {
		t.Error("freezing changes nothing")
	}
	for _, weights := range [][]int64{{1, 1}, {5, 1, 1}, {1, 1, 1, 1, 1}} {
		for _, strategy := range []Strategy{FSDP, Zero2, Zero1, DDP} {
			s.weights, s.strategy = weights, strategy
			for _, got := range s.mustRun(t) {
				same(t, want, got)
			}
		}
	}
}

// TestFrozenStays looks at the parameters themselves: a frozen tensor keeps its initial values, its neighbours move.
func TestFrozenStays(t *testing.T) {
	s := base(t)
	s.frozen = freezeBlocks
	before, after := s.parameters(t, 0), s.parameters(t, s.hyper.Steps)
	for name, v := range before {
		changed := false
		for i := range v {
			changed = changed || v[i] != after[name][i]
		}
		if changed == freezeBlocks(name) {
			t.Errorf("%s: frozen %v, changed %v", name, freezeBlocks(name), changed)
		}
	}
}

// parameters are the master parameters by name after so many steps of a run of one.
func (s setup) parameters(t *testing.T, steps int) map[string][]float32 {
	t.Helper()
	s.hyper.Steps = steps
	d := &Decider{Layout: NewLayout(s.model, s.frozen), Hyper: s.hyper, BatchSize: func(int) int { return 16 }}
	order := make([]int, 16)
	for i := range order {
		order[i] = i
	}
	mesh := NewLocalMesh(d.Layout, []int64{1}, 0, d.Decide)
	start, err := mesh.Enter(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(Config{Model: s.model, Device: fast(t), Comm: mesh.Comm(0), Start: start, Hyper: s.hyper,
		Frozen: s.frozen, Strategy: FSDP, Recompute: RecomputeNever, ParamType: s.params, Train: s.train, Order: func(int) []int { return order }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	values := map[string][]float32{}
	for _, u := range e.units {
		for _, span := range u.Spans {
			v := make([]float32, span.N)
			if err := e.dev.Download(kernel.Bytes(v), u.own.p.Slice(span.Off, span.N)); err != nil {
				t.Fatal(err)
			}
			values[span.Param.Name] = v
		}
	}
	return values
}

// TestFrozenCostsNothing: no optimizer state, no gradient memory.
func TestFrozenCostsNothing(t *testing.T) {
	s := base(t)
	s.frozen = freezeBlocks
	s.weights = []int64{1, 1}
	trained := int64(0)
	for _, u := range NewLayout(s.model, s.frozen).Units {
		trained += int64(u.Trained)
	}
	var gradients, optimizer int64
	for _, r := range s.mustRun(t) {
		gradients += r.GradientBytes
		optimizer += r.OptimizerBytes
	}
	if gradients != 4*trained || optimizer != 8*trained {
		t.Errorf("%d bytes of gradients, %d of optimizer state for %d trained parameters", gradients, optimizer, trained)
	}
}
