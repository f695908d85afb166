package fsdp

import (
	"fmt"
	"runtime"
	"testing"

	"shoal/model/vit"
)

// After warm-up neither an op nor a microbatch allocates anything: what a step allocates is for the attempt, what is said of it
// and the decision (some 170 times), and for what each unit gives and takes (some 10 times).
func TestStepAllocatesOnlyForTheLog(t *testing.T) {
	const warm, steps, units = 10, 30, 3
	for _, c := range []struct {
		threads, microbatches int
		reduce                Format
	}{{1, 2, Fixed32}, {1, 8, Fixed32}, {2, 8, Fixed32}, {2, 8, Fixed16}, {1, 8, Float32}} {
		t.Run(fmt.Sprintf("%d threads, %d microbatches, %s", c.threads, c.microbatches, c.reduce), func(t *testing.T) {
			var at [steps]uint64
			e := alone(t, vit.Config{Image: 28, Patch: 7, Channels: 1, Dim: 64, Depth: units - 1, Heads: 4, Classes: 10}, c.threads,
				Hyper{Steps: steps, Microbatch: 8, Batch: 8 * c.microbatches, Reduce: c.reduce, LR: 1e-3, Schedule: "constant", Clip: 1,
					Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Seed: 1},
				func(o *Outcome, _ []float64, _ []StepHash) {
					var s runtime.MemStats
					runtime.ReadMemStats(&s)
					at[o.Step] = s.Mallocs
				})
			if _, err := e.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			per := (at[steps-1] - at[warm]) / (steps - 1 - warm)
			if most := uint64(210 + 10*units); per > most {
				t.Errorf("%d allocations a step, want at most %d", per, most)
			}
			t.Logf("%d allocations a step", per)
		})
	}
}
