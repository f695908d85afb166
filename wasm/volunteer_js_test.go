package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"shoal"
	"shoal/kernel/wasm"
	"shoal/peer"
	"shoal/swarm"
)

// stage is a volunteer whose runs and pauses are the test's.
type stage struct {
	*testing.T
	commands chan command
	states   chan stateMessage
	runs     chan *part
	pauses   chan time.Duration
	again    chan time.Time // ends a pause
}

// part is a part in a run: the test says how it ends.
type part struct {
	ctx context.Context
	cfg shoal.Config
	end chan outcome
}

// newStage starts one. Nothing ends it but the test program.
func newStage(t *testing.T) *stage {
	s := &stage{t, make(chan command), make(chan stateMessage, 100), make(chan *part), make(chan time.Duration, 100), make(chan time.Time)}
	v := &volunteer{commands: s.commands, shared: true,
		post: func(m any) {
			if m, ok := m.(stateMessage); ok {
				s.states <- m
			}
		},
		run: func(ctx context.Context, cfg shoal.Config) (*shoal.Report, error) {
			p := &part{ctx, cfg, make(chan outcome)}
			s.runs <- p
			o := <-p.end
			return o.report, o.err
		},
		after: func(d time.Duration) <-chan time.Time {
			s.pauses <- d
			return s.again
		},
	}
	go func() { v.serve(<-s.commands) }()
	return s
}

// becomes waits for states, one after the other, and returns the reason of the last one.
func (s *stage) becomes(states ...string) (reason string) {
	s.Helper()
	for _, want := range states {
		select {
		case m := <-s.states:
			if m.State != want {
				s.Fatalf("it is %s (%s), want %s", m.State, m.Reason, want)
			}
			reason = m.Reason
		case <-time.After(10 * time.Second):
			s.Fatalf("it does not become %s", want)
		}
	}
	return reason
}

// begins waits until a part in a run begins.
func (s *stage) begins() *part {
	s.Helper()
	select {
	case p := <-s.runs:
		return p
	case <-time.After(10 * time.Second):
		s.Fatal("no part in a run begins")
		return nil
	}
}

// enters says that the part is in the run.
func (s *stage) enters(p *part) {
	s.Helper()
	p.cfg.OnLive(new(shoal.Live))
	s.becomes(waiting)
	p.cfg.Progress(shoal.Progress{Step: 1, Steps: 9, Peers: 2})
	s.becomes(computing)
}

// leaves ends a part as soon as the volunteer wants it to.
func (s *stage) leaves(p *part) {
	s.Helper()
	<-p.ctx.Done()
	p.end <- outcome{err: context.Cause(p.ctx)}
}

var join = command{Type: "join", Link: "shoal:first", Cores: 2, Memory: 1 << 30}

func TestPauseAndLeave(t *testing.T) {
	s := newStage(t)
	s.commands <- join
	s.becomes(connecting)
	p := s.begins()
	if p.cfg.Link != join.Link || p.cfg.Cores != 2 || p.cfg.Memory != 1<<30 {
		t.Errorf("it joins %q with %d cores and %d bytes", p.cfg.Link, p.cfg.Cores, p.cfg.Memory)
	}
	s.enters(p)
	s.commands <- command{Type: "pause"}
	s.becomes(leaving)
	s.leaves(p)
	s.becomes(paused)
	s.commands <- command{Type: "resume"}
	s.becomes(connecting)
	p = s.begins()
	s.enters(p)
	s.commands <- command{Type: "settings", Cores: 1, Memory: 1 << 29}
	s.becomes(connecting)
	s.leaves(p)
	s.becomes(connecting)
	p = s.begins()
	if p.cfg.Cores != 1 || p.cfg.Memory != 1<<29 {
		t.Errorf("after other settings it joins with %d cores and %d bytes", p.cfg.Cores, p.cfg.Memory)
	}
	s.commands <- command{Type: "leave"}
	s.becomes(leaving)
	s.leaves(p)
	s.becomes(left)
	s.commands <- join // another time
	s.becomes(connecting)
	s.begins().end <- outcome{report: new(shoal.Report)}
	s.becomes(done)
}

