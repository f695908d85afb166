package fsdp

import (
	"slices"
	"sync"
	"testing"

	"shoal/kernel/ref"
	"shoal/model"
)

// TestExport: the members that want the final model get the same values whatever the sharding, those that start a run of
// no steps get the initial ones.
func TestExport(t *testing.T) {
	export := func(s setup) []map[string][]float32 {
		t.Helper()
		var mu sync.Mutex
		got := make([]map[string][]float32, len(s.weights))
		s.exporting = true
		s.change = func(rank int, c *Config) {
			if rank == 1 && len(s.weights) > 2 {
				return // one that doesn't want it
			}
			got[rank] = map[string][]float32{}
			c.Export = func(p model.Param, values []float32) error {
				mu.Lock()
				defer mu.Unlock()
				got[rank][p.Name] = slices.Clone(values)
				return nil
			}
		}
		s.mustRun(t)
		return got
	}
	s := base(t)
	s.frozen = freezeBlocks
	want := export(s)[0]
	for _, u := range s.model.Units() {
		for _, p := range u.Params {
			if len(want[p.Name]) != p.Len() {
				t.Fatalf("%s has %d values, want %d", p.Name, len(want[p.Name]), p.Len())
			}
			initial := make([]float32, p.Len())
			fill(p.Init, ref.Hash64(s.hyper.Seed, p.Name), 0, initial)
			if slices.Equal(want[p.Name], initial) != freezeBlocks(p.Name) {
				t.Errorf("%s: frozen %v, but its values say otherwise", p.Name, freezeBlocks(p.Name))
			}
		}
	}
	for _, strategy := range []Strategy{FSDP, Zero2, Zero1, DDP} {
		s.strategy, s.weights = strategy, []int64{3, 1, 1}
		for rank, got := range export(s) {
			for name := range want {
				if rank != 1 && !slices.Equal(got[name], want[name]) {
					t.Errorf("%s: rank %d got another %s than one peer alone", strategy, rank, name)
				}
			}
		}
	}
}
