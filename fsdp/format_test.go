package fsdp

import (
	"errors"
	"math"
	"testing"

	"shoal/kernel"
	"shoal/kernel/ref"
)

var formats = []Format{Fixed32, Fixed16, Float32, BFloat16}

// in is s with gradients summed as f.
func (s setup) in(f Format) setup {
	s.hyper.Reduce = f
	return s
}

// goldenHash16 and goldenGPTHash16 are goldenHash and goldenGPTHash for gradients in fixed16.
const (
	goldenHash16    = "331a4ed0e103df71006c0c36dc25de3a7c1f58cab7bf70e34c529fb9296ce7d2"
	goldenGPTHash16 = "1790d73a1cf61bd778193281520d68ba2b062730448a96dda5877ab0e7d5f575"
)

// Integers on a coarser grid, rounded at random, still end with the same bits however the run is cut up.
func TestFixed16OneRunOneHash(t *testing.T) {
	for name, m := range map[string]struct {
		setup func(testing.TB) setup
		hash  string
	}{"vit": {base, goldenHash16}, "gpt": {language, goldenGPTHash16}} {
		want := m.setup(t).in(Fixed16).mustRun(t)[0]
		if want.StateHash != m.hash {
			t.Errorf("%s: state hash %s, want %s: a change moved the numbers", name, want.StateHash, m.hash)
		}
		for _, c := range []struct {
			name   string
			change func(*setup)
		}{
			{"on the scalar device", func(s *setup) { s.device = func(testing.TB) kernel.Device { return ref.New() } }},
			{"2 peers", func(s *setup) { s.weights = []int64{1, 1} }},
			{"3 peers", func(s *setup) { s.weights = []int64{1, 1, 1} }},
			{"5 peers", func(s *setup) { s.weights = []int64{1, 1, 1, 1, 1} }},
			{"weights 5,1,1", func(s *setup) { s.weights = []int64{5, 1, 1} }},
			{"zero1", func(s *setup) { s.strategy, s.weights = Zero1, []int64{1, 2} }},
			{"zero2", func(s *setup) { s.strategy, s.weights = Zero2, []int64{1, 2} }},
			{"ddp", func(s *setup) { s.strategy, s.weights = DDP, []int64{1, 1, 1} }},
			{"reshard false, recompute", func(s *setup) { s.keep, s.recompute, s.weights = true, RecomputeAlways, []int64{3, 1, 2} }},
			{"everything in one unit", func(s *setup) {
				wrapped, err := Wrap("layers:9").Apply(s.model)
				if err != nil {
					t.Fatal(err)
				}
				s.model, s.weights = wrapped, []int64{1, 1}
			}},
		} {
			t.Run(name+", "+c.name, func(t *testing.T) {
				t.Parallel()
				s := m.setup(t).in(Fixed16)
				c.change(&s)
				for _, got := range s.mustRun(t) {
					if c.name == "everything in one unit" { // its hash is another tree over the same elements
						want := *want
						want.StateHash, want.StepHashes = got.StateHash, nil
						same(t, &want, got)
						continue
					}
					same(t, want, got)
				}
			})
		}
	}
}

// Each gradient is rounded by random numbers of its own, the same on each try.
func TestRoundingKeys(t *testing.T) {
	seen := map[uint64]string{}
	for _, name := range []string{"a", "b"} {
		for step := range 3 {
			for microbatch := range 3 {
				for stage := range 3 {
					for seed := range uint64(2) {
						key := roundingKey(seed, step, summand{name, 0, stage, microbatch})
						if seen[key] != "" {
							t.Errorf("%s and %s of step %d have one key", seen[key], name, step)
						}
						seen[key] = name
					}
				}
			}
		}
	}
	if len(seen) != 2*3*3*3*2 {
		t.Errorf("%d keys", len(seen))
	}
}

// long is s for as many steps as it takes to learn something.
func (s setup) long() setup {
	s.hyper.Steps, s.hyper.Warmup, s.hyper.HashEvery = 60, 5, 0
	return s
}

// Every format learns as well as fixed32 does, on one member and on three.
func TestFormatsLearn(t *testing.T) {
	for name, make := range map[string]func(testing.TB) setup{"vit": base, "gpt": language} {
		reference := make(t).long().mustRun(t)[0]
		first, want := reference.Losses[0], reference.EvalLoss
		if want > first/2 {
			t.Fatalf("%s: fixed32 went from %v to %v: this shows little", name, first, want)
		}
		for _, f := range formats {
			for _, weights := range [][]int64{{1}, {2, 1, 1}} {
				s := make(t).in(f).long()
				s.weights = weights
				got := s.mustRun(t)[0]
				if math.Abs(got.EvalLoss-want) > 0.05*(first-want) {
					t.Errorf("%s, %s on %d members: held-out loss %v, with fixed32 %v, from %v", name, f, len(weights), got.EvalLoss, want, first)
				}
				if f.Exact() != (got.Retries > 0) {
					t.Errorf("%s, %s: %d retries", name, f, got.Retries)
				}
			}
		}
	}
}

// Sums of floats depend on who adds what: the same mesh gives the same bits however it shards, another mesh nearly the
// same losses.
func TestFloatsDependOnTheMesh(t *testing.T) {
	for _, f := range []Format{Float32, BFloat16} {
		one := base(t).in(f).mustRun(t)[0]
		s := base(t).in(f)
		s.weights = []int64{3, 1, 2}
		three := s.mustRun(t)[0]
		if three.StateHash == one.StateHash {
			t.Errorf("%s: one member and three give the same hash: Exact should say so", f)
		}
		for i := range one.Losses {
			if math.Abs(one.Losses[i]-three.Losses[i]) > 0.01*one.Losses[i] {
				t.Errorf("%s, step %d: loss %v with one member, %v with three", f, i, one.Losses[i], three.Losses[i])
			}
		}
		for _, strategy := range []Strategy{FSDP, Zero2, Zero1, DDP} {
			s.strategy = strategy
			for _, got := range s.mustRun(t) {
				same(t, three, got)
			}
		}
	}
}

