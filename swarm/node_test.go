package swarm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shoal/swarm/internal/memnet"
	"shoal/swarm/member"
	"shoal/swarm/wire"
)

// cluster is several Nodes over one memnet, inside a synctest bubble: its seconds cost nothing.
type cluster struct {
	t     *testing.T
	net   *memnet.Network
	want  int
	nodes []*Node
	hosts []*memnet.Host
}

func newCluster(t *testing.T, want int) *cluster {
	c := &cluster{t: t, net: memnet.New(), want: want}
	return c
}

func (c *cluster) config(i int) Config {
	cfg := Config{Transport: c.net.Host(peerName(i)), RunID: "run", Secret: "secret", Run: []byte("description"), Peers: c.want,
		Exact: true, Offer: Offer{Kind: "daemon", Weight: int64(i) + 1, ModelHash: "model", Fingerprint: "kernels"}, Decide: count}
	if i > 0 {
		cfg.Contact = &Contact{Peer: peerName(0)}
		cfg.Run = nil
	}
	return cfg
}

// add starts node i.
func (c *cluster) add(i int) *Node {
	c.t.Helper()
	cfg := c.config(i)
	n, err := Start(c.t.Context(), cfg)
	if err != nil {
		c.t.Fatalf("node %d: %v", i, err)
	}
	c.nodes = append(c.nodes, n)
	c.hosts = append(c.hosts, cfg.Transport.(*memnet.Host))
	return n
}

func (c *cluster) start() {
	c.t.Helper()
	for i := range c.want {
		c.add(i)
	}
	c.each(func(i int, n *Node) error {
		v, err := n.View(c.t.Context())
		if err == nil && (v.Rank != i || len(v.Members) != c.want || v.Number != 1 || v.Members[i].Offer.Weight != int64(i)+1) {
			err = fmt.Errorf("view %+v", v)
		}
		return err
	})
}

// each calls f for each node, in goroutines, and waits.
func (c *cluster) each(f func(i int, n *Node) error) {
	c.t.Helper()
	var g sync.WaitGroup
	for i, n := range c.nodes {
		g.Go(func() {
			if err := f(i, n); err != nil {
				c.t.Errorf("node %d: %v", i, err)
			}
		})
	}
	g.Wait()
}

// end closes all nodes and waits for every goroutine.
func (c *cluster) end() {
	c.each(func(_ int, n *Node) error { return errors.Join(n.Close(), n.Close()) })
	for _, h := range c.hosts {
		h.Close()
	}
	c.net.Wait()
}

// count commits "0", "1", ...; 30 is retried once as "30 again"; 100 ends the run.
func count(prev []byte, readies [][]byte) Decision {
	for _, r := range readies {
		if string(r) != string(readies[0]) {
			return Decision{Kind: EntryStop, Payload: fmt.Appendf(nil, "Ready %q and %q", r, readies[0])}
		}
	}
	switch r := string(readies[0]); {
	case r == "30" && string(prev) == "29":
		return Decision{Kind: EntryRetry, Payload: []byte("30 first")}
	case r == "100":
		return Decision{Kind: EntryDone, Payload: []byte("end")}
	case r == "bad":
		return Decision{Kind: EntryStop, Payload: []byte("gradients are not finite")}
	default:
		return Decision{Kind: EntryCommit, Payload: readies[0]}
	}
}

// train goes through steps 0 to 100.
func train(ctx context.Context, n *Node) error {
	var fence uint64
	for step := 0; ; {
		if err := n.Ready(fmt.Append(nil, step)); err != nil {
			return err
		}
		e, err := n.Next(ctx)
		if err != nil {
			return err
		}
		if e.Fence <= fence {
			return fmt.Errorf("fence %d after %d", e.Fence, fence)
		}
		fence = e.Fence
		switch e.Kind {
		case EntryDone:
			if step != 100 || string(e.Payload) != "end" {
				return fmt.Errorf("done at step %d with %q", step, e.Payload)
			}
			_, err := n.Next(ctx)
			if !errors.Is(err, ErrDone) {
				return fmt.Errorf("after the end: %v", err)
			}
			return nil
		case EntryRetry:
			if string(e.Payload) != "30 first" {
				return fmt.Errorf("retry with %q", e.Payload)
			}
		default:
			if string(e.Payload) != fmt.Sprint(step) {
				return fmt.Errorf("step %d committed as %q", step, e.Payload)
			}
			step++
		}
	}
}

