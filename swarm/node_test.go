package swarm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shoal/swarm/internal/memnet"
	"shoal/swarm/member"
	"shoal/swarm/wire"
)

func TestRunFromStartToDone(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, n)
				all := c.start()
				want := map[int]int{1: 1, 2: 1, 3: 3, 5: 5}[n]
				c.each(func(i int, n *Node) error {
					s := n.Status()
					voters := 0
					for r, m := range s.Members {
						if m.Voter {
							voters++
						}
						if m.Rank != r || m.Peer != peerName(r) || m.Kind != "daemon" {
							return fmt.Errorf("status of rank %d: %+v", r, m)
						}
					}
					if voters != want || len(s.Members) != c.want || s.Leader == "" || s.Redundancy != min(1, c.want-1) {
						return fmt.Errorf("status %+v", s)
					}
					return nil
				})
				c.train(all...)
				c.running.Wait()
				c.same(all...)
				begin := time.Now()
				c.close()
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
		c.nodes, c.hosts = append(c.nodes, n), append(c.hosts, cfg.Transport.(refusing).Host)
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
		c.nodes, c.hosts = append(c.nodes, n), append(c.hosts, cfg.Transport.(refusing).Host)
		if _, err := n.View(t.Context()); err != nil {
			t.Error(err)
		}
		mu.Lock()
		if got := strings.Join(waits, ", "); got != "1 of 3, 2 of 3, 3 of 3" {
			t.Errorf("waits: %s", got)
		}
		mu.Unlock()
		c.close()
	})
}

// absentTransport finds nobody in a run at first.
type absentTransport struct {
	Transport
	absent int // times
}

func (a *absentTransport) Open(ctx context.Context, peer string, addrs []string, protocol string) (net.Conn, error) {
	if a.absent > 0 {
		a.absent--
		return nil, fmt.Errorf("%s: %w", peer, ErrNoRun)
	}
	return a.Transport.Open(ctx, peer, addrs, protocol)
}

// A peer that joins again is in no run for a moment: who asks it waits, but not for long.
func TestAskBetweenTwoRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.add(0)
		for _, x := range []struct {
			absent int
			want   error
		}{{3, nil}, {1000, ErrNoRun}} {
			start := time.Now()
			tr := &absentTransport{c.net.Host("stranger"), x.absent}
			run, err := Describe(t.Context(), tr, Contact{Peer: peerName(0)}, "run", "secret")
			if !errors.Is(err, x.want) || x.want == nil && string(run) != "description" {
				t.Errorf("absent %d times: described as %q, %v", x.absent, run, err)
			}
			if took := time.Since(start); took > betweenRuns {
				t.Errorf("absent %d times: it took %v", x.absent, took)
			}
		}
		c.close()
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
		c.close()
	})
}

func TestBadConfig(t *testing.T) {
	host := memnet.New().Host("a")
	good := Config{Transport: host, RunID: "r", Peers: 1, Decide: newCluster(t, 1).decide, Offer: Offer{Kind: "daemon"}}
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
		cfg.Transport.(refusing).Host.Close()
		c.add(1)
		c.add(2)
		for _, n := range c.nodes {
			if e, err := n.View(t.Context()); err != nil || len(e.View.Members) != 3 {
				t.Errorf("view %+v, %v", e.View, err)
			}
		}
		c.close()
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
		c.close()
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
		c.close()
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
		c.close()
	})
}

// A stream that says nothing, or nonsense, ends by itself and disturbs nobody.
func TestStrangeStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		all := c.start()
		for name, b := range map[string][]byte{
			"silence":  nil,
			"nonsense": []byte("GET / HTTP/1.1\r\n\r\n"),
			"length":   {255, 255, 255, 255},
			"raft":     mustControl(t, &wire.Control{Kind: wire.ControlRaft, From: 1}),
			"hello":    mustControl(t, &wire.Control{Kind: wire.ControlHello, Version: wire.ControlVersion, Run: "run", From: 1, To: c.nodes[0].id}),
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
		c.train(all...)
		c.running.Wait()
		c.same(all...)
		c.close()
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
