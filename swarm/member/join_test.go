package member

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"shoal/internal/place"
)

// A newcomer enters with a Commit, owns nothing at first, is filled, and then owns its share: by Commits only.
func TestJoinDuringTheRun(t *testing.T) {
	s := newCluster(t, 3)
	s.decided, s.train = never, false
	s.config = func(c *Config) { c.SnapshotEntries = 10 }
	s.grow(3)
	s.admit(4)
	s.ticks(3)
	if len(s.entries[4]) != 0 || len(s.inView(1)) != 3 {
		t.Fatalf("a view without a Commit: %v", s.inView(1))
	}
	s.begin()
	s.until(1, "the newcomer is in", func() bool { return len(s.inView(1)) == 4 })
	first := s.entries[4][0]
	if first.Kind != EntryCommit || first.View == nil || first.View.Rank != 3 || first.Payload == nil || first.View.Reason != "peer …00000004 joined" {
		t.Errorf("first entry %+v", first)
	}
	if slices.Contains(first.View.Place.Owner, 3) || len(first.Work) != 4 || len(first.Fills) == 0 {
		t.Errorf("first entry %+v", first)
	}
	s.until(30, "it owns its share", func() bool { return slices.Contains(s.view(4).Place.Owner, 3) })
	c := s.cores[4]
	owns := 0
	for _, o := range s.view(4).Place.Owner {
		if o == 3 {
			owns++
		}
	}
	if v := s.view(4); owns < 5 || owns > 7 || v.Reason != "rebalance" || !v.Place.Equal(c.Wanted()) || c.Redundancy() != 1 {
		t.Errorf("owns %d of 24, %q, redundancy %d", owns, v.Reason, c.Redundancy())
	}
	for _, e := range s.entries[1][1:] {
		if e.Kind != EntryCommit && e.Kind != EntryRetry {
			t.Errorf("an attempt was aborted: %+v", e)
		}
	}
	checkFills(t, s.entries[1])
}

// Who lacks the state that a resumed run begins with counts for the start, and comes in with the first Commit. The creator
// always has it.
func TestJoinWithoutTheFirstState(t *testing.T) {
	s := newCluster(t, 3)
	s.decided, s.train = never, false
	s.person = func(id uint64) Member {
		m := daemon(id)
		m.Offer.Late = id != 2
		return m
	}
	s.grow(3)
	if v := s.view(1); v.Number != 1 || !slices.Equal(s.inView(1), []uint64{1, 2}) || len(s.entries[3]) > 0 {
		t.Fatalf("the first view is %+v, member 3 has %+v", v, s.entries[3])
	}
	s.begin()
	s.until(2, "member 3 is in", func() bool { return len(s.inView(1)) == 3 })
	if first := s.entries[3][0]; first.Kind != EntryCommit || first.Payload == nil || slices.Contains(first.View.Place.Owner, 2) {
		t.Errorf("first entry %+v", first)
	}
	s.until(30, "it owns its share", func() bool { return slices.Contains(s.view(3).Place.Owner, 2) })
	checkFills(t, s.entries[1])
}

// checkFills follows all entries of a member: only holders own, and a holder is one by a fill of a committed attempt.
func checkFills(t *testing.T, entries []Entry) {
	t.Helper()
	var have place.Map
	var ids []uint64
	var fills []place.Fill
	for _, e := range entries {
		if e.Kind == EntryCommit {
			have = have.Apply(fills)
		}
		if e.View != nil {
			var now []uint64
			for _, m := range e.View.Members {
				now = append(now, m.ID)
			}
			if err := onlyHolders(have, e.View.Place, ids, now); ids != nil && err != nil {
				t.Errorf("view %d: %v", e.View.Number, err)
			}
			have, ids = e.View.Place, now
		}
		fills = e.Fills
	}
}

// More peers than the first view waits for may come before it.
func TestMoreThanExpected(t *testing.T) {
	s := newCluster(t, 2)
	s.hold = func(m *Message) bool { return m.To == 2 } // it can't be ready yet
	s.open(1, nil)
	s.admit(2)
	s.admit(3)
	held := s.held
	s.hold, s.held = nil, nil
	for _, m := range held {
		s.post(m)
	}
	s.ticks(10)
	for _, id := range s.ids {
		if v := s.inView(id); len(v) != 3 {
			t.Errorf("member %d: view %v", id, v)
		}
	}
}

