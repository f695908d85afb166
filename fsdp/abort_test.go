package fsdp

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"shoal/kernel"
	"shoal/kernel/ref"
)

// TestAbortedAttempts: a thousand attempts that end somewhere in the middle leave nothing behind, on the device or off it.
func TestAbortedAttempts(t *testing.T) {
	want := base(t).mustRun(t)[0]
	for name, change := range map[string]func(s *setup){
		"fsdp": func(s *setup) {},
		"fp32": func(s *setup) { s.hyper.Reduce = Float32 },
	} {
		attempts := map[string]int{"fsdp": 1000, "fp32": 200}[name]
		t.Run(name, func(t *testing.T) {
			d := &drama{setup: stage(t), fillRanges: 1}
			change(&d.setup)
			var mu sync.Mutex
			count, at := 0, 0
			var first, last runtime.MemStats
			var live [2][kernel.NumClasses]int64
			goroutines := [2]int{}
			look := func(i int, m *runtime.MemStats) {
				runtime.GC()
				runtime.ReadMemStats(m)
				goroutines[i] = runtime.NumGoroutine()
				for c := range kernel.NumClasses {
					live[i][c] = d.meter().Live(c)
				}
			}
			d.at = func(d *drama, member int, p Point) {
				if p.Step != 3 || member != 0 {
					return
				}
				if p.Phase == PhaseGather && p.Unit == 0 { // an attempt begins: nothing of it is here yet
					switch count {
					case 100:
						look(0, &first)
					case attempts:
						look(1, &last)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				if at--; at < 0 && count < attempts {
					count++
					at = count * 7 % 15 // another point each time
					d.mesh.Late(slices.Repeat([]int64{10}, 3))
				}
			}
			d.play(t)
			if count != attempts {
				t.Fatalf("%d attempts were aborted, want %d", count, attempts)
			}
			if name == "fsdp" {
				d.ends(want, 0, 1, 2)
			}
			for _, c := range []kernel.Class{kernel.Parameters, kernel.Gradients, kernel.Optimizer, kernel.Backups, kernel.Activations, kernel.GradientWork} {
				if live[0][c] != live[1][c] {
					t.Errorf("%v: %d bytes after 100 aborted attempts, %d after %d", c, live[0][c], live[1][c], attempts)
				}
			}
			if grown := int64(last.HeapAlloc) - int64(first.HeapAlloc); grown > 1<<20 {
				t.Errorf("the heap grew by %d bytes in %d aborted attempts", grown, attempts-100)
			}
			if grown := goroutines[1] - goroutines[0]; grown > 30 {
				t.Errorf("%d goroutines after %d aborted attempts, %d after 100", goroutines[1], attempts, goroutines[0])
			}
		})
	}
}

// meter is member 0's.
func (d *drama) meter() *kernel.Meter {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.devices[0].Meter()
}

// TestMissedEntries: a member that wakes after the others have committed its step, and gone on without somebody, applies
// that commit first, with what it was filled with.
func TestMissedEntries(t *testing.T) {
	for _, strategy := range []Strategy{FSDP, Zero2, DDP} {
		d := &drama{setup: stage(t), fillRanges: 60}
		d.strategy, d.weights = strategy, []int64{1, 1, 1, 1}
		d.hyper.Steps = 10
		alone := d.setup
		alone.weights, alone.change, alone.strategy = []int64{1}, nil, FSDP
		want := alone.mustRun(t)[0]
		d.change = func(member int, c *Config) {
			if member == 1 {
				c.Comm = &sleeper{Comm: c.Comm, d: d, step: 4}
			}
		}
		d.at = func(d *drama, member int, p Point) {
			if p.Step == 3 && p.Phase == PhaseForward && d.first("join") {
				d.join(4)
			}
		}
		d.play(t)
		if d.first("slept") {
			t.Errorf("%s: member 1 never slept", strategy)
		}
		d.ends(want, 0, 1, 2, 4)
	}
}

// sleeper is a Comm that sleeps through the entry that commits a step: it sees the log again once a member was lost after
// it.
type sleeper struct {
	Comm
	d    *drama
	step int
}

func (s *sleeper) Next(ctx context.Context) (Entry, error) {
	e, err := s.Comm.Next(ctx)
	if err != nil || e.Kind != EntryCommit {
		return e, err
	}
	if o, err := DecodeOutcome(e.Payload); err == nil && o.Step == s.step && s.d.first("slept") {
		s.d.mesh.Kill(3)
		e, err := s.Comm.Next(ctx)
		if err == nil && e.Kind != EntryView {
			err = fmt.Errorf("there was no view: kind %d", e.Kind)
		}
		return e, err
	}
	return e, err
}

// TestHolds: what members hold, as its classes and bytes, is what the placement says, also after views have changed.
func TestHolds(t *testing.T) {
	for _, strategy := range []Strategy{FSDP, Zero1, Zero2, DDP} {
		d := &drama{setup: stage(t), fillRanges: 60}
		d.strategy, d.frozen = strategy, freezeBlocks
		d.hyper.Steps = 10
		d.at = func(d *drama, member int, p Point) {
			if p.Step == 1 && p.Phase == PhaseForward && d.first("join") {
				d.join(3)
			}
			if p.Step == 5 && p.Phase == PhaseBackward && member == 1 {
				d.die(member)
			}
		}
		d.play(t)
		for member, res := range d.results {
			start := d.mesh.entry(d.mesh.newest(), member)
			rest, _ := Need(&Config{Model: d.model, Start: start, Strategy: strategy, ParamType: d.params, Frozen: d.frozen})
			if got := res.ParameterBytes + res.GradientBytes + res.OptimizerBytes + res.BackupBytes; got != rest {
				t.Errorf("%s: member %d: %d bytes at rest, the placement needs %d", strategy, member, got, rest)
			}
		}
	}
}

// TestCheckpointInAnotherView: a checkpoint that is due when a member dies is saved again by those who go on.
func TestCheckpointInAnotherView(t *testing.T) {
	want := base(t).mustRun(t)[0]
	for _, phase := range []string{PhaseCheckpoint, PhaseGather, PhaseBackward} {
		kept := newMemory()
		d := &drama{setup: stage(t)}
		d.change = func(_ int, c *Config) { c.Saver, c.SaveEvery = kept, 2 }
		d.at = func(d *drama, member int, p Point) {
			if member == 1 && p.Step == 4 && p.Phase == phase {
				d.die(member)
			}
		}
		d.play(t)
		d.ends(want, 0, 2)
		got := kept.finished[4]
		if got == nil || got.Failed != "" || len(got.Files) != 2 {
			t.Fatalf("%s: the checkpoint of step 4 is %+v, want one of two members", phase, got)
		}
		s := base(t)
		s.weights, s.backups = []int64{1, 1, 1}, 1
		for _, res := range s.from(kept.resume(4)).mustRun(t) {
			same(t, want, res)
		}
	}
}

// TestAudit: a holder whose numbers differ is named, and the run ends.
func TestAudit(t *testing.T) {
	for _, c := range []struct {
		backups int
		change  func(e *Engine)
		want    []string
	}{
		{2, func(e *Engine) { spoil(e, e.units[1].own.v) }, []string{"differ", "rank 0 and 2 against rank 1", "rank 1 computes wrongly", "unit blocks.0"}},
		{2, func(e *Engine) { spoil(e, e.units[1].backup.m) }, []string{"differ", "rank 1 computes wrongly"}},
		{1, func(e *Engine) { spoil(e, e.units[1].own.p) }, []string{"differ", " against rank "}},
	} {
		s := base(t)
		s.weights, s.backups = []int64{1, 1, 1}, c.backups
		s.change = func(_ int, cfg *Config) { cfg.AuditEvery = 2 }
		s.started = func(e *Engine) {
			if e.rank == 1 {
				c.change(e)
			}
		}
		_, _, err := s.run(t)
		for _, text := range c.want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%d backups: %v, want an error with %q", c.backups, err, text)
			}
		}
	}
	kept := newMemory() // without audits of their own, checkpoints are audited
	s := base(t)
	s.weights, s.backups = []int64{1, 1}, 1
	s = s.saving(kept, 2)
	s.started = func(e *Engine) {
		if e.rank == 1 {
			spoil(e, e.units[2].backup.v)
		}
	}
	if _, _, err := s.run(t); err == nil || len(kept.finished) > 0 {
		t.Errorf("a checkpoint of members that differ: %v, %v", kept.finished, err)
	}
}

