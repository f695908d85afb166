package fsdp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"shoal/kernel"
	"shoal/kernel/ref"
)

// dealt is how many microbatches each member gets, and the time at which the last one is done.
func dealt(t *testing.T, step, m int, work, cost []int64) (counts []int, end int64) {
	t.Helper()
	at := 0
	for r, s := range Deal(step, m, work) {
		if s.First != at || s.Last < at {
			t.Fatalf("work %v, step %d: share %d is %v, want it to start at %d", work, step, r, s, at)
		}
		at = s.Last
		counts = append(counts, s.Last-s.First)
		end = max(end, int64(s.Last-s.First)*cost[r])
	}
	if at != m {
		t.Fatalf("work %v, step %d: %d of %d microbatches dealt", work, step, at, m)
	}
	return counts, end
}

// TestDeal compares with the best of all ways to deal.
func TestDeal(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		n, m := 1+rng.IntN(4), rng.IntN(9)
		cost := make([]int64, n)
		for r := range cost {
			cost[r] = 1 + rng.Int64N(12)
		}
		_, got := dealt(t, trialLeast*rng.IntN(100), m, cost, cost) // not a step of trials
		var best func(r, left int) int64
		best = func(r, left int) int64 {
			if r == n-1 {
				return int64(left) * cost[r]
			}
			min := int64(1 << 40)
			for k := range left + 1 {
				if end := max(int64(k)*cost[r], best(r+1, left-k)); end < min {
					min = end
				}
			}
			return min
		}
		if want := best(0, m); got != want {
			t.Errorf("costs %v, %d microbatches: done at %d, could be at %d", cost, m, got, want)
		}
	}
}

func TestDealTakesTurns(t *testing.T) {
	for _, c := range []struct{ n, m int }{{1, 8}, {3, 8}, {7, 8}, {9, 8}, {3, 2}, {5, 12}, {4, 6}} {
		got := make([]int, c.n)
		for step := range 10 * c.n {
			counts, _ := dealt(t, step, c.m, make([]int64, c.n), make([]int64, c.n))
			for r, k := range counts {
				got[r] += k
			}
		}
		for r, k := range got {
			if k != 10*c.m {
				t.Errorf("%d members, %d microbatches: rank %d got %d in %d steps, want %d", c.n, c.m, r, k, 10*c.n, 10*c.m)
			}
		}
	}
}

func TestDealWithCosts(t *testing.T) {
	for _, c := range []struct {
		m    int
		work []int64
		want []int
	}{
		{8, []int64{10, 10, 10, 10, 100}, []int{2, 2, 2, 2, 0}}, // the slow one would take as long as ten others
		{8, []int64{10, 0, 10, 10}, []int{2, 2, 2, 2}},
		{8, []int64{10, NoWork, 10}, []int{4, 0, 4}},
		{6, []int64{10, 20}, []int{4, 2}},
		{3, []int64{NoWork, NoWork}, []int{2, 1}}, // somebody has to
		{0, []int64{1, 1}, []int{0, 0}},
		{2, []int64{1 << 62, 1 << 62}, []int{1, 1}},
		{1 << 20, []int64{1, 1}, []int{1 << 19, 1 << 19}},
	} {
		if got, _ := dealt(t, 1, c.m, c.work, c.work); !slices.Equal(got, c.want) {
			t.Errorf("%d microbatches, work %v: %v, want %v", c.m, c.work, got, c.want)
		}
	}
	_ = Deal(-1<<62, 5, []int64{1, 1, 1}) // a step that makes no sense
}

