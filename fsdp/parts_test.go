package fsdp

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"shoal/kernel"
	"shoal/kernel/ref"
)

func TestShares(t *testing.T) {
	for _, weights := range [][]int64{{1}, {1, 1, 1}, {5, 1, 1}, {4, 2, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1 << 40, 1}} {
		var total, sum int64
		for _, w := range weights {
			total += w
		}
		got := make([]int64, len(weights))
		const steps, m = 1000, 8
		for step := range steps {
			at := 0
			for r, s := range Shares(step, m, weights) {
				if s.First != at || s.Last < at {
					t.Fatalf("weights %v, step %d: share %d is %v, want it to start at %d", weights, step, r, s, at)
				}
				at = s.Last
				got[r] += int64(s.Last - s.First)
			}
			if at != m {
				t.Fatalf("weights %v, step %d: %d of %d microbatches dealt", weights, step, at, m)
			}
		}
		for r, w := range weights {
			sum += got[r]
			want := float64(steps*m) * float64(w) / float64(total)
			if d := float64(got[r]) - want; d > 0.01*steps || d < -0.01*steps {
				t.Errorf("weights %v: rank %d got %d microbatches, want about %.0f", weights, r, got[r], want)
			}
		}
		if sum != steps*m {
			t.Errorf("weights %v: %d microbatches, want %d", weights, sum, steps*m)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		n       int
		weights []int64
		want    []int
	}{
		{1024, []int64{1, 1, 1, 1}, []int{0, 256, 512, 768, 1024}},
		{1000, []int64{1, 1}, []int{0, 512, 1000}},
		{10, []int64{1, 1, 1}, []int{0, 0, 0, 10}},
		{300, []int64{1, 1}, []int{0, 256, 300}},
		{0, []int64{1, 1}, []int{0, 0, 0}},
		{2560, []int64{8, 1, 1}, []int{0, 2048, 2304, 2560}},
	} {
		if got := newCutter(c.weights).cut([]segment{{0, c.n}}); !slices.Equal(got, c.want) {
			t.Errorf("cut(%d, %v) = %v, want %v", c.n, c.weights, got, c.want)
		}
	}
}

// TestSharesFollowWeights: over many small units everybody's share is right to within a granule or two.
func TestSharesFollowWeights(t *testing.T) {
	for _, weights := range [][]int64{slices.Repeat([]int64{1}, 20), {5, 1, 1}, {1000, 1, 1}, {3, 2, 7, 1}} {
		c := newCutter(weights)
		var total int64
		for _, w := range weights {
			total += w
		}
		owned, sum := make([]int, len(weights)), 0
		for u := range 30 {
			n := 1000 + 700*u%1900
			sum += n
			cuts := c.cut([]segment{{0, n}})
			for r := range weights {
				if cuts[r] > cuts[r+1] || cuts[r+1] > n || cuts[r+1]%Granule != 0 && cuts[r+1] != n {
					t.Fatalf("weights %v: cuts %v of %d", weights, cuts, n)
				}
				owned[r] += cuts[r+1] - cuts[r]
			}
		}
		for r, w := range weights {
			want := float64(sum) * float64(w) / float64(total)
			if d := float64(owned[r]) - want; d > 2.5*Granule || d < -2.5*Granule {
				t.Errorf("weights %v: rank %d owns %d of %d, want about %.0f", weights, r, owned[r], sum, want)
			}
		}
	}
}

// TestHashTree compares covers by any cut with the tree written down as docs/report.md has it.
func TestHashTree(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 255, 256, 257, 512, 700, 1024, 5 * 256, 6*256 + 1, 13 * 256} {
		data := make([]byte, 4*n)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		var level [][]byte
		for lo := 0; lo < len(data); lo += 4 * Granule {
			h := sha256.Sum256(append([]byte{0}, data[lo:min(len(data), lo+4*Granule)]...))
			level = append(level, h[:])
		}
		for len(level) > 1 {
			var up [][]byte
			for i := 0; i < len(level); i += 2 {
				if i+1 == len(level) {
					up = append(up, level[i])
					continue
				}
				h := sha256.Sum256(slices.Concat([]byte{1}, level[i], level[i+1]))
				up = append(up, h[:])
			}
			level = up
		}
		empty := sha256.Sum256(nil)
		want := sha256.Sum256(slices.Concat([]byte{2}, level[0], empty[:]))
		for _, weights := range [][]int64{{1}, {1, 1}, {1, 1, 1}, {5, 1, 1}, {1, 2, 3, 4, 5}} {
			all, none := []segment{{0, n}}, []segment{{0, 0}}
			l := &Layout{Units: []UnitLayout{{Name: "a", Len: n, Cuts: newCutter(weights).cut(all), trained: all, frozen: none},
				{Name: "b", Cuts: newCutter(weights).cut(none), trained: none, frozen: none}}}
			var covers [][][]Node
			for r := range weights {
				lo, hi := l.Units[0].Cuts[r], l.Units[0].Cuts[r+1]
				c := make([][]Node, 2)
				if lo < hi {
					c[0] = cover(lo/Granule, leaves(hi), leaves(n), data[4*lo:4*hi])
				}
				if len(c[0]) > 2*10 {
					t.Errorf("%d elements, weights %v: a cover of %d nodes", n, weights, len(c[0]))
				}
				covers = append(covers, c)
			}
			got, err := stateHash(l, covers)
			if err != nil || got != hex.EncodeToString(want[:]) {
				t.Errorf("%d elements, weights %v: %s, %v; want %x", n, weights, got, err, want)
			}
			if len(covers[0][0]) > 0 {
				if _, err := stateHash(l, covers[1:]); err == nil {
					t.Errorf("%d elements, weights %v: no error although a part is missing", n, weights)
				}
			}
		}
	}
}

