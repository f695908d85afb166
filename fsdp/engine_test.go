package fsdp

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"shoal/kernel"
	"shoal/kernel/cpu"
	"shoal/kernel/ref"
	"shoal/model"
	"shoal/model/vit"
)

// blobs are noisy images, one bright spot per class: enough to learn in a few steps.
type blobs struct{ n, image, classes int }

func (d blobs) Len() int         { return d.n }
func (d blobs) Spec() model.Spec { return model.Spec{Floats: d.image * d.image, Labels: 1} }
func (d blobs) Read(indices []int, b *model.Batch) error {
	b.N, b.Floats, b.Labels = len(indices), nil, nil
	for _, i := range indices {
		px := make([]float32, d.image*d.image)
		ref.FillUniform(px, ref.Hash64(uint64(i), "noise"), 0, 0.5)
		px[i%d.classes*7%len(px)] += 2
		b.Floats = append(b.Floats, px...)
		b.Labels = append(b.Labels, int32(i%d.classes))
	}
	return nil
}

// setup is a run of the tests: what it trains and how it is cut up.
type setup struct {
	weights   []int64
	model     model.Model
	train     Dataset
	eval      Dataset
	hyper     Hyper
	strategy  Strategy
	keep      bool
	ahead     int
	recompute Recompute
	params    kernel.DType
	trace     func(rank int, e Event)
	order     func(step int) []int
	device    func(t testing.TB) kernel.Device
	progress  func(*Outcome, []float64, []StepHash) // rank 0's
	frozen    func(name string) bool
	change    func(rank int, c *Config)
	backups   int   // of each range; under DDP all
	noFiles   []int // members that keep no checkpoints
	exporting bool
	work      []int64       // what a microbatch costs each member; nil: as measured
	started   func(*Engine) // before the first step
	start     *Position     // the Decider's
}

