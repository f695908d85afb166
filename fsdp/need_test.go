package fsdp

import (
	"testing"

	"shoal/kernel"
)

// TestNeed compares the estimate with what members hold: at rest exactly, at most never more than it says.
func TestNeed(t *testing.T) {
	for _, strategy := range []Strategy{FSDP, Zero2, Zero1, DDP} {
		for _, weights := range [][]int64{{1}, {3, 1, 1}} {
			for _, keep := range []bool{false, true} {
				s := base(t)
				s.strategy, s.weights, s.keep, s.frozen, s.backups = strategy, weights, keep, freezeBlocks, 1
				results, devices, err := s.run(t)
				if err != nil {
					t.Fatal(err)
				}
				for r, res := range results {
					start, err := s.mesh(s.sequence()).Enter(t.Context(), r)
					if err != nil {
						t.Fatal(err)
					}
					rest, peak := Need(&Config{Model: s.model, Start: start, Backups: s.backups, Strategy: strategy, KeepGathered: keep,
						ParamType: s.params, Frozen: s.frozen})
					if got := res.ParameterBytes + res.GradientBytes + res.OptimizerBytes + res.BackupBytes; got != rest {
						t.Errorf("%s, %d members, rank %d: %d bytes at rest, estimated %d", strategy, len(weights), r, got, rest)
					}
					m := devices[r].Meter()
					if got := rest + m.Peak(kernel.Gathered) + m.Peak(kernel.GradientWork); got > peak {
						t.Errorf("%s, %d members, rank %d: %d bytes at most, estimated %d", strategy, len(weights), r, got, peak)
					}
				}
			}
		}
	}
}