// Joiners that die, before they are in the view and after, cost nothing or one attempt.
func TestJoinerDies(t *testing.T) {
	s := newCluster(t, 3)
	s.decided, s.train = never, false
	s.grow(3)
	s.admit(4)
	s.kill(4)
	s.until(5, "it is out", func() bool { return len(s.cores[1].Members()) == 3 })
	if len(s.entries[1]) != 1 || len(s.cores[1].conf.GetLearners()) != 0 {
		t.Errorf("entries %+v, learners %v", s.entries[1], s.cores[1].conf.GetLearners())
	}
	s.admit(5)
	s.ticks(3)
	s.begin()
	s.train = false
	s.until(5, "it is in", func() bool { return len(s.inView(1)) == 4 })
	s.kill(5)
	s.until(5, "it is out", func() bool { return len(s.inView(1)) == 3 })
	if e := s.last(1); e.Kind != EntryView || string(e.Payload) != "0.0" {
		t.Errorf("%+v", e)
	}
}

// The donor of a fill dies in the middle: another holder is the owner then, and the fill goes on from it.
func TestDonorDies(t *testing.T) {
	s := newCluster(t, 3)
	s.decided, s.train = never, false
	s.grow(3)
	s.admit(4)
	s.ticks(3)
	s.begin()
	s.train = false
	s.until(5, "fills have begun", func() bool { return len(s.last(1).Fills) > 0 })
	e := s.last(1)
	donor := s.ids[e.View.Place.Owner[e.Fills[0].Range]]
	s.kill(donor)
	left := s.alive()
	s.train = true
	s.until(10, "another view", func() bool { return slices.Equal(s.inView(4), left) })
	s.begin()
	s.until(60, "everything is as wanted", func() bool {
		c := s.cores[4]
		return c.Redundancy() == 1 && c.View().Place.Equal(c.Wanted())
	})
	checkFills(t, s.entries[left[0]])
}

// Nobody is filled more than the budget allows, but at least one range.
func TestFillBudget(t *testing.T) {
	s := newCluster(t, 1)
	s.decided = never
	s.train = false
	for i := range s.ranges {
		s.ranges[i].Size = 200_000 // 2.4 MB
	}
	s.grow(1)
	s.admit(2)
	s.ticks(3)
	for _, x := range []struct {
		budget int64
		want   int
	}{{1, 1}, {firstBudget, 1}, {5 << 20, 2}, {1 << 30, 24}} {
		c := s.cores[1]
		c.pace.budget = x.budget
		p := c.planned(true)
		p.regroup()
		p.fill()
		if len(p.fills) != x.want || !p.view || len(p.ids) != 2 {
			t.Errorf("budget %d: %d fills, want %d", x.budget, len(p.fills), x.want)
		}
	}
}

// A member that leaves is out with the next Commit when others hold all that it holds; otherwise it is emptied first.
func TestLeave(t *testing.T) {
	for _, x := range []struct {
		members, backups int
		who              []uint64
	}{
		{2, 1, []uint64{2}}, {2, 1, []uint64{1}}, {2, 0, []uint64{2}}, {2, 0, []uint64{1}},
		{3, 1, []uint64{3}}, {3, 1, []uint64{1}}, {3, 0, []uint64{1}}, {3, 1, []uint64{2, 3}},
		{5, 1, []uint64{1}}, {5, 0, []uint64{1, 2}}, {5, place.All, []uint64{1, 2, 3}}, {6, 1, []uint64{6}},
	} {
		t.Run(fmt.Sprintf("%d backups %d leave %v", x.members, x.backups, x.who), func(t *testing.T) {
			s := newCluster(t, x.members)
			s.backups, s.decided, s.train = x.backups, never, false
			s.grow(x.members)
			for _, id := range x.who {
				s.cores[id].Leave("interrupted \xff")
				s.collect(id)
			}
			s.begin()
			s.until(60, "they have left", func() bool {
				return !slices.ContainsFunc(x.who, func(id uint64) bool { return !s.cores[id].Left() })
			})
			s.silence(x.who...)
			left := s.alive()
			for _, id := range x.who {
				if !s.cores[id].Finished() || s.stopped(id) != nil || s.last(id).View == nil || s.last(id).View.Rank != -1 {
					t.Errorf("member %d: finished %v, stopped %+v, last entry %+v", id, s.cores[id].Finished(), s.stopped(id), s.last(id))
				}
			}
			step := s.step(left[0])
			s.until(8, "the others go on", func() bool { return s.step(left[0]) > step+3 })
			s.until(60, "redundancy", func() bool { return s.cores[left[0]].Redundancy() >= min(max(x.backups, 0), len(left)-1) })
			for _, id := range left {
				c := s.cores[id]
				if !slices.Equal(s.inView(id), left) || len(c.Members()) != len(left) || len(c.Faults()) != 0 || len(c.Voters()) != votersFor(len(left)) {
					t.Errorf("member %d: view %v, members %d, faults %v, voters %v", id, s.inView(id), len(c.Members()), c.Faults(), c.Voters())
				}
			}
			for _, e := range s.entries[left[0]][1:] {
				if e.Kind == EntryView || e.Kind == EntryLate {
					t.Errorf("an attempt was aborted: %+v", e)
				}
			}
			checkFills(t, s.entries[left[0]])
		})
	}
}