func TestWalk(t *testing.T) {
	units := []int{0, 1, 2, 3, 0}
	w := newWalk(units, true, false)
	if want := []int{0, 1, 2, 3, 2, 1}; !slices.Equal(w.gathers, want) {
		t.Errorf("gathers %v, want %v: the last unit is still there when the backward pass begins", w.gathers, want)
	}
	if k := newWalk(units, true, true); !slices.Equal(k.gathers, []int{0, 1, 2, 3}) {
		t.Errorf("gathers %v with reshard false", k.gathers)
	}
	for _, plan := range []walk{w, newWalk(units, true, true), newWalk(units, false, false), newWalk([]int{0, 1, 2, 1, 0, 2}, true, false)} {
		held, most := map[int]bool{}, 0
		finished := map[int]int{}
		for _, v := range plan.visits {
			held[v.unit] = true
			most = max(most, len(held))
			if v.release {
				delete(held, v.unit)
			}
			if v.finish {
				finished[v.unit]++
			}
		}
		if len(held) != 0 {
			t.Errorf("%v are never dropped", held)
		}
		if len(plan.visits) > 6 {
			for u, n := range finished {
				if n != 1 {
					t.Errorf("unit %d is given back %d times", u, n)
				}
			}
		}
	}
}

// TestPrefetch trains with a trace on: the next unit is asked for before the one before it is computed, and gradients
// travel while earlier units are computed.
func TestPrefetch(t *testing.T) {
	s := base(t)
	s.weights = []int64{1, 1}
	var mu sync.Mutex
	var events []Event
	s.trace = func(rank int, e Event) {
		mu.Lock()
		defer mu.Unlock()
		if rank == 0 && e.Step == 3 {
			events = append(events, e)
		}
	}
	s.mustRun(t)
	find := func(kind EventKind, unit, nth int) Event {
		for _, e := range events {
			if e.Kind == kind && e.Unit == unit {
				if nth--; nth < 0 {
					return e
				}
			}
		}
		t.Fatalf("no %s of unit %d in %v", kind, unit, events)
		return Event{}
	}
	for u := 1; u < 3; u++ {
		if g, f := find(TraceGather, u+1, 0), find(TraceForward, u, 0); g.Start >= f.End {
			t.Errorf("forward: unit %d was asked for at %v, after unit %d was computed at %v", u+1, g.Start, u, f.End)
		}
	}
	for u := 3; u > 1; u-- {
		if g, b := find(TraceGather, u-1, 1), find(TraceBackward, u, 0); g.Start >= b.End {
			t.Errorf("backward: unit %d was asked for at %v, after unit %d was computed at %v", u-1, g.Start, u, b.End)
		}
		if r, b := find(TraceReduce, u, 0), find(TraceBackward, u-1, 0); r.Start > b.Start {
			t.Errorf("the gradient of unit %d left at %v, after unit %d began at %v", u, r.Start, u-1, b.Start)
		}
	}
}

// TestMemoryIsShared checks by the device's meter that a member of four holds a quarter at rest, and never more than
// the root unit and two others.
func TestMemoryIsShared(t *testing.T) {
	s := base(t)
	whole := s.mustRun(t)[0]
	_, alone, _ := s.run(t)
	s.weights = []int64{1, 1, 1, 1}
	results, devices, err := s.run(t)
	if err != nil {
		t.Fatal(err)
	}
	l := NewLayout(s.model, nil)
	limit := 0
	for i, u := range l.Units {
		if i < 3 {
			limit += 4 * u.Len
		}
	}
	var sum int64
	for r, res := range results {
		sum += res.OptimizerBytes
		peak := devices[r].Meter().Peak(kernel.Gathered)
		if staging := int64(2 * 2 * l.Units[1].Len); peak > int64(limit)+staging {
			t.Errorf("rank %d held %d bytes of gathered units, want at most %d", r, peak, int64(limit)+staging)
		}
		for c := range kernel.NumClasses {
			live := devices[r].Meter().Live(c)
			if c != kernel.Parameters && c != kernel.Gradients && c != kernel.Optimizer && live != 0 {
				t.Errorf("rank %d still holds %d bytes of %v at the end", r, live, c)
			}
		}
	}
	if sum != whole.OptimizerBytes || sum != alone[0].Meter().Live(kernel.Optimizer) {
		t.Errorf("four members hold %d bytes of optimizer state, one holds %d", sum, whole.OptimizerBytes)
	}
}