// What arrives in any order, in pieces, is added in rank order; nothing stays in memory.
func TestFloatSumsInRankOrder(t *testing.T) {
	sums := [][]float32{{1e8, 1, 0}, {-1e8, 1e-8, 2}, {3, -1, 4}}
	for _, order := range [][]int{{0, 1, 2}, {2, 0, 1}, {1, 2, 0}} {
		var meter kernel.Meter
		f := &float{meter: &meter}
		u := &unit{given: map[int][]byte{}}
		own := make([]int32, 3)
		for _, source := range order {
			b := kernel.Bytes(sums[source])
			f.add(u, own, source, 1, b[4:])
			f.add(u, own, source, 0, b[:4])
		}
		if held := meter.Live(kernel.GradientWork); held != 3*3*4 {
			t.Errorf("%d bytes are counted while 36 are held", held)
		}
		for range 2 {
			f.finish(u, own)
		}
		got := kernel.Floats(kernel.Bytes(own))
		for i := range own {
			if want := sums[0][i] + sums[1][i] + sums[2][i]; got[i] != want {
				t.Errorf("element %d: %v, want %v", i, got[i], want)
			}
		}
		if held := meter.Live(kernel.GradientWork); held != 0 {
			t.Errorf("%d bytes are still held", held)
		}
	}
}

// A step whose gradient is not finite is skipped in every format, also where only the sum is not finite.
func TestNotFiniteInEveryFormat(t *testing.T) {
	nan := float32(math.NaN())
	for _, f := range formats {
		s := oddSetup(t, 5, 7, 40, 10, func(i int) float32 {
			if i == 17 {
				return nan
			}
			return 1
		}).in(f)
		s.hyper.Steps, s.eval, s.weights = 8, nil, []int64{1, 1, 1}
		s.hyper.HashEvery = 1
		res := s.mustRun(t)[0]
		if res.Skipped != 2 { // each epoch has the bad sample once
			t.Errorf("%s: %d steps were skipped, want 2", f, res.Skipped)
		}
		for i, l := range res.Losses[:len(res.Losses)-1] {
			if i == 0 {
				continue
			}
			before, after := res.StepHashes[i-1], res.StepHashes[i]
			if before.Step != i || math.IsNaN(l) != (before.Hash == after.Hash) {
				t.Errorf("%s, step %d: loss %v, but hashes before and after %v, %v", f, i, l, before, after)
			}
		}
		s.train = onehots{40, 5, func(int) float32 { return nan }}
		s.hyper.Steps = 50
		if _, _, err := s.run(t); !errors.Is(err, ErrNotFinite) {
			t.Errorf("%s: a run of NaN gradients ended with %v, want ErrNotFinite", f, err)
		}
	}
	said := &ready{Max: []int16{0, 0}}
	(&float{}).measure(nil, said, []part{{1, []int32{0, int32(math.Float32bits(float32(math.Inf(1))))}}})
	if said.Max[0] != 0 || said.Max[1] != expNotFinite {
		t.Errorf("maxima %v after an infinite sum in tensor 1", said.Max)
	}
}

// Sums that wait for their turn are counted, and gone when the run is over.
func TestFormatMemory(t *testing.T) {
	for _, f := range formats {
		s := base(t).in(f)
		s.weights, s.ahead = []int64{1, 1, 1, 1}, 1
		results, devices, err := s.run(t)
		if err != nil {
			t.Fatal(err)
		}
		l := NewLayout(s.model, nil)
		most := 0
		for _, u := range l.Units {
			most = max(most, u.Len)
		}
		for r, d := range devices {
			// The own sum of a unit and its staging area, for up to 3 units; then the members' sums of the own
			// intervals; and bf16's rounding, half a unit.
			limit := int64(3 * 2 * 4 * most)
			if !f.Exact() {
				limit += int64(4*len(devices)*results[r].Owned + 2*most)
			}
			if peak := d.Meter().Peak(kernel.GradientWork); peak > limit {
				t.Errorf("%s: rank %d held %d bytes of gradient work, want at most %d", f, r, peak, limit)
			}
			if live := d.Meter().Live(kernel.GradientWork); live != 0 {
				t.Errorf("%s: rank %d still holds %d bytes", f, r, live)
			}
		}
	}
}

// What a member says of its squares can't upset the leader: a sum that makes no sense is a step that is skipped.
func TestSquaresThatAreNoNumber(t *testing.T) {
	d := testDecider(t)
	d.Hyper.Reduce = Float32
	for _, square := range []float64{math.NaN(), math.Inf(1), -1} {
		r := goodReady(d)
		r.Square = square
		if o, err := d.decide(nil, []ready{r}); err != nil || !o.Skipped {
			t.Errorf("sum of squares %v: %+v, %v, want a skipped step", square, o, err)
		}
	}
	r := goodReady(d)
	r.Square = 16 * 16 * 4
	if o, err := d.decide(nil, []ready{r}); err != nil || o.Skipped || o.Norm != 2 || o.Scale != 1./32 {
		t.Errorf("norm 2 of 16 samples, clipped to 1: %+v, %v", o, err)
	}
}

func TestFormatIsRefused(t *testing.T) {
	s := base(t).in("int8")
	if _, _, err := s.run(t); err == nil {
		t.Error("gradients summed as int8 were accepted")
	}
}