func TestTheLastOneLeaves(t *testing.T) {
	s := newCluster(t, 1)
	s.train = false
	s.grow(1)
	s.cores[1].Leave("x")
	if !s.cores[1].Left() || !s.cores[1].Finished() {
		t.Error("the only member can't leave")
	}
	for _, n := range []int{2, 5} { // all at the same time
		s = newCluster(t, n)
		s.decided, s.train = never, false
		s.grow(n)
		for _, id := range s.ids {
			s.cores[id].Leave("x")
			s.collect(id)
		}
		s.begin()
		s.until(3, "all have left", func() bool {
			return !slices.ContainsFunc(s.ids, func(id uint64) bool { return !s.cores[id].Deserted() || !s.cores[id].Left() })
		})
	}
}

// Browsers can't keep the log: without a daemon the run ends, and says why.
func TestTheLastDaemonLeaves(t *testing.T) {
	s := newCluster(t, 2)
	s.person = func(id uint64) Member {
		if id == 1 {
			return daemon(id)
		}
		return browser(id)
	}
	s.decided, s.train = never, false
	s.grow(2)
	s.cores[1].Leave("interrupted")
	s.collect(1)
	s.ticks(3)
	for _, id := range s.ids {
		if e := s.stopped(id); e == nil || !strings.Contains(e.Reason, "(rank 0) left: interrupted; nobody else can keep the run's log") {
			t.Errorf("member %d: %+v", id, e)
		}
	}
}

// Before the start a peer that goes, or is lost, makes room for another, also when it was a voter.
func TestLeaveBeforeTheStart(t *testing.T) {
	for _, kill := range []bool{false, true} {
		s := newCluster(t, 4)
		s.train = false
		s.open(1, nil)
		s.admit(2)
		s.admit(3)
		s.ticks(5)
		if n := len(s.cores[1].Voters()); n != 3 {
			t.Fatalf("%d voters", n)
		}
		if kill {
			s.kill(2)
		} else {
			s.cores[2].Leave("x")
			s.collect(2)
			s.pump()
		}
		s.ticks(5)
		if c := s.cores[1]; len(c.Members()) != 2 || !slices.Equal(c.Voters(), []uint64{1}) || !kill && !s.cores[2].Left() {
			t.Errorf("kill %v: members %v, voters %v", kill, c.Members(), c.Voters())
		}
		s.silence(2)
		s.admit(4)
		s.admit(5)
		s.ticks(10)
		if v := s.view(5); v == nil || len(v.Members) != 4 || v.Members[1].ID != 3 {
			t.Errorf("kill %v: view %+v", kill, v)
		}
		if len(s.cores[5].Voters()) != 3 {
			t.Errorf("kill %v: voters %v", kill, s.cores[5].Voters())
		}
	}
}

// Two of three voters that leave at once vote until they don't: the third is never alone with their votes missing.
func TestVotersLeaveBeforeTheStart(t *testing.T) {
	s := newCluster(t, 4)
	s.open(1, nil)
	s.admit(2)
	s.admit(3)
	s.ticks(5)
	for _, id := range []uint64{2, 3} {
		s.cores[id].Leave("x")
		s.collect(id)
	}
	s.pump()
	for range 10 {
		s.tick()
		for _, id := range []uint64{2, 3} {
			s.dead[id] = s.cores[id].Left()
		}
	}
	if c := s.cores[1]; !s.dead[2] || !s.dead[3] || len(c.Members()) != 1 || !slices.Equal(c.Voters(), []uint64{1}) {
		t.Errorf("members %v, voters %v", c.Members(), c.Voters())
	}
}

func TestCreatorLeavesBeforeTheStart(t *testing.T) {
	s := newCluster(t, 3)
	s.open(1, nil)
	s.admit(2)
	s.cores[1].Leave("interrupted")
	s.collect(1)
	s.pump()
	s.ticks(6)
	for _, id := range s.ids {
		if e := s.stopped(id); e == nil || !strings.Contains(e.Reason, "left: interrupted") {
			t.Errorf("member %d: %+v", id, e)
		}
	}
}