// spoil changes one number.
func spoil(e *Engine, b kernel.Buffer) {
	one := []float32{1}
	e.dev.Upload(b.Slice(b.Len/2, 1), kernel.Bytes(one))
}

// TestCosts: what a microbatch costs follows what members say, quickly when it rises.
func TestCosts(t *testing.T) {
	d := testDecider(t)
	for _, c := range []struct{ was, says, want int64 }{
		{0, 0, 0}, {0, 100, 100}, {100, 100, 100}, {100, 60, 90}, {100, 140, 110}, {100, 300, 300}, {100, 900, 400}, {100, 51, 87}, {100, 49, 49}, {100, 0, 100},
		{0, 9000, 2000},
		{100_000, 900_000, 900_000}, // a trial
		{NoWork, 0, 7 * 500}, {NoWork, 50, 50}, {100, -5, 100}, {maxCost, 1 << 62, maxCost},
	} {
		got := d.work(0, []int64{c.was, 500}, []ready{{Cost: c.says}, {Cost: 500}})
		if got[0] != c.want || got[1] != 500 {
			t.Errorf("was %d, says %d: %v, want %d", c.was, c.says, got, c.want)
		}
	}
	if got := d.work(0, nil, []ready{{Cost: 3}, {}}); !slices.Equal(got, []int64{3, 0}) {
		t.Errorf("nothing known before: %v", got)
	}
	d.Hyper.Reduce = Float32
	if got := d.work(0, []int64{1, 1}, []ready{{Cost: 30}, {Cost: 4000}}); !slices.Equal(got, []int64{1, 1}) {
		t.Errorf("in fp32 who computes what must not depend on time: %v", got)
	}
}

