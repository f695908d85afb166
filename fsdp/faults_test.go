package fsdp

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"shoal/kernel"
)

// drama is a run in which members vanish, come and go at chosen points.
type drama struct {
	setup
	at         func(d *drama, member int, p Point) // called by the member's goroutine
	fillRanges int

	t     *testing.T
	mesh  *LocalMesh
	order func(int) []int
	wg    sync.WaitGroup

	mu      sync.Mutex
	results map[int]*Result
	devices map[int]kernel.Device
	errs    map[int]error
	once    map[string]bool
}

// play runs it and returns the results of those who were there at the end.
func (d *drama) play(t *testing.T) map[int]*Result {
	t.Helper()
	d.t, d.order = t, d.sequence()
	d.mesh = d.setup.mesh(d.order)
	d.mesh.FillRanges = d.fillRanges
	d.results, d.devices, d.errs, d.once = map[int]*Result{}, map[int]kernel.Device{}, map[int]error{}, map[string]bool{}
	for r := range d.weights {
		d.live(r)
	}
	d.wg.Wait()
	for member, err := range d.errs {
		if !errors.Is(err, ErrLeft) {
			t.Errorf("member %d: %v", member, err)
		}
	}
	return d.results
}

// live is one member's life.
func (d *drama) live(member int) {
	dev := fast(d.t)
	d.mu.Lock()
	d.devices[member] = dev
	d.mu.Unlock()
	d.wg.Go(func() {
		res, err := d.train(member, dev)
		if errors.Is(err, errDead) {
			return
		}
		if err != nil && !errors.Is(err, ErrLeft) {
			d.mesh.Fail(err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if err != nil {
			d.errs[member] = err
			return
		}
		d.results[member] = res
	})
}

func (d *drama) train(member int, dev kernel.Device) (*Result, error) {
	ctx := context.Background()
	cfg := d.config(d.mesh, member, d.order)
	cfg.Device = dev
	cfg.At = func(p Point) { d.at(d, member, p) }
	var err error
	if cfg.Start, err = d.mesh.Enter(ctx, member); err != nil {
		return nil, err
	}
	if cfg.Start.Payload != nil { // what a newcomer is told
		last, err := DecodeOutcome(cfg.Start.Payload)
		if err != nil {
			return nil, err
		}
		cfg.Losses = make([]float64, last.Step+1)
	}
	cfg.Start.View.Exporting = d.exporting
	if d.change != nil {
		d.change(member, &cfg)
	}
	e, err := NewEngine(cfg)
	if err != nil {
		return nil, err
	}
	return e.Run(ctx)
}

// first says whether this is the first time that something happens.
func (d *drama) first(what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.once[what]
	d.once[what] = true
	return !was
}

// die ends the member that calls it, here and now.
func (d *drama) die(member int) {
	d.mesh.Kill(member)
	runtime.Goexit()
}

// join lets a newcomer in.
func (d *drama) join(member int) {
	d.mesh.Join(member, 1)
	d.live(member)
}

// ends fails unless those members that are there at the end have the undisturbed run's result.
func (d *drama) ends(want *Result, members ...int) {
	d.t.Helper()
	if len(d.results) != len(members) {
		d.t.Errorf("%d members are there at the end, want %v", len(d.results), members)
	}
	for _, i := range members {
		got := d.results[i]
		if got == nil {
			d.t.Errorf("member %d has no result", i)
			continue
		}
		if got.StateHash != want.StateHash || got.EvalLoss != want.EvalLoss || got.Correct != want.Correct || got.RunSamples != want.RunSamples {
			d.t.Errorf("member %d: hash %s, evaluation %v, %d, %d samples; want %s, %v, %d, %d", i, got.StateHash, got.EvalLoss, got.Correct, got.RunSamples,
				want.StateHash, want.EvalLoss, want.Correct, want.RunSamples)
		}
		missed := int64(0)
		for step := range d.hyper.Steps - got.Steps - 1 {
			missed += int64(len(d.order(step)))
		}
		if got.Missed != missed {
			d.t.Errorf("member %d missed %d samples, want %d", i, got.Missed, missed)
		}
		n := min(3, len(want.Losses)) // of the last steps, which newcomers know too
		for k := len(want.Losses) - n; k < len(want.Losses); k++ {
			if k >= len(got.Losses) || got.Losses[k] != want.Losses[k] {
				d.t.Errorf("member %d: losses %v, want %v", i, got.Losses, want.Losses)
				break
			}
		}
		m := d.devices[i].Meter()
		for _, c := range []kernel.Class{kernel.Gathered, kernel.GradientWork, kernel.Activations, kernel.Other} {
			if live := m.Live(c); live != 0 {
				d.t.Errorf("member %d still holds %d bytes of %v", i, live, c)
			}
		}
	}
}

// stage is a run of 3 members with backups that saves and audits.
func stage(t *testing.T) setup {
	s := base(t)
	s.weights, s.backups = []int64{1, 1, 1}, 1
	kept := newMemory()
	s.change = func(_ int, c *Config) { c.Saver, c.SaveEvery, c.AuditEvery = kept, 2, 3 }
	return s
}

var phases = []string{PhaseGather, PhaseForward, PhaseBackward, PhaseReduce, PhaseReady, PhaseCommit, PhaseUpdate, PhaseCheckpoint}

// TestDeaths: each member dies in each phase, and the others end as the undisturbed run does.
func TestDeaths(t *testing.T) {
	want := base(t).mustRun(t)[0]
	for _, phase := range phases {
		for victim := range 3 {
			for _, step := range []int{0, 2} {
				t.Run(fmt.Sprintf("%s, member %d, step %d", phase, victim, step), func(t *testing.T) {
					t.Parallel()
					if phase == PhaseCheckpoint && step == 0 {
						step = 4
					}
					d := &drama{setup: stage(t)}
					d.at = func(d *drama, member int, p Point) {
						if member == victim && p.Step == step && p.Phase == phase && p.Unit != 0 {
							d.die(member)
						}
					}
					d.play(t)
					var left []int
					for i := range 3 {
						if i != victim {
							left = append(left, i)
						}
					}
					d.ends(want, left...)
				})
			}
		}
	}
}

// TestDeathsUnderEachStrategy: the same with whole copies, frozen parameters, other units, other formats, odd shapes.
func TestDeathsUnderEachStrategy(t *testing.T) {
	for name, change := range map[string]func(s *setup){
		"zero1":             func(s *setup) { s.strategy = Zero1 },
		"zero2":             func(s *setup) { s.strategy = Zero2 },
		"ddp":               func(s *setup) { s.strategy = DDP },
		"reshard false":     func(s *setup) { s.keep = true },
		"frozen":            func(s *setup) { s.frozen = freezeBlocks },
		"fp32 parameters":   func(s *setup) { s.params = kernel.F32 },
		"fixed16":           func(s *setup) { s.hyper.Reduce = Fixed16 },
		"recompute":         func(s *setup) { s.recompute = RecomputeAlways },
		"uneven":            func(s *setup) { s.weights = []int64{5, 1, 2} },
		"joined units":      func(s *setup) { s.model, _ = Wrap("layers:2").Apply(s.model) },
		"tiny and odd":      func(s *setup) { odd(s, 5, 7) },
		"several odd leafs": func(s *setup) { odd(s, 33, 17) },
	} {
		for _, phase := range []string{PhaseGather, PhaseBackward, PhaseReady, PhaseUpdate} {
			t.Run(name+", "+phase, func(t *testing.T) {
				t.Parallel()
				d := &drama{setup: stage(t)}
				change(&d.setup)
				alone := d.setup
				alone.weights, alone.change = []int64{1}, nil
				want := alone.mustRun(t)[0]
				d.at = func(d *drama, member int, p Point) {
					if member == 1 && p.Step == 2 && p.Phase == phase {
						d.die(member)
					}
				}
				d.play(t)
				d.ends(want, 0, 2)
			})
		}
	}
}

// odd is the model of odd shapes.
func odd(s *setup, in, mid int) {
	s.model, s.train, s.eval = tied{in, mid}, onehots{20, in, one}, onehots{3, in, one}
	s.hyper.Batch, s.hyper.Microbatch = 6, 2
}

// TestTwoDieAtOnce: with two backups any two may die at any two moments.
func TestTwoDieAtOnce(t *testing.T) {
	want := base(t).mustRun(t)[0]
	for _, first := range phases[:7] {
		for _, pair := range [][2]int{{0, 1}, {1, 4}, {2, 3}} {
			t.Run(fmt.Sprint(first, pair), func(t *testing.T) {
				t.Parallel()
				d := &drama{setup: stage(t)}
				d.weights, d.backups = []int64{1, 1, 1, 1, 1}, 2
				d.at = func(d *drama, member int, p Point) {
					if member == pair[0] && p.Step == 2 && p.Phase == first {
						d.mesh.Kill(pair[1])
						d.die(member)
					}
				}
				d.play(t)
				var left []int
				for i := range 5 {
					if i != pair[0] && i != pair[1] {
						left = append(left, i)
					}
				}
				d.ends(want, left...)
			})
		}
	}
}

// TestOneAfterTheOther: redundancy is restored by fills, so that one member after the other may die.
func TestOneAfterTheOther(t *testing.T) {
	s := stage(t)
	s.hyper.Steps = 12
	alone := s
	alone.weights, alone.change = []int64{1}, nil
	want := alone.mustRun(t)[0]
	for _, phase := range phases {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			d := &drama{setup: stage(t), fillRanges: 40}
			d.hyper.Steps, d.weights = 12, []int64{1, 1, 1, 1}
			d.at = func(d *drama, member int, p Point) {
				if p.Step == 2+4*member && p.Phase == phase { // 2, 6, 10
					d.die(member)
				}
			}
			d.play(t)
			d.ends(want, 3)
		})
	}
}

