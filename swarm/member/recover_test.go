package member

import (
	"slices"
	"strings"
	"testing"

	"shoal/internal/place"
)

// recovered has the living begin the log anew, by self.
func (s *cluster) recovered(self uint64) error {
	var snapshots [][]byte
	for _, id := range s.alive() {
		snapshots = append(snapshots, s.cores[id].Snapshot())
	}
	b, err := Recovered(snapshots, self, s.alive(), nil)
	if err != nil {
		return err
	}
	for _, id := range s.alive() {
		if err := s.cores[id].Adopt(b); err != nil {
			s.t.Errorf("member %d: %v", id, err)
		}
		if s.cores[id].Adopt(b) == nil {
			s.t.Errorf("member %d adopts the same twice", id)
		}
		s.collect(id)
	}
	s.pump()
	return nil
}

func TestRecover(t *testing.T) {
	for _, x := range []struct {
		members, backups int
		dead             []uint64
	}{
		{2, 1, []uint64{1}}, {3, 2, []uint64{1, 2}}, {5, 4, []uint64{1, 2, 4}}, {4, place.All, []uint64{2, 3}},
	} {
		s := newCluster(t, x.members)
		s.backups, s.decided = x.backups, endAt(20)
		s.config = func(c *Config) {
			c.Decide = func(run, prev []byte, work []int64, readies [][]byte) Decision {
				d := s.decide(run, prev, work, readies)
				if string(d.Payload) == "7.0" {
					s.train = false // nobody is ready for the next step yet
				}
				return d
			}
		}
		s.grow(x.members)
		s.until(30, "step 7", func() bool { return !s.train })
		s.tick()
		s.kill(x.dead...)
		s.ticks(60)
		left := s.alive()
		if err := s.recovered(left[0]); err != nil {
			t.Fatal(err)
		}
		for rank, id := range left {
			e := s.last(id)
			if e.Kind != EntryView || e.View == nil || e.View.Rank != rank || string(e.Payload) != "7.0" || e.View.Reason != "recovered from the survivors" {
				t.Errorf("%+v: member %d: %+v", x, id, e)
			}
			if c := s.cores[id]; Recoveries(c.Generation()) != 1 || len(c.Members()) != len(left) || !c.Removed(x.dead[0]) {
				t.Errorf("%+v: member %d: generation %d, members %v", x, id, c.Generation(), c.Members())
			}
		}
		s.begin()
		s.until(40, "the end", s.allDone)
		for _, id := range left {
			if e := s.last(id); e.Kind != EntryDone || string(e.Payload) != "20.0" || s.stuck(id).Reason != "" {
				t.Errorf("%+v: member %d: %+v, stuck %+v", x, id, e, s.stuck(id))
			}
		}
		// Whoever comes back from the old log has no effect, and is told that it is out.
		s.wake(x.dead[0])
		s.ticks(30)
		if e := s.stopped(x.dead[0]); e == nil || !e.Gone {
			t.Errorf("%+v: member %d: %+v", x, x.dead[0], e)
		}
	}
}

// The longest log of the newest generation wins; what nobody holds can't be recovered.
func TestRecoverChooses(t *testing.T) {
	s := newCluster(t, 3)
	s.backups, s.train = place.All, false
	s.grow(3)
	c := s.cores[1]
	short := c.Snapshot()
	if !c.propose(&record{Kind: recordRetry, Follows: c.Fence(), Work: make([]int64, 3), Body: []byte("newer")}) {
		t.Fatal("not proposed")
	}
	c.settle()
	s.collect(1)
	s.pump()
	b, err := Recovered([][]byte{short, s.cores[2].Snapshot(), short}, 2, []uint64{3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, st, err := decodeSnapshot(b)
	if err != nil || string(st.Payload) != "newer" || st.Generation != NextGeneration(0, 2) || m.GetMetadata().GetIndex() != s.cores[2].Applied()+skipped {
		t.Errorf("%+v, %v", st, err)
	}
	if conf := m.GetMetadata().GetConfState(); !slices.Equal(conf.GetVoters(), []uint64{2}) || !slices.Equal(conf.GetLearners(), []uint64{3}) {
		t.Errorf("configuration %v", conf)
	}
	if again, err := Recovered([][]byte{s.cores[3].Snapshot(), b}, 3, nil, nil); err != nil {
		t.Error("of a recovered log:", err)
	} else if _, st, _ := decodeSnapshot(again); Recoveries(st.Generation) != 2 || len(st.Members) != 1 {
		t.Errorf("%+v", st)
	}
	for what, f := range map[string]func() ([]byte, error){
		"nobody has told":      func() ([]byte, error) { return Recovered(nil, 1, nil, nil) },
		"no member of the run": func() ([]byte, error) { return Recovered([][]byte{short}, 9, nil, nil) },
		"snapshot of the log":  func() ([]byte, error) { return Recovered([][]byte{{1, 2}}, 1, nil, nil) },
	} {
		if _, err := f(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want something about %q", err, what)
		}
	}
	none := newCluster(t, 3)
	none.backups, none.train = 0, false
	none.grow(3)
	none.silence(1, 2)
	if err := none.recovered(3); err == nil || !strings.Contains(err.Error(), "no survivor holds 16 of 24 ranges") {
		t.Errorf("%v", err)
	}
}

func FuzzRecovered(f *testing.F) {
	for _, st := range someStates() {
		f.Add(snapshotOf(st, 5, 2, newConf(1, 2)), uint64(2))
	}
	f.Fuzz(func(t *testing.T, b []byte, self uint64) {
		got, err := Recovered([][]byte{b}, self, []uint64{1}, map[uint64]string{1: "a", self: "a"})
		if err != nil {
			return
		}
		if _, st, err := decodeSnapshot(got); err != nil || st.Generation == 0 {
			t.Fatalf("%+v, %v", st, err)
		}
		s := newCluster(t, 2)
		s.open(1, nil)
		s.admit(2)
		if err := s.cores[2].Adopt(got); err == nil {
			s.cores[2].Tick()
		}
	})
}