// goodReady is what the only member of a run says after its first attempt.
func goodReady(d *Decider) ready {
	n := len(d.Layout.Tensors)
	r := ready{Samples: 16, Count: 16, Finite: true, Max: make([]int16, n), Squares: make([]u128, n)}
	for range d.Layout.Units {
		r.Counts = append(r.Counts, 6)
	}
	return r
}

func testDecider(t testing.TB) *Decider {
	s := base(t)
	return &Decider{Layout: NewLayout(s.model, nil), Hyper: s.hyper, BatchSize: func(int) int { return 16 }}
}

func TestDecideRefuses(t *testing.T) {
	d := testDecider(t)
	for _, c := range []struct {
		name   string
		change func(*ready)
	}{
		{"another step", func(r *ready) { r.Step = 1 }},
		{"a microbatch is missing", func(r *ready) { r.Counts[1] = 5 }},
		{"too few samples", func(r *ready) { r.Samples = 15 }},
		{"another model", func(r *ready) { r.Max = r.Max[1:] }},
	} {
		r := goodReady(d)
		c.change(&r)
		if o, err := d.decide(nil, []ready{r}); err == nil {
			t.Errorf("%s: decided %+v", c.name, o)
		}
	}
	if _, err := d.decide(nil, []ready{goodReady(d)}); err != nil {
		t.Error(err)
	}
}

func FuzzDecide(f *testing.F) {
	d, floats := testDecider(f), testDecider(f)
	floats.Hyper.Reduce = Float32
	for _, cover := range [][][]Node{nil, {{{Level: 1}}}} {
		r := goodReady(d)
		r.Cover = cover
		said, err := cbor.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(nil), said)
		if _, prev, err := d.Decide(nil, [][]byte{said}); err == nil {
			f.Add(prev, said)
		}
	}
	r := goodReady(d)
	r.Square = 4
	said, err := cbor.Marshal(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(nil), said)
	f.Fuzz(func(t *testing.T, prev, said []byte) {
		if len(prev) == 0 {
			prev = nil
		}
		_, _, _ = floats.Decide(prev, [][]byte{said})
		kind, b, err := d.Decide(prev, [][]byte{said})
		if err != nil {
			return
		}
		o, err := DecodeOutcome(b)
		if err == nil {
			err = o.check(len(d.Layout.Tensors))
		}
		if err != nil || o.Kind != kind {
			t.Fatalf("decided kind %d, which reads as %+v, %v", kind, o, err)
		}
	})
}

func testEngine(t *testing.T) *Engine {
	t.Helper()
	s := base(t)
	e, err := NewEngine(Config{Model: s.model, Device: ref.New(), Comm: NewLocalMesh(1, nil).Comm(0), Hyper: s.hyper, Weights: []int64{1},
		Strategy: FSDP, Recompute: RecomputeAuto, Train: s.train, Order: func(int) []int { return []int{0} }})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// An outcome that belongs to no such model is an error on every member, not a panic.
func TestApplyRefuses(t *testing.T) {
	e := testEngine(t)
	all := make([]int16, len(e.layout.Tensors))
	for name, o := range map[string]*Outcome{
		"no kind":         {},
		"unknown kind":    {Kind: EntryDone + 1},
		"short exponents": {Kind: EntryCommit, Used: all[1:], Next: all},
		"short next":      {Kind: EntryRetry, Next: all[1:]},
		"another step":    {Kind: EntryRetry, Next: all, Step: 1},
	} {
		if done, err := e.apply(o); done || err == nil {
			t.Errorf("%s: applied", name)
		}
	}
}

func TestSinkRefuses(t *testing.T) {
	e := testEngine(t)
	e.expect(1)
	for _, c := range []struct {
		unit, source, offset, n int
	}{{-1, 0, 0, 4}, {99, 0, 0, 4}, {0, 5, 0, 4}, {0, 0, -1, 4}, {0, 0, 0, 3}, {0, 0, 1 << 30, 4}} {
		if err := e.Add(c.unit, c.source, c.offset, make([]byte, c.n)); err == nil {
			t.Errorf("%+v was added", c)
		}
	}
	if e.Done(0, 0, 1) != nil || e.Done(0, 0, 1) == nil {
		t.Error("a microbatch was counted twice")
	}
}
