package member

import (
	"slices"
	"testing"
)

// A dead voter is replaced by a living daemon, in one step: never by a browser, and never are there two or four.
func TestDeadVoterIsReplaced(t *testing.T) {
	for _, dead := range []uint64{1, 2} {
		s := newCluster(t, 5)
		s.person = func(id uint64) Member {
			if id == 4 {
				return browser(id)
			}
			return daemon(id)
		}
		s.decided = never
		s.hold = func(*Message) bool {
			for _, id := range s.alive() {
				if n := len(s.cores[id].Voters()); n != 1 && n != 3 {
					t.Errorf("member %d: %d voters", id, n)
				}
			}
			return false
		}
		s.train = false
		s.grow(5)
		if v := s.cores[5].Voters(); !slices.Equal(v, []uint64{1, 2, 3}) {
			t.Fatalf("voters %v", v)
		}
		s.kill(dead)
		want := slices.DeleteFunc([]uint64{1, 2, 3, 5}, func(id uint64) bool { return id == dead })
		n := s.until(10, "another voter", func() bool { return slices.Equal(s.cores[5].Voters(), want) })
		t.Logf("%d ticks", n)
	}
}

// A dead leader is followed within few ticks when its streams were reset, also when others notice late.
func TestElectionAtOnce(t *testing.T) {
	s := newCluster(t, 5)
	s.train = false
	s.grow(5)
	s.dead[1] = true
	for i, id := range []uint64{2, 3, 4, 5} { // one after another
		s.cores[id].LinkDead(1)
		s.collect(id)
		s.pump()
		if lead := s.leader(); i < 2 && lead != 0 {
			t.Fatalf("member %d leads by %d votes", lead, i+1)
		}
		s.ticks(1)
	}
	s.until(3, "a new leader and a view", func() bool { return s.leader() == 2 && len(s.inView(5)) == 4 })
}

// A leader that was said to be dead, and is not, leads on.
func TestFalseDeath(t *testing.T) {
	s := newCluster(t, 3)
	s.decided = never
	s.grow(3)
	s.cores[3].LinkDead(1)
	s.collect(3)
	s.ticks(5)
	s.cores[3].LinkUp(1)
	s.ticks(5)
	step := s.step(3)
	s.ticks(3)
	if s.leader() != 1 || s.step(3) <= step || len(s.inView(3)) != 3 {
		t.Errorf("leader %d, step %d after %d, view %v", s.leader(), s.step(3), step, s.inView(3))
	}
}

// With four daemons there are three voters, with a fifth five; with browsers there is one.
func TestVotersGrow(t *testing.T) {
	s := newCluster(t, 2)
	s.person = func(id uint64) Member {
		if id == 3 {
			return browser(id)
		}
		return daemon(id)
	}
	s.decided = never
	s.grow(2)
	for id, want := range []int{3: 1, 4: 3, 5: 3, 6: 5} {
		if want == 0 {
			continue
		}
		s.admit(uint64(id))
		s.until(10, "voters", func() bool { return len(s.cores[uint64(id)].Voters()) == want })
		s.ticks(5)
		if v := s.cores[1].Voters(); len(v) != want || slices.Contains(v, 3) {
			t.Errorf("with member %d: voters %v, want %d", id, v, want)
		}
	}
}
