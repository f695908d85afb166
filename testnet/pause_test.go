package testnet

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"testing"
)

// child is a Pauses with a parent that the test plays.
type child struct {
	*Pauses
	in     *io.PipeWriter
	told   chan atEvent
	served sync.WaitGroup
	now    Standing
}

func newChild(t *testing.T) *child {
	t.Helper()
	events, out := io.Pipe()
	stdin, in := io.Pipe()
	c := &child{in: in, told: make(chan atEvent, 10)}
	c.Pauses = NewPauses(NewEvents(out), func() Standing { return c.now })
	c.served.Go(func() { c.Serve(stdin) })
	c.served.Go(func() {
		readEvents(events, func(e event) { c.told <- *e.At })
	})
	t.Cleanup(func() {
		in.Close()
		out.Close()
		c.served.Wait()
	})
	return c
}

func (c *child) say(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// waits walks through a step until a point at which it waits, has it go on, and returns the point.
func (c *child) waits(t *testing.T, step int) string {
	t.Helper()
	walked := make(chan struct{})
	go func() {
		defer close(walked)
		for _, phase := range Phases {
			c.At(step, phase)
		}
	}()
	select {
	case <-walked:
		return ""
	case e := <-c.told:
		c.say(t, "go")
		<-walked
		return fmt.Sprintf("%s as %s", e.Phase, e.Point)
	}
}

func TestPauses(t *testing.T) {
	c := newChild(t)
	if err := c.Add("self@step:3:ready"); err != nil {
		t.Fatal(err)
	}
	if err := c.Add("leader@step:5"); err != nil {
		t.Fatal(err)
	}
	if got := c.waits(t, 2); got != "" {
		t.Errorf("it waits too early, at %s", got)
	}
	if got := c.waits(t, 4); got != "ready as self@step:3:ready" { // step 3 was passed elsewhere
		t.Errorf("it waits at %q", got)
	}
	if got := c.waits(t, 6); got != "" {
		t.Errorf("it waits at %q, which only the leader does", got)
	}
	c.now = Standing{Self: "a", Leader: "a"}
	if got := c.waits(t, 7); got != "gather as leader@step:5" {
		t.Errorf("the leader waits at %q", got)
	}
	if got := c.waits(t, 8); got != "" {
		t.Errorf("it waits again, at %s", got)
	}
}

// What a peer was when the attempt began counts until the attempt's outcome has been dealt with.
func TestPausesAsJoiner(t *testing.T) {
	c := newChild(t)
	if err := c.Add("joiner@step:1:update"); err != nil {
		t.Fatal(err)
	}
	c.now = Standing{Self: "a", Filling: 2, Fills: 2}
	c.At(1, "forward")
	c.now.Filling, c.now.Fills, c.now.Holds = 0, 0, 100 // the commit has made it a holder
	if got := c.waits(t, 1); got != "" {
		t.Errorf("a whole step as a holder waits at %q", got)
	}
	c.now.Filling = 2
	c.At(2, "forward")
	c.now.Filling = 0
	walked := make(chan struct{})
	go func() {
		defer close(walked)
		c.At(2, "commit")
		c.At(2, "update")
	}()
	if e := <-c.told; e.Phase != "update" {
		t.Errorf("it waits in %s", e.Phase)
	}
	c.say(t, "go")
	<-walked
}

func TestPausesByWord(t *testing.T) {
	c := newChild(t)
	c.say(t, "pause self@step:1:forward")
	c.say(t, "pause self@step:1:update")
	c.say(t, "go") // nobody waits; and now both points are known
	walked := make(chan struct{})
	go func() {
		defer close(walked)
		for _, phase := range Phases {
			c.At(1, phase)
		}
	}()
	for _, want := range []string{"forward", "update"} {
		if e := <-c.told; e.Phase != want {
			t.Errorf("it waits in %s, want %s", e.Phase, want)
		}
		c.say(t, "go")
	}
	<-walked
	c.say(t, "pause self@step:1:ready")
	c.say(t, "clear")
	c.say(t, "go")
	if got := c.waits(t, 2); got != "" {
		t.Errorf("it waits at %q after all were cleared", got)
	}
}

func TestPausesEndWithParent(t *testing.T) {
	c := newChild(t)
	if err := c.Add("self@step:1"); err != nil {
		t.Fatal(err)
	}
	walked := make(chan struct{})
	go func() {
		defer close(walked)
		c.At(1, "gather")
	}()
	<-c.told
	c.in.Close()
	<-walked
	c.At(2, "gather") // returns at once
}

func TestPausesRefuse(t *testing.T) {
	p := NewPauses(NewEvents(new(bytes.Buffer)), func() Standing { return Standing{} })
	for _, text := range []string{"", "self", "self@step:", "self@step:0", "boss@step:1", "self@step:1:lunch", "2@step:1", "self@step:1:ready:3"} {
		if err := p.Add(text); err == nil {
			t.Errorf("%q is a point", text)
		}
	}
}

func TestRoles(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    Standing
		want string
	}{
		{"nothing", Standing{}, "self"},
		{"leader", Standing{Self: "a", Leader: "a"}, "self leader"},
		{"owner of all", Standing{Self: "a", Leader: "b", Owns: 9}, "self owner"},
		{"owner and backup", Standing{Self: "a", Owns: 9, Holds: 9}, "self owner backup"},
		{"joiner", Standing{Self: "a", Fills: 3, Filling: 3}, "self joiner"},
		{"donor", Standing{Self: "a", Owns: 9, Fills: 3}, "self owner donor"},
		{"both", Standing{Self: "a", Owns: 9, Fills: 3, Filling: 1}, "self owner joiner donor"},
	} {
		got := self
		for _, role := range Roles {
			if tc.s.plays(role) {
				got += " " + role
			}
		}
		if got != tc.want {
			t.Errorf("%s is %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestWhole(t *testing.T) {
	good := Standing{Members: []string{"b", "a", "c"}, Wanted: 1, Redundancy: 1, Promise: 1}
	ids := []string{"a", "b", "c"}
	if !good.whole(ids) {
		t.Error("three peers with a backup are not whole")
	}
	for name, change := range map[string]func(*Standing){
		"a missing member":   func(s *Standing) { s.Members = s.Members[:2] },
		"a further member":   func(s *Standing) { s.Members = append(s.Members, "d") },
		"a fill to do":       func(s *Standing) { s.Fills = 1 },
		"less redundancy":    func(s *Standing) { s.Redundancy = 0 },
		"too few voters":     func(s *Standing) { s.Promise = 0 },
		"a run that's stuck": func(s *Standing) { s.Stuck = "quorum" },
	} {
		s := good
		s.Members = append([]string{}, good.Members...)
		if change(&s); s.whole(ids) {
			t.Errorf("with %s it is whole", name)
		}
	}
	if one := (Standing{Members: []string{"a"}, Wanted: 1}); !one.whole([]string{"a"}) {
		t.Error("a peer alone can't be safer than it is")
	}
}