// What a user wants while a part in a run ends is noted for a later one, and undoes nothing.
func TestWishesWhileItEnds(t *testing.T) {
	less := command{Type: "settings", Cores: 1, Memory: 1 << 29}
	for _, c := range []struct {
		name   string
		wishes []command // one after another
		told   []string  // states until the part has ended
		end    string
		resume bool
	}{
		{"settings while pausing", []command{{Type: "pause"}, less}, []string{leaving}, paused, true},
		{"pausing and settings twice", []command{{Type: "pause"}, less, {Type: "pause"}, less}, []string{leaving}, paused, true},
		{"settings while leaving", []command{{Type: "leave"}, less}, []string{leaving}, left, true},
		{"pausing while leaving", []command{{Type: "leave"}, {Type: "pause"}, less}, []string{leaving}, left, true},
		{"leaving while pausing", []command{{Type: "pause"}, less, {Type: "leave"}, less}, []string{leaving, leaving}, left, true},
		{"leaving while it changes", []command{less, {Type: "leave"}, less}, []string{connecting, leaving}, left, true},
		{"settings while it changes", []command{{Type: "settings", Cores: 2, Memory: 1 << 28}, less}, []string{connecting, connecting}, connecting, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t)
			s.commands <- join
			s.becomes(connecting)
			p := s.begins()
			s.enters(p)
			for _, w := range c.wishes {
				s.commands <- w
			}
			s.commands <- command{Type: "visible", Visible: true} // once it is taken, so are the others
			s.becomes(c.told...)
			s.leaves(p)
			s.becomes(c.end)
			if c.resume {
				s.commands <- command{Type: "resume"}
				s.becomes(connecting)
			}
			if p := s.begins(); p.cfg.Cores != less.Cores || p.cfg.Memory != less.Memory {
				t.Errorf("later it joins with %d cores and %d bytes, want %d and %d", p.cfg.Cores, p.cfg.Memory, less.Cores, less.Memory)
			}
		})
	}
}

// What ends a first try is told, and nothing is tried again by itself.
func TestRefusedAndFailed(t *testing.T) {
	for _, c := range []struct {
		err    error
		state  string
		reason string
	}{
		{&swarm.RefusedError{Reason: "the run is full"}, refused, "the run is full"},
		{fmt.Errorf("dial: %w", peer.ErrUnreachable), failed, "dial: " + peer.ErrUnreachable.Error()},
		{&shoal.ConfigError{Field: "memory", Err: errors.New("too little")}, failed, "memory: too little"},
	} {
		s := newStage(t)
		s.commands <- join
		s.becomes(connecting)
		s.begins().end <- outcome{err: c.err}
		if reason := s.becomes(c.state); reason != c.reason {
			t.Errorf("%v: the reason is %q, want %q", c.err, reason, c.reason)
		}
		s.commands <- command{Type: "resume"}
		s.becomes(connecting)
		s.begins()
	}
}

// A volunteer that has lost its run tries to come back, more and more rarely, until it can or its user wants something else.
func TestReconnects(t *testing.T) {
	s := newStage(t)
	s.commands <- join
	s.becomes(connecting)
	p := s.begins()
	s.enters(p)
	p.cfg.OnLost("others went on")
	s.becomes(reconnecting)
	p.end <- outcome{err: errors.New("nobody is there")}
	s.becomes(reconnecting)
	last := time.Duration(0)
	for range 6 {
		pause := <-s.pauses
		if pause < last || pause > mostPause {
			t.Errorf("a pause of %v after one of %v", pause, last)
		}
		last = pause
		s.again <- time.Time{}
		s.becomes(reconnecting)
		s.begins().end <- outcome{err: errors.New("still nobody")}
		if reason := s.becomes(reconnecting); reason != "still nobody" {
			t.Errorf("the reason is %q", reason)
		}
	}
	if last != mostPause {
		t.Errorf("the last pause is %v, want %v", last, mostPause)
	}
	<-s.pauses
	s.again <- time.Time{}
	s.becomes(reconnecting)
	p = s.begins()
	s.enters(p)
	p.end <- outcome{err: errors.New("lost again")}
	s.becomes(reconnecting)
	if pause := <-s.pauses; pause != firstPause {
		t.Errorf("once it was back, the next pause is %v, want %v", pause, firstPause)
	}
	s.commands <- command{Type: "leave"}
	s.becomes(left)
}

func TestGivesUp(t *testing.T) {
	s := newStage(t)
	s.commands <- join
	s.becomes(connecting)
	p := s.begins()
	s.enters(p)
	p.end <- outcome{err: errors.New("lost")}
	s.becomes(reconnecting)
	for range mostTries - 1 {
		<-s.pauses
		s.again <- time.Time{}
		s.becomes(reconnecting)
		s.begins().end <- outcome{err: errors.New("nobody")}
		s.becomes(reconnecting)
	}
	<-s.pauses
	s.again <- time.Time{}
	s.becomes(reconnecting)
	s.begins().end <- outcome{err: errors.New("nobody")}
	s.becomes(failed)
}

// A browser that doesn't give the memory that was offered is offered for less.
func TestLessMemory(t *testing.T) {
	s := newStage(t)
	s.commands <- join
	s.becomes(connecting)
	offer := join.Memory
	for {
		p := s.begins()
		if p.cfg.Memory > offer {
			t.Fatalf("it offers %d bytes after %d", p.cfg.Memory, offer)
		}
		offer = p.cfg.Memory
		p.end <- outcome{err: fmt.Errorf("compute workers: %w", wasm.ErrMemory)}
		m := <-s.states
		if m.State == failed {
			break
		}
		if m.State != connecting || m.Reason == "" {
			t.Fatalf("it is %s (%s)", m.State, m.Reason)
		}
	}
	if offer > 2*leastMemory {
		t.Errorf("it gives up at %d bytes", offer)
	}
}