func fast(t testing.TB) kernel.Device {
	d, err := cpu.New(cpu.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func base(t testing.TB) setup {
	m, err := vit.New(vit.Config{Image: 14, Patch: 7, Channels: 1, Dim: 16, Depth: 3, Heads: 2, Classes: 5})
	if err != nil {
		t.Fatal(err)
	}
	return setup{
		weights: []int64{1}, model: m, train: blobs{100, 14, 5}, eval: blobs{30, 14, 5},
		hyper: Hyper{Steps: 6, Microbatch: 3, Batch: 16, LR: 3e-3, Schedule: "cosine", Warmup: 2, WeightDecay: 0.05, Clip: 1,
			Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Seed: 1, HashEvery: 2},
		strategy: FSDP, recompute: RecomputeNever, params: kernel.BF16, device: fast,
	}
}

// run trains s on a LocalMesh and returns each rank's result.
func (s setup) run(t testing.TB) ([]*Result, []kernel.Device, error) {
	t.Helper()
	order := s.sequence()
	mesh := s.mesh(order)
	results := make([]*Result, len(s.weights))
	devices := make([]kernel.Device, len(s.weights))
	var wg sync.WaitGroup
	errs := make([]error, len(s.weights))
	for r := range s.weights {
		devices[r] = s.device(t)
		wg.Go(func() {
			cfg := s.config(mesh, r, order)
			cfg.Device = devices[r]
			var err error
			if cfg.Start, err = mesh.Enter(context.Background(), r); err != nil {
				errs[r] = err
				return
			}
			cfg.Start.View.Exporting = s.exporting
			if r == 0 {
				cfg.Progress = s.progress
			}
			if s.trace != nil {
				cfg.Trace = func(e Event) { s.trace(r, e) }
			}
			if s.change != nil {
				s.change(r, &cfg)
			}
			var e *Engine
			e, err = NewEngine(cfg)
			if err == nil && s.started != nil {
				s.started(e)
			}
			if err == nil {
				results[r], err = e.Run(context.Background())
			}
			if err != nil {
				errs[r] = err
				mesh.Fail(err)
			}
		})
	}
	wg.Wait()
	for r, err := range errs {
		if err != nil {
			return results, devices, fmt.Errorf("rank %d: %w", r, err)
		}
	}
	return results, devices, nil
}

// mesh is a LocalMesh for a run.
func (s setup) mesh(order func(int) []int) *LocalMesh {
	d := &Decider{Layout: NewLayout(s.model, s.frozen), Hyper: s.hyper, BatchSize: func(i int) int { return len(order(i)) }, Start: s.start}
	backups := s.backups
	if s.strategy == DDP {
		backups = -1
	}
	mesh := NewLocalMesh(d.Layout, s.weights, backups, func(prev []byte, work []int64, readies [][]byte) (EntryKind, []byte, []int64, error) {
		kind, payload, next, err := d.Decide(prev, work, readies)
		if s.work != nil {
			next = s.work[:len(readies)]
		}
		return kind, payload, next, err
	})
	mesh.NoFiles = s.noFiles
	return mesh
}

// config is a member's, but for its device and where it starts.
func (s setup) config(mesh *LocalMesh, member int, order func(int) []int) Config {
	return Config{Model: s.model, Comm: mesh.Comm(member), Hyper: s.hyper,
		Strategy: s.strategy, KeepGathered: s.keep, Ahead: s.ahead, Recompute: s.recompute, ParamType: s.params,
		Train: s.train, Eval: s.eval, Order: order, Frozen: s.frozen,
		Stats: func(*Result) []byte { return []byte{byte(member)} }}
}

// sequence is the order of samples of a run that has none of its own.
func (s setup) sequence() func(int) []int {
	if s.order != nil {
		return s.order
	}
	return func(step int) []int {
		var list []int
		for i := range s.hyper.Batch {
			list = append(list, (step*s.hyper.Batch+i)%s.train.Len())
		}
		return list
	}
}

func (s setup) mustRun(t testing.TB) []*Result {
	t.Helper()
	res, _, err := s.run(t)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// same fails unless a member's result equals the reference.
func same(t *testing.T, want, got *Result) {
	t.Helper()
	if got.StateHash != want.StateHash || got.StateHash == "" {
		t.Errorf("state hash %q, want %q", got.StateHash, want.StateHash)
	}
	if !slices.Equal(got.Losses, want.Losses) {
		t.Errorf("losses %v, want %v", got.Losses, want.Losses)
	}
	for _, h := range want.StepHashes {
		if !slices.Contains(got.StepHashes, h) {
			t.Errorf("step hashes %v, want %v among them", got.StepHashes, h)
		}
	}
	if got.EvalLoss != want.EvalLoss || got.Correct != want.Correct || got.EvalCount != want.EvalCount {
		t.Errorf("evaluation %v, %d of %d; want %v, %d of %d", got.EvalLoss, got.Correct, got.EvalCount,
			want.EvalLoss, want.Correct, want.EvalCount)
	}
}

// goldenHash holds every architecture and instruction set to the same numbers. A change of it needs a reason.
const goldenHash = "909cc6e2d1b22fd3a7b5ef10ad4567dc7508ad793cf9619f9c3c2895ffaa0f85"

func TestOneRunOneHash(t *testing.T) {
	want := base(t).mustRun(t)[0]
	if want.StateHash != goldenHash {
		t.Errorf("state hash %s, want %s: a change moved the numbers", want.StateHash, goldenHash)
	}
	if first, last := want.Losses[0], want.Losses[len(want.Losses)-1]; !(last < first) {
		t.Errorf("loss went from %v to %v: it should fall", first, last)
	}
	if len(want.Losses) != 6 || len(want.StepHashes) != 3 || want.EvalCount != 30 {
		t.Errorf("%d losses, %d step hashes, %d held-out samples; want 6, 3, 30", len(want.Losses), len(want.StepHashes), want.EvalCount)
	}
	cases := []struct {
		name   string
		change func(*setup)
	}{
		{"again", func(s *setup) {}},
		{"on the scalar device", func(s *setup) { s.device = func(testing.TB) kernel.Device { return ref.New() } }},
		{"2 peers", func(s *setup) { s.weights = []int64{1, 1} }},
		{"3 peers", func(s *setup) { s.weights = []int64{1, 1, 1} }},
		{"5 peers", func(s *setup) { s.weights = []int64{1, 1, 1, 1, 1} }},
		{"weights 5,1,1", func(s *setup) { s.weights = []int64{5, 1, 1} }},
		{"a peer with next to nothing", func(s *setup) { s.weights = []int64{1, 1 << 40, 1} }},
		{"more peers than microbatches", func(s *setup) { s.weights = []int64{1, 1, 1, 1, 1, 1, 1, 1} }},
		{"ddp, 1 peer", func(s *setup) { s.strategy = DDP }},
		{"ddp, 3 peers", func(s *setup) { s.strategy = DDP; s.weights = []int64{1, 1, 1} }},
		{"zero1", func(s *setup) { s.strategy = Zero1; s.weights = []int64{1, 1, 1} }},
		{"zero2", func(s *setup) { s.strategy = Zero2; s.weights = []int64{5, 1, 1} }},
		{"reshard false", func(s *setup) { s.keep = true; s.weights = []int64{1, 1} }},
		{"recompute", func(s *setup) { s.recompute = RecomputeAlways; s.weights = []int64{1, 1} }},
		{"recompute auto", func(s *setup) { s.recompute = RecomputeAuto }},
		{"2 peers, 1 backup", func(s *setup) { s.weights, s.backups = []int64{1, 1}, 1 }},
		{"3 peers, 1 backup", func(s *setup) { s.weights, s.backups = []int64{1, 1, 1}, 1 }},
		{"3 peers, 2 backups", func(s *setup) { s.weights, s.backups = []int64{1, 1, 1}, 2 }},
		{"5 peers, 1 backup", func(s *setup) { s.weights, s.backups = []int64{1, 1, 1, 1, 1}, 1 }},
		{"5 peers, 2 backups", func(s *setup) { s.weights, s.backups = []int64{1, 1, 1, 1, 1}, 2 }},
		{"zero1, 1 backup", func(s *setup) { s.strategy, s.weights, s.backups = Zero1, []int64{1, 1, 1}, 1 }},
		{"zero2, 2 backups", func(s *setup) { s.strategy, s.weights, s.backups = Zero2, []int64{5, 1, 1}, 2 }},
		{"frequent audits", func(s *setup) {
			s.weights, s.backups = []int64{1, 1, 1}, 1
			s.change = func(_ int, c *Config) { c.AuditEvery = 1 }
		}},
		{"one peer gets no work", func(s *setup) { s.weights, s.work = []int64{1, 1, 1}, []int64{5, NoWork, 9} }},
		{"all at once", func(s *setup) {
			s.weights, s.keep, s.recompute = []int64{3, 1, 2}, true, RecomputeAlways
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := base(t)
			c.change(&s)
			results := s.mustRun(t)
			var samples int64
			for r, got := range results {
				same(t, want, got)
				samples += got.Samples
				if got.RunSamples != int64(s.hyper.Steps*s.hyper.Batch) {
					t.Errorf("%d samples of all members, want %d", got.RunSamples, s.hyper.Steps*s.hyper.Batch)
				}
				if len(got.MemberRows) != len(s.weights) || got.MemberRows[r][0] != byte(r) {
					t.Errorf("rank %d got rows %v", r, got.MemberRows)
				}
			}
			if want := int64(s.hyper.Steps * s.hyper.Batch); samples != want {
				t.Errorf("peers computed %d samples, want %d", samples, want)
			}
		})
	}
}

func TestFloat32Parameters(t *testing.T) {
	s := base(t)
	s.params = kernel.F32
	want := s.mustRun(t)[0]
	s.weights = []int64{2, 1}
	same(t, want, s.mustRun(t)[1])
	if want.StateHash == base(t).mustRun(t)[0].StateHash {
		t.Error("bf16 and fp32 parameters give the same hash: one of them isn't used")
	}
}
