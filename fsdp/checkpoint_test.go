package fsdp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"shoal/kernel"
)

// memory keeps checkpoints of all members, by step.
type memory struct {
	mu       sync.Mutex
	values   map[int]map[string][]float32 // by step, then State and tensor
	losses   map[int][]float64
	hashes   map[int][]StepHash
	finished map[int]*Saved
	fails    func(p *Part) error // nil: never
	forget   bool                // keeps no values
}

func newMemory() *memory {
	return &memory{values: map[int]map[string][]float32{}, losses: map[int][]float64{}, hashes: map[int][]StepHash{}, finished: map[int]*Saved{}}
}

func (m *memory) Save(p *Part) ([]SavedFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails != nil {
		if err := m.fails(p); err != nil {
			return nil, err
		}
	}
	if m.values[p.Step] == nil {
		m.values[p.Step] = map[string][]float32{}
	}
	for i := range p.Units {
		u := &p.Units[i]
		for j, piece := range u.Pieces {
			for s := Params; s <= AdamV; s++ {
				if piece.Frozen && s != Params {
					continue
				}
				err := u.Values(j, s, func(first int, data []byte) error {
					if !m.forget {
						m.keep(p.Step, fmt.Sprint(s, piece.Name), first, kernel.Floats(data))
					}
					return nil
				})
				if err != nil {
					return nil, err
				}
			}
		}
	}
	m.losses[p.Step], m.hashes[p.Step] = slices.Clone(p.Losses), slices.Clone(p.StepHashes)
	return []SavedFile{{Name: fmt.Sprint(p.Rank)}}, nil
}

func (m *memory) keep(step int, key string, first int, v []float32) {
	list := m.values[step][key]
	for len(list) < first+len(v) {
		list = append(list, -12345) // of nobody
	}
	copy(list[first:], v)
	m.values[step][key] = list
}

func (m *memory) Finish(s *Saved) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finished[s.Position.Step] = s
}

func (m *memory) resume(step int) *Resume {
	return &Resume{Position: m.finished[step].Position, Losses: m.losses[step], StepHashes: m.hashes[step],
		Read: func(s State, name string, first int, dst []float32) error {
			have := m.values[step][fmt.Sprint(s, name)]
			if first+len(dst) > len(have) {
				return errors.New("there is no such element")
			}
			copy(dst, have[first:])
			return nil
		}}
}

// saving has all members save every so many steps.
func (s setup) saving(m *memory, every int) setup {
	s.change = func(_ int, c *Config) { c.Saver, c.SaveEvery = m, every }
	return s
}

// from has all members go on from r.
func (s setup) from(r *Resume) setup {
	s.start = &r.Position
	s.change = func(_ int, c *Config) { c.Resume = r }
	return s
}

// TestResume: whoever goes on, and from whatever mesh, with whatever strategy, ends as the run that was never interrupted.
func TestResume(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		whole := base(t)
		if frozen {
			whole.frozen = freezeBlocks
		}
		want := whole.mustRun(t)[0]
		for _, from := range []struct {
			weights  []int64
			strategy Strategy
		}{{[]int64{1}, FSDP}, {[]int64{3, 1, 2, 1}, FSDP}, {[]int64{1, 1, 1}, DDP}, {[]int64{2, 1}, Zero2}} {
			kept := newMemory()
			s := whole
			s.weights, s.strategy = from.weights, from.strategy
			for _, got := range s.saving(kept, 2).mustRun(t) {
				same(t, want, got) // saving changes nothing
				if len(got.StepHashes) != len(want.StepHashes) {
					t.Errorf("saving adds step hashes: %v, want %v", got.StepHashes, want.StepHashes)
				}
			}
			if len(kept.finished) != 3 {
				t.Fatalf("%d checkpoints, want those of steps 2, 4 and 6", len(kept.finished))
			}
			for _, to := range []struct {
				step     int
				weights  []int64
				strategy Strategy
			}{{2, []int64{1}, FSDP}, {4, []int64{1, 1, 1}, FSDP}, {2, []int64{1, 5, 1, 1, 1, 1, 1}, FSDP}, {4, []int64{1, 2}, Zero1}, {4, []int64{2, 1}, Zero2}, {2, []int64{1, 1}, DDP}, {6, []int64{1, 1}, FSDP}} {
				t.Run(fmt.Sprintf("frozen %v, %v %v, step %d, %v %v", frozen, from.strategy, from.weights, to.step, to.strategy, to.weights), func(t *testing.T) {
					s := whole
					s.weights, s.strategy = to.weights, to.strategy
					if to.step == 4 { // other units
						var err error
						if s.model, err = Wrap("layers:2").Apply(s.model); err != nil {
							t.Fatal(err)
						}
					}
					for _, got := range s.from(kept.resume(to.step)).mustRun(t) {
						same(t, want, got)
						if !slices.Equal(got.StepHashes, want.StepHashes) {
							t.Errorf("step hashes %v, want %v", got.StepHashes, want.StepHashes)
						}
						if got.Retries > 0 {
							t.Errorf("%d retries: the exponents are not those of the checkpoint", got.Retries)
						}
					}
				})
			}
		}
	}
}

