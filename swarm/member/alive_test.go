package member

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"shoal/internal/place"
	"shoal/swarm/wire"
)

func TestGone(t *testing.T) {
	lan := LAN()
	for _, x := range []struct {
		silent uint64
		down   bool
		want   bool
	}{{0, false, false}, {0, true, false}, {9, true, false}, {10, true, true}, {24, false, false}, {25, false, true}, {25, true, true}} {
		if got := lan.gone(x.silent, x.down); got != x.want {
			t.Errorf("silent %d, down %v: %v", x.silent, x.down, got)
		}
	}
}

func TestTimingIsChecked(t *testing.T) {
	for _, bad := range []Timing{{Beat: -1}, {Suspect: 10, Beat: 5}, {Stuck: 25}, {Election: 1}, {LostAfter: -1}, {Deadline: -1}} {
		if err := bad.validate(); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	var zero Timing
	if err := zero.validate(); err != nil || zero != LAN() {
		t.Errorf("zero became %+v, %v", zero, err)
	}
	wan := WAN()
	if err := wan.validate(); err != nil || wan != WAN() {
		t.Errorf("WAN became %+v, %v", wan, err)
	}
}

// Whoever dies, the others go on with the very next step, within a few ticks after a reset and within 40 of silence.
func TestDeaths(t *testing.T) {
	for _, x := range []struct {
		members, backups int
		dead             []uint64
		silent           bool // as if stopped or unplugged: no reset is seen
	}{
		{members: 2, backups: 1, dead: []uint64{2}},
		{members: 2, backups: 1, dead: []uint64{2}, silent: true},
		{members: 3, backups: 1, dead: []uint64{3}},
		{members: 3, backups: 1, dead: []uint64{3}, silent: true},
		{members: 3, backups: 1, dead: []uint64{1}},
		{members: 3, backups: 1, dead: []uint64{1}, silent: true},
		{members: 4, backups: 1, dead: []uint64{4}},
		{members: 5, backups: 1, dead: []uint64{5}},
		{members: 5, backups: 2, dead: []uint64{4, 5}},
		{members: 5, backups: 2, dead: []uint64{4, 5}, silent: true},
		{members: 5, backups: 2, dead: []uint64{1, 2}},
		{members: 5, backups: 2, dead: []uint64{1, 3}, silent: true},
		{members: 5, backups: place.All, dead: []uint64{1, 2}},
		{members: 6, backups: 1, dead: []uint64{1}},
	} {
		t.Run(fmt.Sprintf("%d of %v silent %v", x.members, x.dead, x.silent), func(t *testing.T) {
			s := newCluster(t, x.members)
			s.backups, s.train, s.decided = x.backups, false, endAt(40)
			s.grow(x.members)
			limit := 8 // ticks
			if x.silent {
				s.silence(x.dead...)
				limit = 40
			} else {
				s.kill(x.dead...)
			}
			left := slices.DeleteFunc(slices.Clone(s.ids), func(id uint64) bool { return s.dead[id] })
			n := s.until(limit, "a view without the dead", func() bool {
				return !slices.ContainsFunc(left, func(id uint64) bool { return !slices.Equal(s.inView(id), left) })
			})
			t.Logf("%d ticks", n)
			e := s.last(left[0])
			if e.Kind != EntryView || e.Payload != nil || len(e.Work) != len(left) {
				t.Errorf("entry %+v", e)
			}
			for rank, id := range left {
				if v := s.view(id); v.Rank != rank || v.Place.Check(len(s.ranges), len(left)) != nil {
					t.Errorf("member %d: view %+v", id, v)
				}
			}
			s.begin()
			s.until(70, "the end", s.allDone)
			for _, id := range left {
				c := s.cores[id]
				if !c.Finished() || s.stopped(id) != nil || len(c.Members()) != len(left) {
					t.Errorf("member %d: finished %v, stopped %+v, members %v", id, c.Finished(), s.stopped(id), c.Members())
				}
				if f := c.Faults(); len(f) == 0 || !strings.Contains(f[0].Reason, "was lost") || f[0].Index == 0 || f[0].Ago > 60 {
					t.Errorf("member %d: faults %+v", id, f)
				}
				if want := min(max(x.backups, 1), len(left)-1); x.backups > 0 && c.Redundancy() != want {
					t.Errorf("member %d: redundancy %d, want %d again", id, c.Redundancy(), want)
				}
				if len(c.Voters()) != votersFor(len(left)) || slices.ContainsFunc(c.Voters(), func(v uint64) bool { return s.dead[v] }) {
					t.Errorf("member %d: voters %v", id, c.Voters())
				}
			}
		})
	}
}

// One death after another: while each is repaired before the next, any number is survived.
func TestDeathsInTurn(t *testing.T) {
	s := newCluster(t, 7)
	s.decided = never
	s.train = false
	s.grow(7)
	for _, id := range []uint64{1, 4, 2, 7, 3} {
		s.begin()
		s.train = false
		s.kill(id)
		left := s.alive()
		s.until(40, "a view without the dead, and full redundancy", func() bool {
			s.begin()
			s.train = false
			lead := s.leader()
			return lead != 0 && slices.Equal(s.inView(lead), left) && s.cores[lead].Redundancy() == 1 && len(s.cores[lead].Voters()) == votersFor(len(left))
		})
	}
}

// Without a quorum nothing is decided. Everybody says so and names the missing; when these come back, the run goes on.
func TestQuorumLostAndBack(t *testing.T) {
	for _, x := range []struct {
		members int
		dead    []uint64
		words   string
	}{
		{2, []uint64{1}, "with 2 peers there is one voter"},
		{3, []uint64{1, 2}, "more than half of its 3 voters must be there"},
		{5, []uint64{1, 3, 5}, "more than half of its 5 voters must be there"},
	} {
		s := newCluster(t, x.members)
		s.backups, s.train, s.decided = place.All, false, endAt(10)
		s.grow(x.members)
		s.silence(x.dead...)
		left := s.alive()
		s.until(90, "everybody knows", func() bool {
			return !slices.ContainsFunc(left, func(id uint64) bool { return !strings.Contains(s.stuck(id).Reason, x.words) })
		})
		for _, id := range left {
			e := s.stuck(id)
			if !strings.Contains(e.Reason, fmt.Sprintf("(rank %d)", x.dead[0]-1)) || len(e.Missing) != len(x.dead) || e.Missing[0].ID != x.dead[0] {
				t.Errorf("%d of %v: member %d: %+v", x.members, x.dead, id, e)
			}
		}
		s.ticks(1000) // a long time
		for _, id := range x.dead {
			s.wake(id)
		}
		s.begin()
		s.until(60, "the end", s.allDone)
		for _, id := range s.ids {
			if e := s.last(id); e.Kind != EntryDone || s.stuck(id).Reason != "" || s.stopped(id) != nil || len(s.cores[id].Faults()) > 0 {
				t.Errorf("%d of %v: member %d: %+v, stuck %+v, stopped %+v", x.members, x.dead, id, e, s.stuck(id), s.stopped(id))
			}
		}
	}
}

// A range that nobody else holds: nobody is taken out (PROTOCOL.md 8). If its holder comes back, the run goes on; if not,
// it ends after LostAfter ticks and names the way on.
func TestLastHolder(t *testing.T) {
	for _, back := range []bool{true, false} {
		s := newCluster(t, 4)
		s.backups, s.train, s.decided = 0, false, endAt(10)
		s.grow(4)
		s.silence(4)
		s.until(40, "everybody knows", func() bool {
			return !slices.ContainsFunc(s.alive(), func(id uint64) bool { return s.stuck(id).Reason == "" })
		})
		if e := s.stuck(2); !strings.Contains(e.Reason, "nobody else holds 6 of 24 ranges of the model that peer …00000004 (rank 3) had") || len(e.Missing) != 1 {
			t.Errorf("%+v", e)
		}
		s.ticks(LAN().LostAfter - 50)
		if len(s.inView(1)) != 4 || s.stopped(1) != nil {
			t.Fatalf("view %v, stopped %+v", s.inView(1), s.stopped(1))
		}
		if back {
			s.wake(4)
			s.begin()
			s.until(30, "the end", s.allDone)
			if s.stuck(1).Reason != "" || s.last(4).Kind != EntryDone {
				t.Errorf("stuck %+v, member 4: %+v", s.stuck(1), s.last(4))
			}
			continue
		}
		s.ticks(60)
		for _, id := range s.alive() {
			if e := s.stopped(id); e == nil || e.Local || e.Rank != 3 || !strings.Contains(e.Reason, "shoal up --resume") {
				t.Errorf("member %d: %+v", id, e)
			}
		}
	}
}

// When processes have ended that alone held some range, and the quorum with them, the log can't say that the run is over: the
// survivors give up by themselves, after LostAfter ticks. Those that are only silent may come back, however long it takes.
func TestLastHolderAndQuorum(t *testing.T) {
	for _, killed := range []bool{true, false} {
		s := newCluster(t, 5)
		s.train = false
		s.grow(5)
		if killed {
			s.kill(1, 2, 3)
		} else {
			s.silence(1, 2, 3)
		}
		words := "nobody else holds "
		s.until(90, "both know", func() bool {
			return strings.Contains(s.stuck(4).Reason, words) && strings.Contains(s.stuck(5).Reason, words)
		})
		s.ticks(LAN().LostAfter - 90)
		for _, id := range []uint64{4, 5} {
			if s.stopped(id) != nil || !strings.Contains(s.stuck(id).Reason, "if that is gone for good, go on from the last checkpoint") {
				t.Errorf("member %d: stuck %+v, stopped %+v", id, s.stuck(id), s.stopped(id))
			}
		}
		s.ticks(100)
		for _, id := range []uint64{4, 5} {
			e := s.stopped(id)
			if killed && (e == nil || !e.Local || e.Gone || !strings.HasPrefix(e.Reason, words) || !strings.HasSuffix(e.Reason, lastResort) || !s.cores[id].Finished()) {
				t.Errorf("member %d: %+v", id, e)
			}
			if !killed && e != nil {
				t.Errorf("member %d gave up: %+v", id, e)
			}
		}
	}
}

// A member that was taken for dead by mistake is told so by whomever it talks to.
func TestTakenOutByMistake(t *testing.T) {
	for _, id := range []uint64{1, 3} { // 1 leads
		s := newCluster(t, 3)
		s.decided = never
		s.grow(3)
		s.silence(id)
		s.until(60, "a view without it", func() bool { return len(s.inView(2)) == 2 })
		s.wake(id)
		s.ticks(5)
		if e := s.stopped(id); e == nil || !e.Gone || !e.Local || !s.cores[id].Finished() || s.cores[id].Left() {
			t.Errorf("member %d: %+v", id, e)
		}
		if s.stopped(2) != nil || !s.cores[2].Removed(id) || s.cores[2].Removed(2) {
			t.Errorf("without %d, member 2: %+v", id, s.stopped(2))
		}
	}
}

// Gone is believed only of what this member doesn't know better.
func TestStaleGone(t *testing.T) {
	s := newCluster(t, 2)
	s.train = false
	s.grow(2)
	c := s.cores[2]
	c.Step(&Message{Kind: wire.ControlGone, From: 1, To: 2, Index: c.Applied(), Reason: "x"})
	s.collect(2)
	if e := s.stopped(2); e != nil {
		t.Errorf("%+v", e)
	}
}

// A process that starts again is another member. Its old one is dead when its link is down, and makes room.
func TestNewIncarnation(t *testing.T) {
	s := newCluster(t, 3)
	s.train = false
	s.grow(3)
	again := s.person(9)
	again.Peer = s.person(3).Peer
	if refused, ok := s.cores[1].Admit(again); !ok || !strings.Contains(refused, "in the run already") {
		t.Errorf("while the first one answers: %q, %v", refused, ok)
	}
	s.dead[3] = true
	s.cores[1].LinkDown(3)
	if refused, ok := s.cores[1].Admit(again); ok || refused != "" {
		t.Errorf("the link is down: %q, %v", refused, ok)
	}
	s.collect(1)
	s.pump()
	if v := s.inView(2); !slices.Equal(v, []uint64{1, 2}) {
		t.Fatalf("view %v", v)
	}
	if refused, ok := s.cores[1].Admit(again); !ok || refused != "" {
		t.Errorf("the first one is out: %q, %v", refused, ok)
	}
}

// PROTOCOL.md 14: a leader that was stopped for a long time, and for most of many short times, expels nobody.
func TestTickGap(t *testing.T) {
	s := newCluster(t, 3)
	s.train = false
	s.grow(3)
	c := s.cores[1]
	for range 8 { // the others hear each other and elect nobody: they are slow as well
		c.Tick() // without input: as after waking
	}
	for n := range 200 {
		if n%10 == 0 { // awake for one tick of ten: drain, start afresh, tick
			s.pump()
			c.Resume()
			c.Tick()
			s.collect(1)
		}
		held := s.inFlight
		s.inFlight = nil
		for _, m := range held { // what goes to the sleeping leader waits in its buffers
			if m.To != 1 {
				s.inFlight = append(s.inFlight, m)
			}
		}
		s.pump()
		for _, m := range held {
			if m.To == 1 {
				s.inFlight = append(s.inFlight, m)
			}
		}
	}
	s.pump()
	for _, id := range s.ids {
		if len(s.inView(id)) != 3 || s.stopped(id) != nil {
			t.Errorf("member %d: view %v, %+v", id, s.inView(id), s.stopped(id))
		}
	}
}

// Without Resume the same gap does cost members: the test above tests something.
func TestTicksWithoutInputLoseEverybody(t *testing.T) {
	s := newCluster(t, 2)
	s.train = false
	s.grow(2)
	for range LAN().Suspect {
		s.cores[1].Tick()
	}
	s.collect(1)
	if v := s.inView(1); len(v) != 1 {
		t.Errorf("view %v", v)
	}
}

// Whoever still gives signs of life is not lost, however late its messages are.
func TestAlive(t *testing.T) {
	s := newCluster(t, 2)
	s.train = false
	s.grow(2)
	for n := range 3 * LAN().Suspect {
		if n%10 == 0 {
			s.cores[1].Alive(2)
		}
		s.cores[1].Tick()
	}
	s.collect(1)
	if v := s.inView(1); len(v) != 2 {
		t.Errorf("view %v", v)
	}
}