func TestRunFromStartToDone(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, n)
				c.start()
				want := 1
				if n >= 3 {
					want = 3
				}
				c.each(func(i int, n *Node) error {
					if s := n.Status(); len(s.Voters) != want || s.Members != c.want || s.Leader == "" {
						return fmt.Errorf("status %+v", s)
					}
					return train(t.Context(), n)
				})
				begin := time.Now()
				c.end()
				if waited := time.Since(begin); waited > time.Second {
					t.Errorf("closing took %v", waited)
				}
				for i, n := range c.nodes {
					if s := n.Stats(); c.want > 1 && (s.ControlSent == 0 || s.ControlReceived == 0) {
						t.Errorf("node %d: stats %+v", i, s)
					}
					if err := n.Ready(nil); err == nil {
						t.Errorf("node %d: Ready after Close", i)
					}
				}
			})
		})
	}
}

func TestOnWaitAndDescribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		var mu sync.Mutex
		var waits []string
		cfg := c.config(0)
		cfg.OnWait = func(have, want int) {
			mu.Lock()
			waits = append(waits, fmt.Sprintf("%d of %d", have, want))
			mu.Unlock()
		}
		n, err := Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.nodes, c.hosts = append(c.nodes, n), append(c.hosts, cfg.Transport.(*memnet.Host))
		c.add(1)
		// Any member describes the run and says who leads.
		run, err := Describe(t.Context(), c.net.Host("stranger"), Contact{Peer: peerName(1)}, "run", "secret")
		if err != nil || string(run) != "description" {
			t.Errorf("described as %q, %v", run, err)
		}
		cfg = c.config(2)
		cfg.Contact = &Contact{Peer: peerName(1)}
		if n, err = Start(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		c.nodes, c.hosts = append(c.nodes, n), append(c.hosts, cfg.Transport.(*memnet.Host))
		if _, err := n.View(t.Context()); err != nil {
			t.Error(err)
		}
		mu.Lock()
		if got := strings.Join(waits, ", "); got != "1 of 3, 2 of 3, 3 of 3" {
			t.Errorf("waits: %s", got)
		}
		mu.Unlock()
		c.end()
	})
}

func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.add(0)
		try := func(name, want string, change func(*Config)) {
			t.Helper()
			cfg := c.config(1)
			change(&cfg)
			_, err := Start(t.Context(), cfg)
			var refused *RefusedError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want something about %q", name, err, want)
			}
		}
		try("secret", "secret is wrong", func(c *Config) { c.Secret = "other" })
		try("no secret", "secret is wrong", func(c *Config) { c.Secret = "" })
		try("run", "another run", func(c *Config) { c.RunID = "other" })
		try("model", "model differs", func(c *Config) { c.Offer.ModelHash = "other" })
		try("kernels", "fingerprint", func(c *Config) { c.Offer.Fingerprint = "other" })
		for _, bad := range [][2]string{{"other", "secret"}, {"run", "other"}} {
			_, err := Describe(t.Context(), c.net.Host("x"), Contact{Peer: peerName(0)}, bad[0], bad[1])
			if refused := new(RefusedError); !errors.As(err, &refused) {
				t.Errorf("Describe with %v: %v", bad, err)
			}
		}
		_, err := request(t.Context(), c.net.Host("x"), Contact{Peer: peerName(0)},
			&wire.Control{Kind: wire.ControlJoin, Version: wire.ControlVersion + 1, Run: "run", Secret: "secret", Offer: &Offer{}})
		if err == nil || !strings.Contains(err.Error(), "use the same release") {
			t.Errorf("version: %v", err)
		}
		c.add(1)
		try("twice", "in the run already", func(*Config) {})
		for _, n := range c.nodes {
			if _, err := n.View(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		try("late", "has started", func(cfg *Config) { cfg.Transport = c.net.Host("late") })
		c.end()
	})
}

