package main

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"shoal/internal/median"
)

// TestRatio: ratios are taken round by round, so that a round in which all were slow changes none; the fastest of them by the
// median is the one that counts.
func TestRatio(t *testing.T) {
	m := &match{ours: &side{seconds: []float64{1, 10, 2}}, theirs: []*side{
		{name: "slow", seconds: []float64{4, 4, 4}},
		{name: "fast", seconds: []float64{2, 20, 3}},
	}}
	if best := m.fastest(); best.name != "fast" || m.side("fast") != best || m.ratio(best) != 2 {
		t.Errorf("the fastest is %s, ratio %v", best.name, m.ratio(best))
	}
	if r := m.ratio(m.side("slow")); r != 2 { // of 4, 0.4 and 2
		t.Errorf("ratio to the slow one: %v", r)
	}
	if r := m.ratio(m.side("nobody")); !math.IsNaN(r) {
		t.Errorf("ratio to nobody: %v", r)
	}
	if x := median.Of([]float64{4, 1, 3, 2}); x != 2.5 {
		t.Errorf("median %v", x)
	}
}

// TestRound: everybody has a turn in a round, in the opposite order in every other one.
func TestRound(t *testing.T) {
	var order []string
	made := func(name string, x float64) *side {
		return &side{name: name, turn: func(d time.Duration) (float64, error) {
			order = append(order, name)
			return x * d.Seconds(), nil
		}}
	}
	m := &match{name: "GELU", shape: "4", ours: made("a", 1), theirs: []*side{made("b", 2), made("c", 3)}}
	for range 2 {
		if err := m.round(time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"a", "b", "c", "c", "b", "a"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if want := []float64{3, 3}; !slices.Equal(m.theirs[1].seconds, want) {
		t.Errorf("times %v, want %v", m.theirs[1].seconds, want)
	}
	broken := errors.New("broken")
	m.theirs[0].turn = func(time.Duration) (float64, error) { return 0, broken }
	if err := m.round(time.Second); !errors.Is(err, broken) || err.Error() != "GELU 4, b: broken" {
		t.Errorf("error %v", err)
	}
}
