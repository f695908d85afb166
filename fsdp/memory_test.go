package fsdp

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"shoal/model/vit"
)

// perParameter is how many bytes at rest docs/memory.md promises for each of the model's parameters, with n equal members.
func perParameter(s Strategy, n int) float64 {
	if n == 1 {
		return 4 + 4 + 8 // one member shares out nothing
	}
	share := 1 / float64(n)
	return map[Strategy]float64{
		FSDP:  (4 + 4 + 8) * share,
		Zero2: 2 + (4+4+8)*share,
		Zero1: 2 + 4 + (4+8)*share,
		DDP:   4 + 4 + 8,
	}[s]
}

// TestMemoryFallsWithMembers: parameters, gradients and optimizer state at rest fall as 1/N under fsdp, and as
// docs/memory.md says under the others, within a tenth.
func TestMemoryFallsWithMembers(t *testing.T) {
	m, err := vit.New(vit.Config{Image: 14, Patch: 7, Channels: 1, Dim: 48, Depth: 3, Heads: 2, Classes: 5})
	if err != nil {
		t.Fatal(err)
	}
	for _, strategy := range []Strategy{FSDP, Zero2, Zero1, DDP} {
		for _, n := range []int{1, 2, 4, 8} {
			t.Run(fmt.Sprintf("%s, %d members", strategy, n), func(t *testing.T) {
				s := base(t)
				s.model, s.strategy, s.eval = m, strategy, nil
				s.hyper.Steps, s.hyper.Warmup, s.hyper.Batch, s.hyper.Microbatch = 2, 0, 4, 1
				s.weights = slices.Repeat([]int64{1}, n)
				results := s.mustRun(t)
				parameters := 0
				for _, u := range NewLayout(m, nil).Units {
					parameters += u.Len
				}
				want := perParameter(strategy, n) * float64(parameters)
				for rank, r := range results {
					got := float64(r.ParameterBytes + r.GradientBytes + r.OptimizerBytes + r.BackupBytes)
					if math.Abs(got-want) > 0.1*want {
						t.Errorf("rank %d holds %.0f bytes at rest, want %.0f within a tenth", rank, got, want)
					}
				}
			})
		}
	}
}
