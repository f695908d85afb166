package main

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

// TestPackingPays: with wire.packing auto a step takes no longer than with raw bytes, in the median of five rounds in which both
// take turns, on links as fast as memory, of 1 Gbit/s and of 100 Mbit/s; on the last, which packing is for, it takes less.
func TestPackingPays(t *testing.T) {
	needLong(t)
	const rounds = 5
	links := map[string]struct {
		lan   func(t *testing.T) *lan
		steps int
		most  float64
	}{
		"memory":  {func(t *testing.T) *lan { return newLAN(t, 2) }, 20, 1.05}, // measured with some noise
		"1gbit":   {func(t *testing.T) *lan { return newSlowLAN(t, 2, "1gbit", time.Millisecond).lan }, 20, 1.05},
		"100mbit": {func(t *testing.T) *lan { return newSlowLAN(t, 2, "100mbit", 20*time.Millisecond).lan }, 5, 0.95},
	}
	for name, link := range links {
		t.Run(name, func(t *testing.T) {
			var ratios []float64
			for i := range rounds {
				took := map[string]float64{}
				order := []string{"auto", "off"}
				if i%2 == 1 {
					slices.Reverse(order)
				}
				for _, packing := range order {
					run := linkBound()
					run.Data.Eval, run.Train.Steps, run.Train.Warmup, run.Wire.Packing = 0, link.steps, 2, packing
					took[packing] = reportOf(t, link.lan(t), run).WallSeconds
				}
				ratios = append(ratios, took["auto"]/took["off"])
				t.Logf("%d steps: %s raw, %.2f of it with packing auto", link.steps, seconds(took["off"]), ratios[i])
			}
			if slices.SortFunc(ratios, cmp.Compare[float64]); ratios[rounds/2] > link.most {
				t.Errorf("with packing auto steps take %.2f of what they take raw, want at most %.2f", ratios[rounds/2], link.most)
			}
		})
	}
}