func TestBadConfig(t *testing.T) {
	host := memnet.New().Host("a")
	good := Config{Transport: host, RunID: "r", Peers: 1, Decide: count, Offer: Offer{Kind: "daemon"}}
	for name, change := range map[string]func(*Config){
		"Transport": func(c *Config) { c.Transport = nil },
		"RunID":     func(c *Config) { c.RunID = "" },
		"Secret":    func(c *Config) { c.Secret = strings.Repeat("x", wire.MaxText+1) },
		"Tick":      func(c *Config) { c.Tick = -1 },
		"Decide":    func(c *Config) { c.Decide = nil },
		"peers":     func(c *Config) { c.Peers = 0 },
		"Packing":   func(c *Config) { c.Packing = "much" },
		"bytes":     func(c *Config) { c.Run = make([]byte, wire.MaxRun+1) },
		"Timing":    func(c *Config) { c.Timing = member.Timing{Beat: -1} },
	} {
		cfg := good
		change(&cfg)
		if _, err := Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each process that goes takes the run with it: everybody else ends within 10 s and names it.
func TestLostMember(t *testing.T) {
	for _, x := range []struct {
		members, lost int
		freeze        bool // no reset: its packets just stop
	}{{2, 0, false}, {2, 1, false}, {3, 0, false}, {3, 1, false}, {3, 0, true}, {5, 4, false}, {5, 2, true}} {
		t.Run(fmt.Sprintf("%d of %d freeze %v", x.lost, x.members, x.freeze), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, x.members)
				c.start()
				begin := time.Now()
				release := make(chan struct{})
				if x.freeze {
					go c.nodes[x.lost].call(func() { <-release })
				} else {
					c.hosts[x.lost].Close()
				}
				c.each(func(i int, n *Node) error {
					if i == x.lost && x.freeze {
						return nil
					}
					_, err := n.Next(t.Context())
					var stopped *StoppedError
					if !errors.As(err, &stopped) || n.Err() != err {
						return fmt.Errorf("%v, Err %v", err, n.Err())
					}
					name := fmt.Sprintf("%s (rank %d)", peerName(x.lost), x.lost)
					if i != x.lost && (!strings.Contains(err.Error(), name) || stopped.Peer != peerName(x.lost) || stopped.Rank != x.lost) {
						return fmt.Errorf("%+v does not name %s", stopped, name)
					}
					return nil
				})
				took := time.Since(begin)
				t.Logf("after %v", took)
				c.each(func(i int, n *Node) error {
					if i == x.lost && x.freeze {
						return nil
					}
					return n.Close()
				})
				if took := time.Since(begin); took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
				close(release)
				c.end()
			})
		})
	}
}

func TestLeave(t *testing.T) {
	for _, who := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 3)
			c.start()
			begin := time.Now()
			c.nodes[who].Leave("interrupted")
			want := fmt.Sprintf("(rank %d) left: interrupted", who)
			c.each(func(i int, n *Node) error {
				if _, err := n.Next(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
					return fmt.Errorf("%v, want %q", err, want)
				}
				return n.Close()
			})
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("it took %v", took)
			}
			c.end()
		})
	}
}

// A joiner that goes before the start makes room for another one.
func TestLeaveBeforeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.add(0)
		cfg := c.config(7)
		early, err := Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := early.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("leaving took %v", took)
		}
		cfg.Transport.(*memnet.Host).Close()
		c.add(1)
		c.add(2)
		for _, n := range c.nodes {
			if v, err := n.View(t.Context()); err != nil || len(v.Members) != 3 {
				t.Errorf("view %+v, %v", v, err)
			}
		}
		c.end()
	})
}

func TestDecideStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.start()
		c.each(func(i int, n *Node) error {
			if err := n.Ready([]byte("bad")); err != nil {
				return err
			}
			_, err := n.Next(t.Context())
			if err == nil || err.Error() != "gradients are not finite" {
				return fmt.Errorf("%v", err)
			}
			return nil
		})
		c.end()
	})
}

// A megabyte of Ready from each and as much in the Commit, and one that is too long.
func TestLargePayloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.start()
		big := []byte(strings.Repeat("x", wire.MaxPayload))
		c.each(func(i int, n *Node) error {
			if err := n.Ready(append(big, 'x')); !errors.Is(err, wire.ErrTooLong) {
				return fmt.Errorf("too long: %v", err)
			}
			for range 5 {
				if err := n.Ready(big); err != nil {
					return err
				}
				e, err := n.Next(t.Context())
				if err != nil || len(e.Payload) != len(big) {
					return fmt.Errorf("%d bytes, %v", len(e.Payload), err)
				}
			}
			return nil
		})
		c.end()
	})
}

