package swarm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shoal/swarm/wire"
)

// kill ends node i as SIGKILL would: its streams are reset, and its machine refuses new ones.
func (c *cluster) kill(i int) {
	c.hosts[i].Close()
}

// leads is the place of the node that leads.
func (c *cluster) leads() int {
	lead := c.nodes[0].Status().Leader
	return slices.IndexFunc(c.nodes, func(n *Node) bool { return n.cfg.Transport.Self() == lead })
}

// waitFor lets time pass until f, for a minute at most.
func (c *cluster) waitFor(what string, f func() bool) {
	c.t.Helper()
	for range 6000 {
		if f() {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	c.t.Fatalf("%s: not within a minute", what)
}

// Whoever is killed, the leader too, the others go on in a view without it, within a few ticks.
func TestNodeKilled(t *testing.T) {
	for victim := range 5 {
		t.Run(fmt.Sprint("node ", victim), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 5)
				all := c.start()
				c.train(all...)
				c.waitFor("some steps", func() bool { step, _ := all[victim].now(); return step >= 5 })
				leader := c.leads() == victim
				c.kill(victim)
				killed := time.Now()
				others := slices.Concat(all[:victim], all[victim+1:])
				c.waitFor("a view without it", func() bool {
					return !slices.ContainsFunc(others, func(tr *trainee) bool { return tr.views() < 2 })
				})
				most := 3 * Tick
				if leader {
					most = 8 * Tick
				}
				for _, tr := range others {
					if took := tr.viewed[1].Sub(killed); took > most {
						t.Errorf("the next view began after %v, want at most %v (leader %v)", took, most, leader)
					}
					if _, v := tr.now(); len(v.Members) != 4 || v.Number != 2 {
						t.Errorf("view %+v", v)
					}
				}
				for _, tr := range others {
					<-tr.done
				}
				c.same(others...)
				s := others[0].n.Status()
				if len(s.Faults) != 1 || s.Faults[0].Peer != peerName(victim) || s.Redundancy != 1 || s.Promise < 1 {
					t.Errorf("status %+v", s)
				}
				c.close()
				<-all[victim].done
			})
		})
	}
}

// Two die at the same instant, with two backups.
func TestNodeTwoKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		c.backups = 2
		all := c.start()
		c.train(all...)
		c.waitFor("some steps", func() bool { step, _ := all[0].now(); return step >= 5 })
		c.kill(0)
		c.kill(3)
		others := []*trainee{all[1], all[2], all[4]}
		for _, tr := range others {
			<-tr.done
		}
		c.same(others...)
		if s := others[0].n.Status(); len(s.Members) != 3 || s.Redundancy != 2 {
			t.Errorf("status %+v", s)
		}
		c.close()
		c.running.Wait()
	})
}

// Newcomers enter by the next commit, without an aborted attempt, and hold something in the end.
func TestNodeJoinsAfterTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		all := c.start()
		c.train(all...)
		for i := 2; i < 5; i++ {
			begin := time.Now()
			n := c.add(i)
			tr, err := enter(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("node %d was in a view after %v", i, took)
			}
			if tr.entry.Kind != EntryCommit || tr.view.Rank != i {
				t.Errorf("node %d began with %+v", i, tr.entry)
			}
			all = append(all, tr)
			c.train(tr)
		}
		c.running.Wait()
		c.same(all...)
		s := all[4].n.Status()
		for _, m := range s.Members {
			if m.Owns == 0 || m.FillsLeft != 0 {
				t.Errorf("in the end: %+v", m)
			}
		}
		for _, entry := range all[0].at[1:] {
			if !strings.Contains(entry, fmt.Sprintf(" %d ", EntryCommit)) && !strings.Contains(entry, "30 first") && !strings.Contains(entry, "end") {
				t.Errorf("an attempt was aborted: %s", entry)
			}
		}
		c.close()
	})
}

