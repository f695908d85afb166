package main

import (
	"context"
	"slices"
	"testing"
)

// TestParts: the runs are allowed, their batches can be dealt evenly, and their names differ.
func TestParts(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range parts() {
		if seen[p.name()] {
			t.Errorf("%s is there twice", p.name())
		}
		seen[p.name()] = true
		run := p.run("text")
		if err := run.Validate(); err != nil {
			t.Errorf("%s: %v", p.name(), err)
		}
		if n := run.Train.Batch / run.Train.Microbatch; n*run.Train.Microbatch != run.Train.Batch || n%max(1, p.processes) != 0 {
			t.Errorf("%s: %d microbatches for %d processes", p.name(), n, p.processes)
		}
		m := run.Model
		for key, want := range map[string]int{"dim": m.Dim, "depth": m.Depth, "heads": m.Heads} {
			if got := p.model.config[key]; got != want {
				t.Errorf("%s: PyTorch's %s is %d, ours %d", p.name(), key, got, want)
			}
		}
	}
}

// TestRounds: everybody has a turn in a round, in the opposite order in every other one.
func TestRounds(t *testing.T) {
	var order []string
	made := func(name string, seconds float64) contender {
		return contender{side: &side{Name: name}, turn: func(_ context.Context, steps int) (turn, error) {
			order = append(order, name)
			return turn{seconds: seconds, bytes: float64(steps), memory: int64(len(order))}, nil
		}}
	}
	all := []contender{made("a", 1), made("b", 2)}
	if err := (part{model: vit}).rounds(t.Context(), &config{rounds: 2}, all); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "b", "a"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	a, b := all[0].side, all[1].side
	if a.faster(b) != 2 || b.Memory != 3 || b.Bytes != float64(vit.steps) || len(a.Seconds) != 2 {
		t.Errorf("%+v, %+v", a, b)
	}
}
