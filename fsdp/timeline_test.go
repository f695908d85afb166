package fsdp

import (
	"slices"
	"sync"
	"testing"
	"time"

	"shoal/kernel/slow"
)

func (t Times) sum() time.Duration {
	return t.Compute + t.Parameters + t.Reduce + t.Commit + t.Update + t.Idle
}

// TestTimesAddUp: the parts of a member's time are all the time that passed, and each is as long as the events of its
// kinds, also where members have nothing to compute, or a hash is taken after each step.
func TestTimesAddUp(t *testing.T) {
	for name, change := range map[string]func(*setup){
		"alone":                func(s *setup) { s.weights = []int64{1} },
		"3 peers":              func(s *setup) { s.backups = 1 },
		"one gets no work":     func(s *setup) { s.work = []int64{5, NoWork, 9} },
		"ddp":                  func(s *setup) { s.strategy = DDP },
		"zero1 and recompute":  func(s *setup) { s.strategy, s.recompute = Zero1, RecomputeAlways },
		"a hash of each state": func(s *setup) { s.hyper.HashEvery = 1; s.change = func(_ int, c *Config) { c.AuditEvery = 1 } },
	} {
		t.Run(name, func(t *testing.T) {
			s := base(t)
			s.weights = []int64{1, 1, 1}
			change(&s)
			var mu sync.Mutex
			told := make([]Times, len(s.weights))
			s.trace = func(rank int, e Event) {
				if e.Step > 0 && e.Step < s.hyper.Steps { // neither the first step nor the evaluation
					mu.Lock()
					defer mu.Unlock()
					*told[rank].of(e.Kind) += e.End - e.Start
				}
			}
			began := time.Now()
			results := s.mustRun(t)
			took, computed := time.Since(began), time.Duration(0)
			for r, res := range results {
				got := res.Times
				if res.First+got.sum() != res.Wall || res.First <= 0 || res.Wall <= res.First || res.Wall > took {
					t.Errorf("rank %d: %+v are %v together, the steps took %v and the first one of them %v, all of it %v", r, got, got.sum(), res.Wall, res.First, took)
				}
				if res.Steps != s.hyper.Steps-1 {
					t.Errorf("rank %d: %d steps, want %d", r, res.Steps, s.hyper.Steps-1)
				}
				if got.Compute != told[r].Compute || got.Parameters != told[r].Parameters || got.Reduce != told[r].Reduce || got.Commit != told[r].Commit ||
					got.Update < told[r].Update {
					t.Errorf("rank %d: %+v, the events have %+v", r, got, told[r])
				}
				if got.Update <= 0 || got.Idle <= 0 {
					t.Errorf("rank %d: %+v", r, got)
				}
				computed += got.Compute
			}
			if computed <= 0 {
				t.Error("nobody has computed")
			}
		})
	}
}

// TestTimesOfASlowMember: a slow member's time goes to computing, that of the one that waits for it to what it waits for.
func TestTimesOfASlowMember(t *testing.T) {
	s := base(t)
	s.weights, s.work = []int64{1, 1}, []int64{1, 1} // as if they were alike
	s.change = func(rank int, c *Config) {
		if rank == 0 {
			c.Device = slow.Device(c.Device, 100)
		}
	}
	results := s.mustRun(t)
	slow, waits := results[0].Times, results[1].Times
	if slow.Compute < 2*waits.Compute {
		t.Errorf("the slow one computed for %v, the other one for %v", slow.Compute, waits.Compute)
	}
	if waits.Parameters+waits.Reduce < slow.Parameters+slow.Reduce+slow.Compute/4 {
		t.Errorf("the one that waits spent %+v, the slow one %+v", waits, slow)
	}
}

// TestTimeline: each member keeps one step's events, with what it did one after the other and what travelled meanwhile.
func TestTimeline(t *testing.T) {
	s := base(t)
	s.weights, s.work = []int64{1, 1}, []int64{1, 1}
	step := TimelineStep(s.hyper.Steps)
	for r, res := range s.mustRun(t) {
		seen, done := map[EventKind]int{}, time.Duration(0)
		for _, e := range res.Timeline {
			seen[e.Kind]++
			if e.Start < 0 || e.End < e.Start || e.Step != step && (e.Step != step-1 || e.Kind != TraceUpdate && e.Kind != TraceHash) {
				t.Errorf("rank %d, step %d: %+v", r, step, e)
			}
			if slices.Contains([]EventKind{TraceGather, TraceReduce, TraceBackup}, e.Kind) {
				continue
			}
			if e.Start < done {
				t.Errorf("rank %d: %+v begins before %v, when the event before it ended", r, e, done)
			}
			done = e.End
		}
		stages := len(s.model.Stages())
		if seen[TraceForward] != stages || seen[TraceBackward] != stages || seen[TraceUpdate] != 4 || seen[TraceGather] != 6 ||
			seen[TraceReduce] != 4 || seen[TraceSum] != 1 || seen[TraceCommit] != 1 {
			t.Errorf("rank %d has %v of %d stages and 4 units", r, seen, stages)
		}
		if last := res.Timeline[len(res.Timeline)-1]; last.Kind != TraceCommit || last.End != done {
			t.Errorf("rank %d: the last event is %+v", r, last)
		}
	}
}

func TestTimelineStep(t *testing.T) {
	for steps, want := range map[int]int{1: 0, 2: 0, 3: 1, 10: 4, 30: 24, 450: 444} {
		if got := TimelineStep(steps); got != want {
			t.Errorf("%d steps: %d, want %d", steps, got, want)
		}
	}
}

// TestLaneIsBounded: of many events the longest are kept, in order of time.
func TestLaneIsBounded(t *testing.T) {
	var l lane
	l.add(Event{End: time.Hour}) // before it begins
	l.begin(time.Second)
	const n = 7*MaxEvents + 3
	for i := range n {
		start := time.Second + time.Duration(i)*time.Minute
		l.add(Event{Unit: i, Start: start, End: start + time.Duration(i*31%n)})
	}
	events := l.end()
	l.add(Event{End: time.Hour})
	if len(events) != MaxEvents || len(l.events) != MaxEvents {
		t.Fatalf("%d events, want %d", len(events), MaxEvents)
	}
	for i, e := range events {
		if e.End-e.Start < n-MaxEvents || e.Start != time.Duration(e.Unit)*time.Minute || i > 0 && e.Unit <= events[i-1].Unit {
			t.Fatalf("event %d of those that are kept is %+v", i, e)
		}
	}
}