// Whoever leaves hands over what it holds, and is out within seconds; the others lose no attempt. The leader too.
func TestNodeLeaves(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		for who := range n {
			t.Run(fmt.Sprintf("%d of %d", who, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, n)
					all := c.start()
					c.train(all...)
					c.waitFor("some steps", func() bool { step, _ := all[0].now(); return step >= 5 })
					begin := time.Now()
					all[who].n.Leave("interrupted")
					<-all[who].n.Left()
					took := time.Since(begin)
					if err := all[who].n.Close(); err != nil {
						t.Error(err)
					}
					if all := time.Since(begin); all > 5*time.Second || took > 4*time.Second {
						t.Errorf("leaving took %v, with Close %v", took, all)
					}
					c.hosts[who].Close()
					<-all[who].done
					others := slices.Concat(all[:who], all[who+1:])
					for _, tr := range others {
						<-tr.done
					}
					c.same(others...)
					for _, entry := range others[0].at[1:] {
						if strings.Contains(entry, fmt.Sprintf(" %d ", EntryView)) {
							t.Errorf("an attempt was aborted: %s", entry)
						}
					}
					if s := others[0].n.Status(); len(s.Members) != n-1 {
						t.Errorf("status %+v", s)
					}
					if all[who].err != nil {
						t.Error(all[who].err)
					}
					if _, err := all[who].n.Next(t.Context()); !errors.Is(err, ErrLeft) && !errors.Is(err, ErrClosed) {
						t.Errorf("Next of one who left: %v", err)
					}
					c.close()
				})
			})
		}
	}
}

// One that was stopped for so long that the others went on without it is told so when it wakes, and may join again.
func TestNodeStoppedAndGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.end = 300
		all := c.start()
		c.train(all...)
		c.waitFor("some steps", func() bool { step, _ := all[2].now(); return step >= 5 })
		release := make(chan struct{})
		go all[2].n.call(func() { <-release })
		stopped := time.Now()
		c.waitFor("a view without it", func() bool { return all[0].views() == 2 })
		if took := time.Since(stopped); took > 4*time.Second {
			t.Errorf("the next view began after %v", took)
		}
		close(release)
		<-all[2].done // perhaps by the log, which it hears first
		<-all[2].n.Context().Done()
		var gone *StoppedError
		if err := all[2].n.Err(); !errors.As(err, &gone) || !gone.Gone {
			t.Errorf("it ended with %v", err)
		}
		if err := all[2].n.Close(); err != nil {
			t.Error(err)
		}
		again, err := enter(t.Context(), c.add(2))
		if err != nil {
			t.Fatal(err)
		}
		c.train(again)
		c.running.Wait()
		c.same(all[0], all[1], again)
		c.close()
	})
}

// The voter of two dies: the other stops, says so, and goes on once it is told to recover. So does one of a cluster that
// has lost most of its voters.
func TestNodeRecovers(t *testing.T) {
	for _, n := range []int{2, 3} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, n)
			c.backups = 2
			c.start()
			stuck := make(chan string, 10)
			last := c.nodes[n-1]
			last.call(func() { last.cfg.OnStuck = func(why string) { stuck <- why } })
			all := make([]*trainee, n)
			for i, node := range c.nodes {
				all[i] = &trainee{n: node, pace: 50 * time.Millisecond}
				node.mu.Lock()
				all[i].take(Entry{Fence: node.fence, Kind: EntryView, View: node.view})
				node.mu.Unlock()
			}
			c.train(all...)
			c.waitFor("some steps", func() bool { step, _ := all[n-1].now(); return step >= 5 })
			if err := last.Recover(t.Context()); err == nil || !strings.Contains(err.Error(), "isn't stuck") {
				t.Errorf("recovering a run that isn't stuck: %v", err)
			}
			for i := range n - 1 {
				c.kill(i)
			}
			if why := <-stuck; why == "" || last.Status().Stuck != why {
				t.Errorf("stuck because of %q, status %q", why, last.Status().Stuck)
			}
			step, _ := all[n-1].now()
			if err := last.Recover(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-all[n-1].done
			if all[n-1].err != nil || all[n-1].step <= step {
				t.Errorf("it went on from step %d to %d: %v", step, all[n-1].step, all[n-1].err)
			}
			if s := last.Status(); s.Generation != 1 || len(s.Members) != 1 || s.Stuck != "" {
				t.Errorf("status %+v", s)
			}
			c.close()
			c.running.Wait()
		})
	}
}