// TestSavedByBackups: members that keep no files own as much as others, and backups save it for them. Where no holder of
// something keeps files, the checkpoint is abandoned.
func TestSavedByBackups(t *testing.T) {
	want := base(t).mustRun(t)[0]
	for _, c := range []struct {
		weights  []int64
		backups  int
		strategy Strategy
		noFiles  []int
	}{{[]int64{1, 1, 1}, 1, FSDP, []int{1}}, {[]int64{3, 1, 2, 1}, 2, FSDP, []int{0, 2}}, {[]int64{1, 1, 1}, 0, DDP, []int{0, 1}}} {
		kept := newMemory()
		s := base(t)
		s.weights, s.backups, s.strategy, s.noFiles = c.weights, c.backups, c.strategy, c.noFiles
		s.change = func(r int, cfg *Config) {
			if cfg.SaveEvery = 2; !slices.Contains(c.noFiles, r) {
				cfg.Saver = kept
			}
		}
		for _, got := range s.mustRun(t) {
			same(t, want, got)
		}
		if f := kept.finished[4]; f == nil || f.Failed != "" || len(f.Files) == 0 {
			t.Fatalf("%+v: the checkpoint of step 4 is %+v", c, f)
		}
		for key, list := range kept.values[4] {
			if slices.Contains(list, -12345) {
				t.Errorf("%+v: nobody saved all of %s", c, key)
			}
		}
		next := base(t)
		next.weights = []int64{1, 2}
		for _, got := range next.from(kept.resume(4)).mustRun(t) {
			same(t, want, got)
		}
	}
	kept := newMemory()
	s := base(t)
	s.weights, s.noFiles = []int64{1, 1, 1}, []int{1} // without backups
	for _, got := range s.saving(kept, 2).mustRun(t) {
		same(t, want, got)
	}
	if f := kept.finished[4]; f == nil || !strings.Contains(f.Failed, "nobody with files has ") {
		t.Errorf("the checkpoint of step 4 is %+v", f)
	}
}

// TestSavingFails: one member that can't save is named, the checkpoint is abandoned for all, and training goes on.
func TestSavingFails(t *testing.T) {
	want := base(t).mustRun(t)[0]
	kept := newMemory()
	kept.fails = func(p *Part) error {
		if p.Rank == 1 && p.Step == 4 {
			return errors.New("no space left on device")
		}
		return nil
	}
	s := base(t)
	s.weights = []int64{1, 1, 1}
	for _, got := range s.saving(kept, 2).mustRun(t) {
		same(t, want, got)
	}
	for step, failed := range map[int]string{2: "", 4: "rank 1: no space left on device", 6: ""} {
		got := kept.finished[step]
		if got == nil || got.Failed != failed || (failed == "") != (len(got.Files) == 3) {
			t.Errorf("step %d: %+v, want %q and files of three members", step, got, failed)
		}
	}
	s.change = func(rank int, c *Config) { // one without a folder
		if c.SaveEvery = 3; rank != 2 {
			c.Saver = kept
		}
	}
	s.mustRun(t)
	if got := kept.finished[3]; got == nil || !strings.Contains(got.Failed, "rank 2: it has no folder") {
		t.Errorf("without a folder: %+v", got)
	}
}

// TestResumeRefused: what was loaded must have the state hash of the checkpoint, and the position must fit the model.
func TestResumeRefused(t *testing.T) {
	kept := newMemory()
	base(t).saving(kept, 2).mustRun(t)
	s := base(t)
	s.weights = []int64{1, 1}
	for name, c := range map[string]struct {
		change func(r *Resume)
		want   string
	}{
		"another state": {func(r *Resume) {
			read := r.Read
			r.Read = func(s State, name string, first int, dst []float32) error {
				err := read(s, name, first, dst)
				if s == Params && first == 0 {
					dst[0]++
				}
				return err
			}
		}, "the state that the members loaded has hash"},
		"a missing tensor": {func(r *Resume) {
			r.Read = func(State, string, int, []float32) error { return errors.New("there is no such element") }
		}, "no such element"},
		"another model":    {func(r *Resume) { r.Exponents = r.Exponents[1:] }, "exponents of"},
		"no steps":         {func(r *Resume) { r.Step = 0 }, "step 0"},
		"too many steps":   {func(r *Resume) { r.Step = 7 }, "step 7"},
		"too many updates": {func(r *Resume) { r.Updates = 3 }, "3 updates"},
		"no hash":          {func(r *Resume) { r.StateHash = "" }, "no state hash"},
	} {
		r := kept.resume(2)
		c.change(r)
		if _, _, err := s.from(r).run(t); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
}

// TestSavingMemory: the most bytes that there ever were grow by at most a tenth while checkpoints are made.
func TestSavingMemory(t *testing.T) {
	for _, weights := range [][]int64{{1}, {1, 1, 1}} {
		peak := func(every int) []int64 {
			kept := newMemory()
			kept.forget = true
			s := base(t)
			s.weights, s.work = weights, make([]int64, len(weights))
			s = s.saving(kept, every)
			_, devices, err := s.run(t)
			if err != nil {
				t.Fatal(err)
			}
			list := make([]int64, len(devices))
			for r, d := range devices {
				for c := range kernel.NumClasses {
					list[r] += d.Meter().Peak(c)
				}
			}
			return list
		}
		with, without := peak(1), peak(0)
		for r := range with {
			if float64(with[r]) > 1.1*float64(without[r]) {
				t.Errorf("%d members, rank %d: %d bytes with checkpoints, %d without", len(weights), r, with[r], without[r])
			}
		}
	}
}
