package member

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestGone(t *testing.T) {
	lan := LAN()
	for _, x := range []struct {
		silent uint64
		down   bool
		want   bool
	}{{0, false, false}, {0, true, false}, {9, true, false}, {10, true, true}, {59, false, false}, {60, false, true}, {60, true, true}} {
		if got := lan.gone(x.silent, x.down); got != x.want {
			t.Errorf("silent %d, down %v: %v", x.silent, x.down, got)
		}
	}
}

func TestTimingIsChecked(t *testing.T) {
	for _, bad := range []Timing{{Beat: -1}, {Suspect: 10, Beat: 5}, {GiveUp: 60}, {Election: 1}} {
		if err := bad.validate(); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	var zero Timing
	if err := zero.validate(); err != nil || zero != LAN() {
		t.Errorf("zero became %+v, %v", zero, err)
	}
}

// Whoever dies, the others end and name the dead: after a reset within 4 s of ticks, after mere silence within 9 s.
func TestDeaths(t *testing.T) {
	for _, x := range []struct {
		members int
		dead    []uint64
		silent  bool // as if unplugged: no reset is seen
		local   bool // without a quorum each one finds out by itself
	}{
		{members: 2, dead: []uint64{2}},
		{members: 2, dead: []uint64{1}, local: true},
		{members: 2, dead: []uint64{1}, silent: true, local: true},
		{members: 3, dead: []uint64{3}},
		{members: 3, dead: []uint64{3}, silent: true},
		{members: 3, dead: []uint64{1}},
		{members: 3, dead: []uint64{1}, silent: true},
		{members: 3, dead: []uint64{2, 3}, local: true},
		{members: 3, dead: []uint64{1, 2}, local: true},
		{members: 5, dead: []uint64{5}},
		{members: 5, dead: []uint64{4, 5}, silent: true},
		{members: 5, dead: []uint64{1}},
		{members: 5, dead: []uint64{1, 2}, local: true},
	} {
		t.Run(fmt.Sprintf("%d of %v silent %v", x.members, x.dead, x.silent), func(t *testing.T) {
			s := newSim(t, x.members)
			s.train = false
			s.grow(x.members)
			for _, id := range x.dead {
				if x.silent {
					s.dead[id] = true
				} else {
					s.kill(id)
				}
			}
			n, limit := 0, 40 // ticks
			if x.silent {
				limit = 90
			}
			for ; n < limit && !s.allDone(); n++ {
				s.tick()
			}
			t.Logf("%d ticks", n)
			for _, id := range s.ids {
				if s.dead[id] {
					continue
				}
				stop, ok := s.events[id][len(s.events[id])-1].(Stopped)
				rank := fmt.Sprintf("(rank %d)", x.dead[0]-1)
				if !ok || stop.Local != x.local || !strings.Contains(stop.Reason, rank) || stop.Peer != s.person(x.dead[0]).Peer {
					t.Errorf("member %d: %+v", id, s.events[id][len(s.events[id])-1])
				}
				words := ", which the run's log needs: more than half of its 3 voters must be there"
				if x.members == 2 {
					words = ", which the run's log needs: with 2 peers there is one voter"
				}
				if x.local && !strings.Contains(stop.Reason, words) {
					t.Errorf("member %d: %q, want %q", id, stop.Reason, words)
				}
				if !s.cores[id].Finished() {
					t.Errorf("member %d can't go", id)
				}
			}
		})
	}
}

func TestLeaveNamesTheReason(t *testing.T) {
	for _, who := range []uint64{1, 2, 5} {
		s := newSim(t, 5)
		s.train = false
		s.grow(5)
		s.cores[who].Leave("interrupted \xff")
		s.collect(who)
		s.pump()
		s.ticks(1)
		want := fmt.Sprintf("(rank %d) left: interrupted ", who-1)
		for _, id := range s.ids {
			if got := s.stopped(id); !strings.HasSuffix(got, want) || !s.cores[id].Finished() {
				t.Errorf("%d leaves: member %d: %q, finished %v", who, id, got, s.cores[id].Finished())
			}
		}
	}
}

// Before the start a peer that goes, or is lost, makes room for another, also when it was a voter.
func TestLeaveBeforeTheStart(t *testing.T) {
	for _, kill := range []bool{false, true} {
		s := newSim(t, 4)
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
			s.ticks(20)
		} else {
			s.cores[2].Leave("interrupted")
			s.collect(2)
			s.pump()
			if got := s.stopped(2); !strings.Contains(got, "interrupted") {
				t.Errorf("member 2 was told %q", got)
			}
			s.dead[2] = true
			s.ticks(5)
		}
		if c := s.cores[1]; len(c.Members()) != 2 || !slices.Equal(c.Voters(), []uint64{1}) {
			t.Errorf("kill %v: members %v, voters %v", kill, c.Members(), c.Voters())
		}
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

func TestCreatorLeavesBeforeTheStart(t *testing.T) {
	s := newSim(t, 3)
	s.open(1, nil)
	s.admit(2)
	s.cores[1].Leave("interrupted")
	s.collect(1)
	s.pump()
	s.ticks(6)
	for _, id := range s.ids {
		if got := s.stopped(id); !strings.Contains(got, "left: interrupted") {
			t.Errorf("member %d: %q", id, got)
		}
	}
}

// PROTOCOL.md 14: a leader that was stopped for a long time, and for most of many short times, expels nobody.
func TestTickGap(t *testing.T) {
	s := newSim(t, 3)
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
		if got := s.stopped(id); got != "" {
			t.Errorf("member %d: %q", id, got)
		}
	}
}

// Without Resume the same gap does cost the run: the test above tests something.
func TestTicksWithoutInputLoseEverybody(t *testing.T) {
	s := newSim(t, 2)
	s.train = false
	s.grow(2)
	for range LAN().Suspect {
		s.cores[1].Tick()
	}
	s.collect(1)
	if got := s.stopped(1); !strings.Contains(got, "(rank 1) was lost") {
		t.Errorf("%q", got)
	}
}

// Whoever still gives signs of life is not lost, however late its messages are.
func TestAlive(t *testing.T) {
	s := newSim(t, 2)
	s.train = false
	s.grow(2)
	for n := range 3 * LAN().Suspect {
		if n%10 == 0 {
			s.cores[1].Alive(2)
		}
		s.cores[1].Tick()
	}
	s.collect(1)
	if got := s.stopped(1); got != "" {
		t.Error(got)
	}
}
