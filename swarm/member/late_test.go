package member

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestDeadline(t *testing.T) {
	timing := Timing{Deadline: 50}
	for _, x := range []struct {
		recent []uint64
		tries  int
		want   uint64
		ok     bool
	}{
		{nil, 0, 0, false},
		{[]uint64{2}, 0, 50, true},
		{[]uint64{2, 40, 3}, 0, 120, true},
		{[]uint64{2}, 1, 100, true},
		{[]uint64{40}, 3, 960, true},
		{[]uint64{1}, 1000, 50 << mostShift, true},
	} {
		if got, ok := timing.deadline(x.recent, x.tries); got != x.want || ok != x.ok {
			t.Errorf("%v, try %d: %d, %v", x.recent, x.tries, got, ok)
		}
	}
}

func TestCulprits(t *testing.T) {
	for _, x := range []struct {
		name  string
		ready []int // ranks
		waits [][]int
		want  []int
	}{
		{"all are ready", []int{0, 1, 2}, make([][]int, 3), nil},
		{"all are at work", nil, make([][]int, 3), nil},
		{"one is at work, others are ready", []int{0, 2}, make([][]int, 3), []int{1}},
		{"one is at work, others wait for it", nil, [][]int{{1}, nil, {1}}, []int{1}},
		{"a chain: the end is at fault", nil, [][]int{{1}, {2}, nil}, []int{2}},
		{"two wait for each other", nil, [][]int{{1}, {0}, {0, 1}}, []int{0, 1}},
		{"two wait for each other and one of them for a third", nil, [][]int{{1}, {0, 2}, nil}, []int{2}},
		{"two are at work", []int{0}, [][]int{nil, nil, nil, {1, 2}}, []int{1, 2}},
		{"a ready one doesn't get through to one", []int{0, 2}, [][]int{nil, {0}, nil}, []int{1}},
		{"alone", nil, make([][]int, 1), nil},
	} {
		ready := make([]bool, len(x.waits))
		for _, r := range x.ready {
			ready[r] = true
		}
		if got, _ := culprits(ready, x.waits); !slices.Equal(got, x.want) {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
}

func TestPace(t *testing.T) {
	for _, x := range []struct {
		name          string
		plain, filled uint64
		want          int64
	}{
		{"nothing is known", 0, 100, firstBudget},
		{"no slower", 100, 100, 2 * firstBudget},
		{"a little slower", 100, 116, firstBudget},
		{"much slower", 100, 130, firstBudget / 2},
		{"a tick is nothing", 2, 3, 2 * firstBudget},
	} {
		p := newPace()
		if x.plain > 0 {
			p.committed(x.plain, false)
		}
		if p.committed(x.filled, true); p.budget != x.want {
			t.Errorf("%s: budget %d, want %d", x.name, p.budget, x.want)
		}
	}
	p := newPace()
	for range 100 {
		p.committed(3, false)
		p.committed(3, true)
	}
	if p.budget != mostBudget || len(p.recent) != recentSteps {
		t.Errorf("%+v", p)
	}
}

// hang has a member of a run of n do nothing more, though its heart beats: the others wait for it.
func hang(t *testing.T, n int, who uint64) *cluster {
	s := newCluster(t, n)
	s.decided, s.train = never, false
	s.grow(n)
	s.begin()
	s.train = false
	s.tick() // a step is committed: there is a deadline from now on
	s.train, s.idle[who] = true, true
	s.begin()
	s.ticks(3)
	return s
}

// At the first deadline whoever holds the others up gets no work; once it is ready again it gets some.
func TestLateIsPassedOver(t *testing.T) {
	for _, who := range []uint64{1, 2, 4} {
		s := hang(t, 4, who)
		n := s.until(60, "another attempt", func() bool { return s.last(3).Kind == EntryLate })
		e := s.last(3)
		want := make([]int64, 4)
		want[who-1] = -1
		if n < 45 || !slices.Equal(e.Work, want) || string(e.Payload) != "0.0" || e.View != nil {
			t.Errorf("after %d ticks: %+v", n, e)
		}
		s.idle[who] = false
		s.begin()
		s.until(3, "a Commit", func() bool { return s.step(3) > 0 })
		if e := s.last(3); slices.Min(e.Work) != 0 || len(s.inView(3)) != 4 {
			t.Errorf("%+v, view %v", e, s.inView(3))
		}
	}
}

// At the second deadline it is removed, and told so; when it leads, another one leads first.
func TestLateIsRemoved(t *testing.T) {
	for _, who := range []uint64{4, 2, 1} {
		s := hang(t, 4, who)
		s.until(300, "a view without it", func() bool { return len(s.inView(3)) == 3 })
		late := 0
		for _, e := range s.entries[3] {
			if e.Kind == EntryLate {
				late++
			}
		}
		f := s.cores[3].Faults()
		if late != 1 || slices.Contains(s.inView(3), who) || len(f) != 1 || f[0].Peer != s.person(who).Peer || !strings.Contains(f[0].Reason, "held the others up") {
			t.Errorf("member %d: %d times late, view %v, faults %+v", who, late, s.inView(3), f)
		}
		if e := s.stopped(who); e == nil || !e.Gone {
			t.Errorf("member %d: %+v", who, e)
		}
		s.until(5, "the others go on", func() bool { return s.step(3) > 3 })
	}
}

// The only voter and the last holder can't be removed: they are passed over again, later and later.
func TestLateStays(t *testing.T) {
	for _, x := range []struct {
		n, backups int
		who        uint64
	}{{2, 1, 1}, {3, 0, 3}} {
		s := hang(t, x.n, x.who)
		s.backups = x.backups
		if x.backups == 0 {
			for _, id := range s.ids {
				st := s.cores[id].st
				st.have = st.have.Clone()
				for i := range st.have.Backups {
					st.have.Backups[i] = nil
				}
			}
		}
		s.ticks(500)
		late := 0
		for _, e := range s.entries[2] {
			if e.Kind == EntryLate {
				late++
			}
		}
		if late < 2 || late > 4 || len(s.inView(2)) != x.n {
			t.Errorf("%+v: %d times late, view %v", x, late, s.inView(2))
		}
	}
}

// While nobody waits, nobody is late, however long a step takes; and before a Commit nobody knows how long it may.
func TestSlowIsNotLate(t *testing.T) {
	s := newCluster(t, 3)
	s.decided, s.train = never, false
	s.grow(3)
	s.ready(1, s.last(1).Fence, "0.0")
	s.ticks(500)
	s.begin()
	s.train = false
	s.ticks(500) // nobody is ready with the next one
	for _, e := range s.entries[1][1:] {
		if e.Kind != EntryCommit {
			t.Errorf("%+v", e)
		}
	}
}

// Whom one waits for is known by beats, and blamed: not whoever waits.
func TestWhoeverWaitsIsNotLate(t *testing.T) {
	s := hang(t, 3, 3)
	s.idle[2] = true
	fence := s.last(1).Fence
	s.cores[2].own = ownReady{}
	s.cores[1].peers[2].hasReady = false
	s.cores[2].SetWaiting(fence, "gather", 7, []uint64{3})
	s.cores[3].SetWaiting(fence-1, "gather", 7, []uint64{2}) // of an older attempt: says nothing
	s.until(60, "another attempt", func() bool { return s.last(1).Kind == EntryLate })
	if e := s.last(1); !slices.Equal(e.Work, []int64{0, 0, -1}) {
		t.Errorf("%+v", e)
	}
	if w := s.cores[1].peers[2].waits; w.phase != "" && fmt.Sprint(w) != fmt.Sprint(waits{fence, "gather", 7, []uint64{3}}) {
		t.Errorf("%+v", w)
	}
}
