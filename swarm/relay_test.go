package swarm

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shoal/swarm/wire"
)

// Two members that can't reach each other train all the same: a third carries their streams, for control and data. When
// they can again, and the carried streams break, the direct ones are back.
func TestRelay(t *testing.T) {
	for _, pair := range [][2]int{{1, 2}, {0, 1}} { // one of them leads, or none
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 3)
			all := c.start()
			a, b := c.nodes[pair[0]], c.nodes[pair[1]]
			c.train(all...)
			c.waitFor("some steps", func() bool { step, _ := all[0].now(); return step >= 5 })
			c.net.Cut(peerName(pair[0]), peerName(pair[1]))
			carried := func(n, to *Node) bool {
				up := false
				n.call(func() { up = n.links[to.id] != nil && n.links[to.id].up.Load() })
				return !up
			}
			c.waitFor("steps by way of the third", func() bool {
				step, _ := all[0].now()
				return step >= 25 && carried(a, b) && carried(b, a)
			})
			if s := c.nodes[0].Status(); len(s.Members) != 3 || s.View != 1 || len(s.Faults) != 0 {
				t.Errorf("status %+v", s)
			}
			c.net.Heal(peerName(pair[0]), peerName(pair[1]))
			third := peerName(3 - pair[0] - pair[1])
			c.net.Break(peerName(pair[0]), third)
			c.net.Break(peerName(pair[1]), third)
			c.waitFor("direct streams", func() bool { return !carried(a, b) && !carried(b, a) })
			c.running.Wait()
			c.same(all...)
			c.close()
		})
	}
}

// A newcomer that one member can't reach takes part too.
func TestRelayForNewcomer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		all := c.start()
		c.train(all...)
		c.net.Cut(peerName(3), peerName(2))
		tr, err := enter(t.Context(), c.add(3))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tr)
		c.train(tr)
		c.running.Wait()
		c.same(all...)
		if s := tr.n.Status(); len(s.Members) != 4 || len(s.Faults) != 0 {
			t.Errorf("status %+v", s)
		}
		c.close()
	})
}

// A member that nobody reaches is removed, and a dead one at once, though there are others to ask.
func TestRelayIsNoWayToTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4)
		all := c.start()
		c.train(all...)
		c.waitFor("some steps", func() bool { step, _ := all[0].now(); return step >= 5 })
		for i := range 3 {
			c.net.Cut(peerName(i), peerName(3))
		}
		begin := time.Now()
		c.waitFor("a view without it", func() bool { return all[0].views() == 2 })
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("it took %v", took)
		}
		for _, tr := range all[:3] {
			<-tr.done
		}
		c.same(all[:3]...)
		c.close()
		c.running.Wait()
	})
}

// Streams are carried for members of the run, to members of the run, and only those that members have.
func TestRelayRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.start()
		n := c.nodes
		good := wire.Control{Kind: wire.ControlRelay, Version: wire.ControlVersion, Run: "run", From: n[1].id, To: n[2].id, Protocol: wire.ControlProtocol}
		for name, x := range map[string]struct {
			peer string
			edit func(m *wire.Control)
			says string
		}{
			"stranger":         {"stranger", func(m *wire.Control) { m.From = 7 }, "not a member"},
			"another's id":     {"stranger", func(*wire.Control) {}, "not a member"},
			"another run":      {peerName(1), func(m *wire.Control) { m.Run = "other" }, "another run"},
			"version":          {peerName(1), func(m *wire.Control) { m.Version = 1 }, "version 1"},
			"generation":       {peerName(1), func(m *wire.Control) { m.Generation = 3 }, "generation"},
			"to a stranger":    {peerName(1), func(m *wire.Control) { m.To = 7 }, "nobody"},
			"to oneself":       {peerName(1), func(m *wire.Control) { m.To = n[1].id }, "nobody"},
			"to the relay":     {peerName(1), func(m *wire.Control) { m.To = n[0].id }, "nobody"},
			"another protocol": {peerName(1), func(m *wire.Control) { m.Protocol = "/ssh" }, "nobody"},
			"relay of a relay": {peerName(1), func(m *wire.Control) { m.Protocol = wire.RelayProtocol }, "nobody"},
			"carried by a stranger": {"stranger", func(m *wire.Control) {
				m.Kind, m.From, m.To, m.Peer = wire.ControlCarried, 7, n[0].id, peerName(1)
			}, "not a member"},
			"carried elsewhere": {peerName(1), func(m *wire.Control) {
				m.Kind, m.To, m.Peer, m.Protocol = wire.ControlCarried, n[0].id, peerName(2), "/ssh"
			}, "no such protocol"},
		} {
			m := good
			x.edit(&m)
			s, err := c.net.Host(x.peer).Open(t.Context(), peerName(0), nil, wire.RelayProtocol)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := ask(s, &m)
			if err != nil || answer.Kind != wire.ControlRefused || answer.Have || !strings.Contains(answer.Reason, x.says) {
				t.Errorf("%s: %+v, %v, want a refusal that says %q", name, answer, err, x.says)
			}
			s.Close()
		}
		// The carrier says when the target is dead, and then that is final.
		c.net.Cut(peerName(1), peerName(2))
		c.kill(2)
		to := exchangeMember{ID: n[2].id, Peer: peerName(2)}
		if _, err := n[1].open(t.Context(), to, wire.ControlProtocol); !errors.Is(err, ErrRefused) {
			t.Errorf("opening a stream to a dead member by way of another: %v", err)
		}
		c.close()
	})
}

// A path may break without a word, as where a cable is pulled in between: nothing is reset, and nothing arrives. A third
// member carries the streams before anybody is given up, whether one of the two leads or none.
func TestRelayAroundSilence(t *testing.T) {
	for _, pair := range [][2]int{{1, 2}, {0, 1}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 3)
			all := c.start()
			a, b := c.nodes[pair[0]], c.nodes[pair[1]]
			c.train(all...)
			c.waitFor("some steps", func() bool { step, _ := all[0].now(); return step >= 5 })
			c.net.Mute(peerName(pair[0]), peerName(pair[1]))
			c.waitFor("steps by way of the third", func() bool {
				step, _ := all[0].now()
				return step >= 25 && !a.reaches(b.id) && !b.reaches(a.id)
			})
			c.running.Wait()
			if s := c.nodes[0].Status(); len(s.Members) != 3 || s.View != 1 || len(s.Faults) != 0 {
				t.Errorf("status %+v", s)
			}
			c.same(all...)
			c.net.Unmute(peerName(pair[0]), peerName(pair[1]))
			c.close()
		})
	}
}

// A member that is silent towards all has no better path: it is lost as ever.
func TestNoRelayAroundTheSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 4)
		all := c.start()
		c.train(all...)
		c.waitFor("some steps", func() bool { step, _ := all[0].now(); return step >= 5 })
		for i := range 3 {
			c.net.Mute(peerName(i), peerName(3))
		}
		begin := time.Now()
		c.waitFor("a view without it", func() bool { return all[0].views() == 2 })
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("it took %v", took)
		}
		for _, tr := range all[:3] {
			<-tr.done
		}
		c.same(all[:3]...)
		for i := range 3 {
			c.net.Unmute(peerName(i), peerName(3))
		}
		c.close()
		c.running.Wait()
	})
}