// deals plays so many steps of m microbatches among members of the given costs in each step, and says how long all of them
// take and how many each member computes.
func deals(d *Decider, steps, m int, cost func(step int) []int64) (total int64, done []int) {
	d.Hyper.Batch, d.Hyper.Microbatch = m, 1
	done = make([]int, len(cost(0)))
	var work []int64
	for step := range steps {
		members, end := make([]ready, len(done)), int64(0)
		for r, s := range Deal(step, m, append(work, make([]int64, len(done)-len(work))...)) {
			if n := s.Last - s.First; n > 0 {
				members[r].Cost = cost(step)[r]
				end = max(end, int64(n)*members[r].Cost)
				done[r] += n
			}
		}
		total += end
		work = d.work(step, work, members)
	}
	return total, done
}

// TestSlowMembers: those that are much slower cost the others little over many steps, however slow they are, also while
// it is found out.
func TestSlowMembers(t *testing.T) {
	const steps = 1000
	d := testDecider(t)
	for _, m := range []int{2, 4, 8, 32} {
		for _, factor := range []int64{2, 5, 10, 100} {
			for _, slow := range [][]int64{{factor}, {factor, 2 * factor}} {
				all := append([]int64{1000, 1000, 1000, 1000}, slow...)
				for i := range slow {
					all[4+i] *= 1000
				}
				total, _ := deals(d, steps, m, func(int) []int64 { return all })
				least := steps * finish(m, all[:4])
				first := int64(m/len(all)+2) * all[len(all)-1] * int64(len(slow)) // until it is known how slow they are
				if (total-first)*20 > least*21 {
					t.Errorf("%d microbatches, costs %v: %d steps take %d, without the slow ones %d: more than a twentieth longer", m, all, steps, total, least)
				}
			}
		}
	}
}

// TestSlowForAWhile: a member that is slow for some steps, or for one, gets as much as the others soon after.
func TestSlowForAWhile(t *testing.T) {
	d := testDecider(t)
	for _, c := range []struct{ slow, steps, least, most int }{ // slow for so many steps from step 100 on; of those that follow
		{100, 600, 900, 1200}, // twice as many when it is found out as it was slow
		{1, 300, 500, 600},
	} {
		cost := func(step int) []int64 {
			if step >= 100 && step < 100+c.slow {
				return []int64{1000, 1000, 1000, 10000}
			}
			return []int64{1000, 1000, 1000, 1000}
		}
		_, before := deals(d, 100+c.slow, 8, cost)
		_, after := deals(d, 100+c.slow+c.steps, 8, cost)
		if n := after[3] - before[3]; n < c.least || n > c.most {
			t.Errorf("slow for %d steps, it computed %d microbatches in the next %d, want %d to %d", c.slow, n, c.steps, c.least, c.most)
		}
	}
}

// TestTrials: who is too slow is tried all the same, each one in its turn, and not in the first steps.
func TestTrials(t *testing.T) {
	work := []int64{1000, 30000, 40000, 50000, 60000}
	var got [5]int
	for step := range 20000 {
		for r, s := range Deal(step, 4, work) {
			if got[r] += s.Last - s.First; r > 0 && step < trialLeast-1 && s.Last > s.First {
				t.Errorf("rank %d is tried in step %d", r, step)
			}
		}
	}
	for r, n := range got {
		if r > 0 && n < 15 {
			t.Errorf("rank %d was tried %d times: %v", r, n, got)
		}
	}
}

// TestLateJoinerHoldsNothing: who joins a run that is under way can't hold anything yet.
func TestLateJoinerHoldsNothing(t *testing.T) {
	s := base(t)
	mesh := s.mesh(nil)
	cfg := s.config(mesh, 0, func(int) []int { return []int{0} })
	cfg.Device = ref.New()
	var err error
	if cfg.Start, err = mesh.Enter(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	d := testDecider(t)
	prev := committed(t, d)
	cfg.Start.Payload = prev
	if _, err := NewEngine(cfg); err == nil || !strings.Contains(err.Error(), "holds a part of unit") {
		t.Errorf("%v, want an error", err)
	}
	cfg.Start.View = &View{Rank: -1, Size: 1}
	if _, err := NewEngine(cfg); err == nil {
		t.Error("a member that is in no view was started")
	}
}

// committed is the payload of a first step's Commit.
func committed(t *testing.T, d *Decider) []byte {
	t.Helper()
	b, err := cbor.Marshal(&Outcome{Kind: EntryCommit, Used: make([]int16, len(d.Layout.Tensors)), Next: make([]int16, len(d.Layout.Tensors)), Updates: 1})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// An attempt is over as soon as Comm says so, not a moment later: what fails in between, as samples that nobody waits for any
// more, must not end the run.
func TestAttemptIsOverAtOnce(t *testing.T) {
	why := errors.New("the log says so")
	until, end := context.WithCancelCause(t.Context())
	a := &attempt{ctx: t.Context(), until: until}
	if err := a.check(); err != nil {
		t.Fatal(err)
	}
	end(why)
	if err := a.check(); !errors.Is(err, why) || !errors.As(err, &interrupted{}) {
		t.Errorf("check returns %v", err)
	}
}
