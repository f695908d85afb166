package shoal

import (
	"context"
	"errors"
	"math"
	"os"
	"testing"
	"time"

	"shoal/internal/status"
	"shoal/swarm"
)

// scripted is a membership that says what it is told to.
type scripted struct {
	says swarm.Status
	err  error
}

func (s *scripted) Status() swarm.Status          { return s.says }
func (s *scripted) Recover(context.Context) error { return s.err }

func TestLive(t *testing.T) {
	l := newLive(Status{RunID: "5f0c", Name: "digits", Steps: 9, Peer: "me"}, func() (int, int) { return 12, 3 },
		func() []status.Traffic { return []status.Traffic{{Class: "control", Sent: 5}} },
		func() status.Relaying { return status.Relaying{Circuits: 2} })
	s := l.Status()
	if s.Version != status.Version || s.PID != os.Getpid() || s.RunID != "5f0c" || s.Step != 0 || !math.IsNaN(float64(s.Loss)) ||
		s.Streams != 12 || s.Connections != 3 || s.Relaying.Circuits != 2 || len(s.Traffic) != 1 || len(s.Members) != 0 || s.SamplesPerSecond != 0 {
		t.Errorf("before anything it is %+v", s)
	}
	if err := l.Recover(t.Context()); err == nil {
		t.Error("it recovers a run that it is not in")
	}
	node := &scripted{says: swarm.Status{View: 7, Fence: 431, Leader: "me", Promise: 1, Redundancy: 1, Wanted: 2, Stuck: "why", Phase: "reduce", Unit: 3,
		Waiting: []string{"b"}, Faults: []swarm.Fault{{Peer: "c", Reason: "was lost", Fence: 400, Ago: 50}},
		Members: []swarm.MemberStatus{{ID: 9, Peer: "new", Rank: -1}, {ID: 2, Peer: "b", Rank: 1, Voter: true},
			{ID: 1, Peer: "me", Rank: 0, Voter: true, Owns: 100, Holds: 50, FillsLeft: 4, Work: 7}}}}
	l.entered(node)
	l.committed(3, 300, 1.5, 2)
	s = l.Status()
	if s.Step != 3 || s.Samples != 300 || s.Loss != 1.5 || s.Retries != 2 || s.View != 7 || s.Fence != 431 || s.Survives != 1 ||
		s.Voters != 2 || s.InView() != 2 || s.Stuck != "why" || s.Phase != "reduce" || s.Unit != 3 || len(s.Waiting) != 1 {
		t.Errorf("in the run it is %+v", s)
	}
	if m := s.Members[0]; m.Peer != "me" || m.Owned != 1200 || m.BackedUp != 600 || m.ToFill != 4 || m.Micros != 7 || s.Members[2].Peer != "new" {
		t.Errorf("the members are %+v", s.Members)
	}
	if f := s.Faults; len(f) != 1 || f[0].Peer != "c" || f[0].Seconds != 50*swarm.Tick.Seconds() {
		t.Errorf("the faults are %+v", f)
	}
	node.err = errors.New("not stuck")
	if err := l.Recover(t.Context()); !errors.Is(err, node.err) {
		t.Errorf("Recover says %v", err)
	}
}

// The rate is that of the last seconds alone.
func TestLiveRate(t *testing.T) {
	l := newLive(Status{}, nil, nil, nil)
	now := time.Now()
	l.seen = []progressed{{at: now.Add(-time.Hour)}, {at: now.Add(-8 * time.Second), samples: 1000}, {at: now.Add(-4 * time.Second), samples: 1100}}
	l.committed(9, 1200, 0, 0)
	if r := l.rate(); math.Abs(r-25) > 1 {
		t.Errorf("%f samples per second, want 25", r)
	}
	l.committed(10, 1200, 0, 0) // within the clock's resolution perhaps
	if r := l.rate(); math.IsInf(r, 0) || math.IsNaN(r) {
		t.Errorf("%f samples per second", r)
	}
}