// TestRanges: whole granules, at most 64 in a vector, as even as can be, without gaps, and the same however units are joined.
func TestRanges(t *testing.T) {
	for _, n := range []int{1, 255, 256, 257, 64 * 256, 64*256 + 1, 100000, 1 << 22} {
		l := &Layout{Units: []UnitLayout{{Name: "a"}}}
		l.cut(0, segment{512, n}, false)
		at, granules := 512, (n+Granule-1)/Granule
		for i, r := range l.Ranges {
			k := (r.N + Granule - 1) / Granule
			if r.Off != at || r.N < 1 || (r.N%Granule != 0 && i < len(l.Ranges)-1) || k < granules/len(l.Ranges) || k > granules/len(l.Ranges)+1 {
				t.Errorf("%d elements: range %d is %+v", n, i, r)
			}
			at += r.N
		}
		if at != 512+n || len(l.Ranges) != min(64, granules) {
			t.Errorf("%d elements: %d ranges up to %d", n, len(l.Ranges), at)
		}
	}
	m := base(t).model
	wrapped, err := Wrap("layers:9").Apply(m)
	if err != nil {
		t.Fatal(err)
	}
	pieces := func(l *Layout) map[string]bool { // tensors by range
		set := map[string]bool{}
		for _, r := range l.Ranges {
			text := ""
			l.Units[r.Unit].within(r.Off, r.Off+r.N, func(s Span, off, n int) { text += fmt.Sprint(s.Param.Name, off-s.Off, n, " ") })
			set[text] = true
		}
		return set
	}
	if a, b := pieces(NewLayout(m, freezeBlocks)), pieces(NewLayout(wrapped, freezeBlocks)); !maps.Equal(a, b) {
		t.Errorf("ranges %v, wrapped %v", a, b)
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
		for _, members := range []int{1, 2, 3, 5, 8} {
			all, none := []segment{{0, n}}, []segment{{0, 0}}
			l := &Layout{Units: []UnitLayout{{Name: "a", Len: n, trained: all, frozen: none}, {Name: "b", trained: none, frozen: none}}}
			var covers [][][]Node
			for r := range members {
				c := make([][]Node, 2)
				for part := r; part < 2*members; part += members { // two stretches each
					lo, hi := leaves(n)*part/(2*members)*Granule, min(n, leaves(n)*(part+1)/(2*members)*Granule)
					if lo < hi {
						c[0] = append(c[0], cover(lo/Granule, leaves(hi), leaves(n), data[4*lo:4*hi])...)
					}
				}
				if len(c[0]) > 4*10 {
					t.Errorf("%d elements, %d members: a cover of %d nodes", n, members, len(c[0]))
				}
				covers = append(covers, c)
			}
			got, err := stateHash(l, covers)
			if err != nil || got != hex.EncodeToString(want[:]) {
				t.Errorf("%d elements, %d members: %s, %v; want %x", n, members, got, err, want)
			}
			if len(covers[0][0]) > 0 {
				if _, err := stateHash(l, covers[1:]); err == nil {
					t.Errorf("%d elements, %d members: no error although a part is missing", n, members)
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
	s.weights, s.work = []int64{1, 1}, []int64{1, 1}
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
		for next := u + 1; next <= min(u+minAhead, 3); next++ {
			if g, f := find(TraceGather, next, 0), find(TraceForward, u, 0); g.Start >= f.End {
				t.Errorf("forward: unit %d was asked for at %v, after unit %d was computed at %v", next, g.Start, u, f.End)
			}
		}
	}
	for u := 3; u > 1; u-- {
		for next := u - 1; next >= max(u-minAhead, 1); next-- {
			if g, b := find(TraceGather, next, 1), find(TraceBackward, u, 0); g.Start >= b.End {
				t.Errorf("backward: unit %d was asked for at %v, after unit %d was computed at %v", next, g.Start, u, b.End)
			}
		}
		if r, b := find(TraceReduce, u, 0), find(TraceBackward, u-1, 0); r.Start > b.Start {
			t.Errorf("the gradient of unit %d left at %v, after unit %d began at %v", u, r.Start, u-1, b.Start)
		}
	}
}

// TestMemoryIsShared checks by the device's meter that a member of four holds a quarter at rest, and never more than
// the root unit, two others, and what is on its way.
func TestMemoryIsShared(t *testing.T) {
	s := base(t)
	whole := s.mustRun(t)[0]
	_, alone, _ := s.run(t)
	s.weights, s.ahead = []int64{1, 1, 1, 1}, 1
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
		if staging := int64(2 * (maxGiving + 1) * l.Units[1].Len); peak > int64(limit)+staging {
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

// Small units are on their way in any number up to Config.Ahead, which doesn't change what comes out.
func TestAhead(t *testing.T) {
	s := base(t)
	s.weights = []int64{1, 1, 1}
	var hash string
	peaks := map[int]int64{}
	for _, ahead := range []int{1, 20_000, 0} {
		s.ahead = ahead
		results, devices, err := s.run(t)
		if err != nil {
			t.Fatal(err)
		}
		if hash == "" {
			hash = results[0].StateHash
		}
		if results[0].StateHash != hash {
			t.Errorf("with %d bytes ahead the state hash is %s, want %s", ahead, results[0].StateHash, hash)
		}
		for _, d := range devices {
			peaks[ahead] = max(peaks[ahead], d.Meter().Peak(kernel.Gathered))
		}
	}
	if peaks[1] >= peaks[0] || peaks[20_000] > peaks[1]+20_000 {
		t.Errorf("bytes of gathered units at most, by bytes ahead: %v", peaks)
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
		{"half an audit", func(r *ready) { r.Audit = []byte{0, 1, 2} }},
		{"an audit of no range", func(r *ready) { r.Audit = append([]byte{127}, make([]byte, 8)...) }},
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
		if _, prev, _, err := d.Decide(nil, nil, [][]byte{said}); err == nil {
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
		_, _, _, _ = floats.Decide(prev, nil, [][]byte{said})
		kind, b, _, err := d.Decide(prev, []int64{7}, [][]byte{said})
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
	mesh := s.mesh(nil)
	cfg := s.config(mesh, 0, func(int) []int { return []int{0} })
	cfg.Device = ref.New()
	var err error
	if cfg.Start, err = mesh.Enter(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// What belongs to no such model or view is an error on every member, not a panic.
func TestApplyRefuses(t *testing.T) {
	e := testEngine(t)
	all := make([]int16, len(e.layout.Tensors))
	for name, o := range map[string]*Outcome{
		"no kind":         {},
		"unknown kind":    {Kind: EntryDone + 1},
		"short exponents": {Kind: EntryCommit, Used: all[1:], Next: all},
		"short next":      {Kind: EntryRetry, Next: all[1:]},
		"another step":    {Kind: EntryRetry, Next: all, Step: 1},
		"another try":     {Kind: EntryRetry, Next: all, Attempt: 1},
	} {
		b, err := cbor.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if done, err := e.apply(Entry{Kind: o.Kind, Payload: b}); done || err == nil {
			t.Errorf("%s: applied", name)
		}
	}
	ranges := len(e.layout.Ranges)
	view := func(rank, size int, owner int, backups ...int) Entry {
		v := &View{Rank: rank, Size: size, Owner: slices.Repeat([]int{owner}, ranges)}
		for range ranges {
			v.Backups = append(v.Backups, backups)
		}
		return Entry{Kind: EntryView, View: v}
	}
	for name, entry := range map[string]Entry{
		"no payload":     {Kind: EntryCommit},
		"garbage":        {Kind: EntryCommit, Payload: []byte{1, 2, 3}},
		"no members":     view(0, 0, 0),
		"rank":           view(2, 2, 0),
		"no owner":       view(0, 2, -1),
		"owner":          view(0, 2, 2),
		"backup":         view(0, 2, 0, 2),
		"owner twice":    view(0, 2, 0, 0),
		"backup twice":   view(0, 3, 0, 1, 1),
		"few ranges":     {Kind: EntryView, View: &View{Size: 1}},
		"work of others": {Kind: EntryLate, Work: []int64{1, 2}},
	} {
		if done, err := e.apply(entry); done || err == nil {
			t.Errorf("%s: applied", name)
		}
	}
	for _, f := range []Fill{{-1, 0}, {ranges, 0}, {0, -1}, {0, 1}} {
		if _, err := e.place.wanted([]Fill{f}); err == nil {
			t.Errorf("%v is taken for a fill", f)
		}
	}
	other := testEngine(t)
	other.place.Size = 2
	if _, err := other.apply(view(1, 2, 0, 1)); err != nil {
		t.Errorf("a view in which this member is backup of what it owned: %v", err)
	}
	if _, err := other.apply(view(0, 2, 1)); err != nil {
		t.Errorf("a view in which this member holds nothing: %v", err)
	}
	if _, err := other.apply(view(0, 2, 0)); err == nil {
		t.Error("this member holds nothing, and became an owner")
	}
}

func TestSinkRefuses(t *testing.T) {
	e := testEngine(t)
	a, err := e.begin(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind                   Kind
		tag, source, offset, n int
	}{{Gradient, -1, 0, 0, 4}, {Gradient, 99, 0, 0, 4}, {Gradient, 0, 5, 0, 4}, {Gradient, 0, 0, -1, 4}, {Gradient, 0, 0, 0, 3},
		{Gradient, 0, 0, 1 << 30, 4}, {Gradient, 0, 0, 1<<63 - 1, 4}, {Forward, 0, 0, 0, 4}, {Forward, -1, 0, 0, 4}, {FillData, 0, 0, 0, 4},
		{FillData, -1, 0, 0, 4}, {FillData, 1 << 20, 0, 0, 4}, {0, 0, 0, 0, 4}, {9, 0, 0, 0, 4}} {
		if err := a.Add(c.kind, c.tag, c.source, c.offset, make([]byte, c.n)); err == nil {
			t.Errorf("%+v was added", c)
		}
	}
	for _, c := range []struct {
		kind               Kind
		tag, source, count int
	}{{Gradient, 0, 0, 3}, {Gradient, 0, 0, 0}, {Gradient, 0, 0, -1}, {Gradient, 99, 0, 1}, {Gradient, 0, 1, 1}, {Forward, 0, 0, 2}, {FillData, 0, 0, 1}, {0, 0, 0, 1}} {
		if err := a.Done(c.kind, c.tag, c.source, c.count); err == nil {
			t.Errorf("%+v was counted", c)
		}
	}
	if a.Done(Gradient, 0, 0, 2) != nil || a.Done(Gradient, 0, 0, 1) == nil {
		t.Error("a microbatch was counted twice")
	}
	if err := a.complete(); err == nil || !strings.Contains(err.Error(), "is not whole here") {
		t.Errorf("most sums are missing: %v", err)
	}
	a.end(errClosed)
	if a.Add(Gradient, 0, 0, 0, make([]byte, 4)) == nil || a.Done(Gradient, 1, 0, 2) == nil {
		t.Error("something was added after the attempt was over")
	}
}