// Broken control streams are opened again; nothing is lost by it.
func TestBrokenStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.start()
		stop := make(chan struct{})
		var g sync.WaitGroup
		g.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(700 * time.Millisecond):
					c.net.Break(peerName(i%3), peerName((i+1)%3))
				}
			}
		})
		c.each(func(i int, n *Node) error {
			for step := range 20 {
				time.Sleep(200 * time.Millisecond) // synctest's clock
				if err := n.Ready(fmt.Append(nil, step)); err != nil {
					return err
				}
				if e, err := n.Next(t.Context()); err != nil || string(e.Payload) != fmt.Sprint(step) {
					return fmt.Errorf("step %d: %q, %v", step, e.Payload, err)
				}
			}
			return nil
		})
		close(stop)
		g.Wait()
		c.end()
	})
}

// A stream that says nothing, or nonsense, ends by itself and disturbs nobody.
func TestStrangeStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.start()
		for name, b := range map[string][]byte{
			"silence":  nil,
			"nonsense": []byte("GET / HTTP/1.1\r\n\r\n"),
			"length":   {255, 255, 255, 255},
			"raft":     mustControl(t, &wire.Control{Kind: wire.ControlRaft, From: 1}),
			"hello":    mustControl(t, &wire.Control{Kind: wire.ControlHello, Version: 1, Run: "run", From: 1, To: c.nodes[0].id}),
		} {
			s, err := c.net.Host("x").Open(t.Context(), peerName(0), nil, wire.ControlProtocol)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Write(b); err != nil {
				t.Error(err)
			}
			begin := time.Now()
			for _, err = s.Read(make([]byte, 100)); err == nil; {
				_, err = s.Read(make([]byte, 100))
			}
			if took := time.Since(begin); took > 11*time.Second {
				t.Errorf("%s: open for %v", name, took)
			}
			s.Close()
		}
		if err := train(t.Context(), c.nodes[0]); err != nil {
			t.Error(err)
		}
		c.end()
	})
}

func mustControl(t *testing.T, m *wire.Control) []byte {
	t.Helper()
	b, err := wire.AppendControl(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// nothing is a Sink for runs in which nobody reduces.
type nothing struct{}

func (nothing) Add(Kind, int, int, int, []byte) error { return nil }
func (nothing) Done(Kind, int, int, int) error        { return nil }

// Collectives go through the Node, and end with the reason when the run does.
func TestCollectives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		if err := c.add(0).Begin(1, nothing{}); err == nil {
			t.Error("Begin before the view")
		}
		c.add(1)
		c.add(2)
		var first sync.WaitGroup // the others' first gather too is over when member 2 goes
		first.Add(3)
		c.each(func(i int, n *Node) error {
			v, err := n.View(t.Context())
			if err == nil {
				err = n.Begin(v.Fence, nothing{})
			}
			if err != nil {
				first.Done()
				return err
			}
			parts := [][]byte{make([]byte, 4), make([]byte, 4), make([]byte, 4)}
			mine := []byte{byte(i), 1, 2, 3}
			err = gathered(n.AllGather(t.Context(), 1, 2, mine, parts))
			first.Done()
			if err != nil {
				return err
			}
			for r, p := range parts {
				if r != i && p[0] != byte(r) {
					return fmt.Errorf("from rank %d: %v", r, p)
				}
			}
			if i == 2 { // gone instead of taking part
				first.Wait()
				n.Leave("interrupted")
				return nil
			}
			err = gathered(n.AllGather(t.Context(), 2, 2, mine, parts))
			var stopped *StoppedError
			if !errors.As(err, &stopped) || stopped.Rank != 2 {
				return fmt.Errorf("waiting for one who left: %v", err)
			}
			return nil
		})
		c.end()
	})
}

// brokenSink is a Sink that can't take anything.
type brokenSink struct{ nothing }

func (brokenSink) Add(int, int, int, []byte) error { return errors.New("the device is gone") }

// A fault while nobody is in a wait that would tell it ends the run, for all.
func TestFaultEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.start()
		c.each(func(i int, n *Node) error {
			v, err := n.View(t.Context())
			if err != nil {
				return err
			}
			if err := n.Begin(v.Fence, brokenSink{}); err != nil {
				return err
			}
			if i == 1 {
				n.ReduceScatter(t.Context(), 0, [][]byte{make([]byte, 4), nil}, 1)
			}
			<-n.Context().Done()
			if err := n.Err(); err == nil || !strings.Contains(err.Error(), "the device is gone") {
				return fmt.Errorf("the run ended with %v", err)
			}
			return nil
		})
		c.end()
	})
}