// TestJoin: a newcomer gets work at once, is filled while training goes on, and becomes an owner.
func TestJoin(t *testing.T) {
	for name, change := range map[string]func(s *setup){
		"fsdp":           func(s *setup) {},
		"to one":         func(s *setup) { s.weights, s.backups = []int64{1}, 0 },
		"to one, 1":      func(s *setup) { s.weights = []int64{1} },
		"ddp":            func(s *setup) { s.strategy = DDP },
		"zero1":          func(s *setup) { s.strategy = Zero1 },
		"zero2, frozen":  func(s *setup) { s.strategy, s.frozen = Zero2, freezeBlocks },
		"fixed16":        func(s *setup) { s.hyper.Reduce = Fixed16 },
		"tiny and odd":   func(s *setup) { odd(s, 5, 7) },
		"no backups":     func(s *setup) { s.backups = 0 },
		"two backups":    func(s *setup) { s.backups = 2 },
		"joined units":   func(s *setup) { s.model, _ = Wrap("layers:2").Apply(s.model) },
		"fp32 and whole": func(s *setup) { s.params, s.keep = kernel.F32, true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &drama{setup: stage(t), fillRanges: 60}
			d.hyper.Steps = 10
			change(&d.setup)
			alone := d.setup
			alone.weights, alone.change = []int64{1}, nil
			want := alone.mustRun(t)[0]
			members := make([]int, len(d.weights)+1)
			for i := range members {
				members[i] = i
			}
			d.at = func(d *drama, member int, p Point) {
				if p.Step == 1 && p.Phase == PhaseForward && d.first("join") {
					d.join(len(d.weights))
				}
			}
			d.play(t)
			d.ends(want, members...)
			if t.Failed() {
				return
			}
			last := d.results[len(d.weights)]
			if name != "tiny and odd" && last.Owned == 0 {
				t.Error("the newcomer owns nothing at the end")
			}
			if last.Samples == 0 || len(last.Views) == 0 || last.Views[0].Step != 2 {
				t.Errorf("the newcomer computed %d samples, its views are %v", last.Samples, last.Views)
			}
			var sum int64
			for _, i := range members {
				sum += d.results[i].Samples
			}
			if sum != want.Samples {
				t.Errorf("%d samples, want %d", sum, want.Samples)
			}
		})
	}
}

