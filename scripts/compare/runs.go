package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"shoal"
	"shoal/internal/runfile"
	"shoal/testnet"
)

// A way is one way to share out the same run.
type way struct {
	name     string
	strategy string
	change   func(*shoal.RunFile) // nil for nothing more
}

// ways are all that there are; the first one is what the others are compared with.
var ways = []way{
	{name: "`fsdp`", strategy: "fsdp"},
	{name: "`fsdp`, `reshard: false`", strategy: "fsdp", change: func(r *shoal.RunFile) { r.Mesh.Reshard = false }},
	{name: "`fsdp`, `wrap: layers:3`", strategy: "fsdp", change: func(r *shoal.RunFile) { r.Mesh.Wrap = "layers:3" }},
	{name: "`zero2`", strategy: "zero2"},
	{name: "`zero1`", strategy: "zero1"},
	{name: "`ddp`", strategy: "ddp"},
}

// sizes are the numbers of peers whose memory at rest is compared.
var sizes = []int{1, 2, 4, 8}

// defaultRun is the default run of fewer steps, without packing and evaluation, so that bytes are those of training.
func defaultRun(steps int) *shoal.RunFile {
	r := runfile.Default()
	r.Train.Steps, r.Train.Warmup = steps, min(steps, r.Train.Warmup)
	r.Data.Eval = 0
	r.Wire.Packing = "off"
	return &r
}

// runner starts runs as processes of one program.
type runner struct {
	program string
	log     io.Writer
}

// run trains as w says, with n peers.
func (r *runner) run(ctx context.Context, w way, n, steps int) (*shoal.Report, error) {
	run := defaultRun(steps)
	run.Mesh.Strategy = w.strategy
	if w.change != nil {
		w.change(run)
	}
	report, err := testnet.Run(ctx, testnet.Config{RunFile: run, Peers: n, Program: r.program})
	if err != nil {
		return nil, fmt.Errorf("%s with %d peers: %w", w.name, n, err)
	}
	fmt.Fprintf(r.log, "%s, %d peers: %.1f s, %.0f samples/s, state hash %s\n", w.name, n, report.WallSeconds, report.SamplesPerSecond, report.StateHash)
	return report, nil
}

// rounds is how often each way is trained; the fastest time counts, since others may want the machine as well.
const rounds = 2

// strategies trains each way with the same number of peers. All must end with the same losses, and those with the same
// units with the same hash.
func (r *runner) strategies(ctx context.Context, n, steps int) ([]*shoal.Report, error) {
	all := make([]*shoal.Report, len(ways))
	for range rounds {
		for i, w := range ways {
			report, err := r.run(ctx, w, n, steps)
			if err != nil {
				return nil, err
			}
			if all[i] == nil || report.SamplesPerSecond > all[i].SamplesPerSecond {
				all[i] = report
			}
			if err := same(w, all[0], report); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// same checks that a way trained the same run as the first one.
func same(w way, want, got *shoal.Report) error {
	bits := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
	if !slices.EqualFunc(want.Loss, got.Loss, bits) {
		return fmt.Errorf("%s: losses %v, those of %s are %v", w.name, got.Loss, ways[0].name, want.Loss)
	}
	if got.StateHash != want.StateHash {
		return fmt.Errorf("%s: state hash %s, that of %s is %s", w.name, got.StateHash, ways[0].name, want.StateHash)
	}
	return nil
}

// held is the memory at rest of one way with each number of peers.
type held struct {
	strategy   string
	parameters int64
	bytes      map[int][]int64 // by number of peers: what each of them holds
}

// memory measures it for each strategy, in two steps.
func (r *runner) memory(ctx context.Context) ([]held, error) {
	var all []held
	for _, w := range ways {
		if w.change != nil {
			continue // not another strategy
		}
		h := held{strategy: w.strategy, bytes: map[int][]int64{}}
		for _, n := range sizes {
			report, err := r.run(ctx, w, n, 2)
			if err != nil {
				return nil, err
			}
			h.parameters = report.ModelParameters
			for i := range report.Peers {
				h.bytes[n] = append(h.bytes[n], atRest(&report.Peers[i]))
			}
			if err := h.check(n); err != nil {
				return nil, err
			}
		}
		all = append(all, h)
	}
	return all, nil
}

// perParameter is how many bytes at rest docs/memory.md promises for each parameter of the model, with n equal peers.
func perParameter(strategy string, n int) float64 {
	share := 1 / float64(n)
	switch {
	case n == 1: // nothing is shared out
		return 16
	case strategy == "fsdp":
		return 16 * share
	case strategy == "zero2":
		return 2 + 16*share
	case strategy == "zero1":
		return 2 + 4 + 12*share
	}
	return 16
}

// check compares what each of n peers holds with the promise: within a tenth.
func (h *held) check(n int) error {
	want := perParameter(h.strategy, n) * float64(h.parameters)
	for rank, got := range h.bytes[n] {
		if math.Abs(float64(got)-want) > 0.1*want {
			return fmt.Errorf("%s with %d peers: rank %d holds %d bytes at rest, docs/memory.md says %.0f", h.strategy, n, rank, got, want)
		}
	}
	return nil
}