// Three of five die; two survivors recover at the same time, and there is one log with both.
func TestNodeTwoRecover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		c.backups = 4
		all := c.start()
		c.train(all...)
		c.waitFor("some steps", func() bool { step, _ := all[0].now(); return step >= 5 })
		for i := range 3 {
			c.kill(i)
		}
		a, b := c.nodes[3], c.nodes[4]
		c.waitFor("both are stuck", func() bool { return a.Status().Stuck != "" && b.Status().Stuck != "" })
		results := make(chan error, 2)
		go func() { results <- a.Recover(t.Context()) }()
		go func() { results <- b.Recover(t.Context()) }()
		one, two := <-results, <-results
		if (one == nil) == (two == nil) {
			t.Errorf("of two recoveries one is to succeed: %v, %v", one, two)
		}
		<-all[3].done
		<-all[4].done
		c.same(all[3], all[4])
		for _, n := range []*Node{a, b} {
			if s := n.Status(); s.Generation != 1 || len(s.Members) != 2 {
				t.Errorf("status %+v", s)
			}
		}
		c.close()
		c.running.Wait()
	})
}

// A member that couldn't be reached when the others recovered is told, when it can, that it is none any more.
func TestNodeRecoveredWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.backups = 2
		c.end = 500
		all := c.start()
		c.train(all...)
		c.waitFor("some steps", func() bool { step, _ := all[0].now(); return step >= 5 })
		c.kill(0)
		c.net.Cut(peerName(1), peerName(2))
		a := c.nodes[1]
		c.waitFor("it is stuck", func() bool { return a.Status().Stuck != "" })
		if err := a.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.waitFor("it goes on", func() bool { return a.Status().Applied > c.nodes[2].Status().Applied+5 })
		c.net.Heal(peerName(1), peerName(2))
		<-all[2].done
		var gone *StoppedError
		if !errors.As(all[2].err, &gone) || !gone.Gone {
			t.Errorf("the other ended with %v, Err %v after %q in view %+v", all[2].err, all[2].n.Err(), all[2].at[max(0, len(all[2].at)-3):], all[2].view)
		}
		<-all[1].done
		c.same(all[1])
		c.close()
		c.running.Wait()
	})
}

// A newcomer asks for what happened before; so long a history as fits is told, by whoever can.
func TestNodeHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.addWith(0, func(cfg *Config) { cfg.History = func([]byte) []byte { return make([]byte, wire.MaxHistory+1) } })
		c.addWith(1, func(cfg *Config) { cfg.History = func(ask []byte) []byte { return append(ask, " upon a time"...) } })
		c.add(2)
		c.each(func(_ int, n *Node) error {
			_, err := n.View(t.Context())
			return err
		})
		if b, err := c.nodes[2].History(t.Context(), []byte("once")); err != nil || string(b) != "once upon a time" {
			t.Errorf("%q, %v", b, err)
		}
		if _, err := c.nodes[1].History(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "bytes") {
			t.Errorf("nobody can tell: %v", err)
		}
		c.close()
		if _, err := c.nodes[2].History(t.Context(), []byte("once")); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// 12 joins and deaths leave nothing behind in a node that stays.
func TestNodeFlat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.end = 100_000
		all := c.start()
		for _, tr := range all {
			tr.pace = 500 * time.Millisecond
		}
		c.train(all...)
		var running, streams int
		for i := 2; i < 14; i++ {
			tr, err := enter(t.Context(), c.add(i))
			if err != nil {
				t.Fatal(err)
			}
			c.train(tr)
			c.waitFor("it trains", func() bool { tr.mu.Lock(); defer tr.mu.Unlock(); return tr.commits > 3 })
			views := all[0].views()
			c.kill(i)
			c.waitFor("a view without it", func() bool { return all[0].views() > views })
			c.nodes[i].Close()
			<-tr.done
			<-time.After(5 * time.Second)
			if i == 4 {
				running, streams = goroutines(), c.net.Streams()
			}
		}
		if r, s := goroutines(), c.net.Streams(); r > running+4 || s > streams+2 {
			t.Errorf("%d goroutines and %d streams after 3 guests, %d and %d after 12", running, streams, r, s)
		}
		c.close()
		c.running.Wait()
	})
}