// TestDeathsWhileFilling: donor, receiver or somebody else dies while a newcomer is filled.
func TestDeathsWhileFilling(t *testing.T) {
	s := stage(t)
	s.hyper.Steps = 8
	alone := s
	alone.weights, alone.change = []int64{1}, nil
	want := alone.mustRun(t)[0]
	for _, phase := range []string{PhaseFill, PhaseGather, PhaseBackward, PhaseReduce, PhaseReady, PhaseCommit, PhaseUpdate} {
		for victim := range 4 {
			for _, step := range []int{2, 4} {
				t.Run(fmt.Sprintf("%s, member %d, step %d", phase, victim, step), func(t *testing.T) {
					t.Parallel()
					d := &drama{setup: stage(t), fillRanges: 3}
					d.hyper.Steps = 8
					d.at = func(d *drama, member int, p Point) {
						if p.Step == 1 && p.Phase == PhaseForward && d.first("join") {
							d.join(3)
						}
						if member == victim && p.Step >= step && p.Phase == phase && d.first("die") {
							d.die(member)
						}
					}
					d.play(t)
					var left []int
					for i := range 4 {
						if i != victim {
							left = append(left, i)
						}
					}
					d.ends(want, left...)
				})
			}
		}
	}
}

// TestLeave: who leaves politely gives away what it holds, without any attempt being tried again.
func TestLeave(t *testing.T) {
	for leaver := range 3 {
		d := &drama{setup: stage(t), fillRanges: 60}
		d.hyper.Steps = 10
		alone := d.setup
		alone.weights, alone.change = []int64{1}, nil
		want := alone.mustRun(t)[0]
		d.at = func(d *drama, member int, p Point) {
			if p.Step == 2 && d.first("leave") {
				d.mesh.Leave(leaver)
			}
		}
		d.play(t)
		if !errors.Is(d.errs[leaver], ErrLeft) {
			t.Errorf("member %d: %v, want ErrLeft", leaver, d.errs[leaver])
		}
		var left []int
		for i := range 3 {
			if i != leaver {
				left = append(left, i)
			}
		}
		d.ends(want, left...)
		for _, e := range d.mesh.log[1:] {
			if e.Kind == EntryView {
				t.Errorf("entry %d ends an attempt for a view", e.Fence)
			}
		}
	}
}

// TestExpelled: who is thrown out though it lives sees so, and the others go on.
func TestExpelled(t *testing.T) {
	want := base(t).mustRun(t)[0]
	for _, phase := range phases[:6] {
		d := &drama{setup: stage(t)}
		d.at = func(d *drama, member int, p Point) {
			if member == 2 && p.Step == 3 && p.Phase == phase && d.first("expel") {
				d.mesh.Expel(1)
			}
		}
		d.play(t)
		if !errors.Is(d.errs[1], ErrLeft) {
			t.Errorf("%s: %v, want ErrLeft", phase, d.errs[1])
		}
		d.ends(want, 0, 2)
	}
}

// TestLate: an attempt that takes too long is tried again with the work dealt otherwise, wherever its members are.
func TestLate(t *testing.T) {
	want := base(t).mustRun(t)[0]
	for _, strategy := range []Strategy{FSDP, Zero2, DDP} {
		for _, phase := range phases[:5] {
			d := &drama{setup: stage(t)}
			d.strategy = strategy
			d.at = func(d *drama, member int, p Point) {
				if member == 0 && p.Step%2 == 1 && p.Phase == phase && p.Unit != 0 && d.first(fmt.Sprint(p.Step)) {
					d.mesh.Late([]int64{10, NoWork, 10})
				}
			}
			d.play(t)
			d.ends(want, 0, 1, 2)
		}
	}
}

// TestDeathInTheEvaluation: also after the last step nothing is lost.
func TestDeathInTheEvaluation(t *testing.T) {
	want := base(t).mustRun(t)[0]
	for _, phase := range []string{PhaseEvaluate, PhaseGather, PhaseForward, PhaseReady} {
		d := &drama{setup: stage(t)}
		d.exporting = true
		d.at = func(d *drama, member int, p Point) {
			if member == 1 && p.Step == d.hyper.Steps && p.Phase == phase {
				d.die(member)
			}
		}
		d.play(t)
		d.ends(want, 0, 2)
		if rows := d.results[0].MemberRows; len(rows) != 2 || rows[0][0] != 0 || rows[1][0] != 2 {
			t.Errorf("%s: rows %v", phase, rows)
		}
	}
}

// trimmed counts its Trims.
type trimmed struct {
	kernel.Device
	times int
}

func (d *trimmed) Trim() {
	d.times++
	d.Device.Trim()
}

// TestTrimsAfterAView: each view cuts the shards anew, so memory that is kept for lengths of the one before would only grow.
func TestTrimsAfterAView(t *testing.T) {
	d := &drama{setup: stage(t), fillRanges: 3}
	d.hyper.Steps = 8
	var dev *trimmed
	d.change = func(member int, cfg *Config) {
		if member == 0 {
			dev = &trimmed{Device: cfg.Device}
			cfg.Device = dev
		}
	}
	d.at = func(d *drama, member int, p Point) {
		if p.Step == 1 && p.Phase == PhaseForward && d.first("join") {
			d.join(3)
		}
		if member == 1 && p.Step >= 5 && p.Phase == PhaseForward && d.first("die") {
			d.die(member)
		}
	}
	d.play(t)
	if later := len(d.results[0].Views) - 1; later < 2 || dev.times < later {
		t.Errorf("%d times in %d views after the first", dev.times, later)
	}
}
