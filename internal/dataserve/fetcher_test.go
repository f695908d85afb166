package dataserve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shoal/internal/data"
)

var discard = slog.New(slog.DiscardHandler)

func TestFetch(t *testing.T) {
	var n network
	l := text(t, 5)
	server := n.serve(t, "creator", l.Manifest(), Whole(l))
	f := fetcher(t, n.config("a", "creator"), l)
	for i := range l.Manifest().Leaves {
		same(t, f, l, i)
		same(t, f, l, i)
	}
	f.Close()
	server.Close()
	if s, r := server.Stats(), f.Stats(); s.Sent != r.Received || s.Received != r.Sent || s.Sent < 5*data.ChunkSize || s.Sent > 6*data.ChunkSize {
		t.Errorf("the server counted %+v, the fetcher %+v, of 5 MiB and a bit", s, r)
	}
	for _, i := range []int{-1, 6} {
		if _, err := f.Chunk(t.Context(), i); err == nil {
			t.Errorf("there is a chunk %d", i)
		}
	}
}

// Whoever has fetched chunks gives them to others; one that lacks a chunk is asked again when it may have it.
func TestFetchedAreServed(t *testing.T) {
	var n network
	l := text(t, 4)
	n.serve(t, "creator", l.Manifest(), Whole(l))
	a := fetcher(t, n.config("a", "creator"), l)
	same(t, a, l, 1)
	n.serve(t, "a", a.Manifest(), a.Held())
	b := fetcher(t, n.config("b", "a"), l)
	same(t, b, l, 1)

	done := make(chan struct{})
	go func() { // a fetches chunk 2 while b waits for it
		defer close(done)
		same(t, b, l, 2)
	}()
	same(t, a, l, 2)
	<-done
	n.host("creator").kill()
	if a.Close(); a.Held().Has(3) || !a.Held().Has(2) {
		t.Error("a has chunk 3, or lacks chunk 2")
	}
}

func TestLiarIsDropped(t *testing.T) {
	var n network
	l := text(t, 20)
	liar := &store{ChunkSource: l, spoil: func(i int, b []byte) error { b[len(b)/2] ^= 1; return nil }}
	honest := &store{ChunkSource: l}
	n.serve(t, "liar", l.Manifest(), liar)
	n.serve(t, "honest", l.Manifest(), honest)
	f := fetcher(t, n.config("a", "liar", "honest"), l)
	for i := range l.Manifest().Leaves {
		same(t, f, l, i)
	}
	if liar.count.Load() != 1 || honest.count.Load() != 21 {
		t.Errorf("the liar was asked %d times, the other one %d times", liar.count.Load(), honest.count.Load())
	}
	alone := fetcher(t, n.config("b", "liar"), l)
	if _, err := alone.Chunk(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "none of 1 peers gave bytes 3145728 to 4194303 of text: liar: what it sent has another hash") {
		t.Errorf("a liar alone: %v", err)
	}
}

func TestHashesAreChecked(t *testing.T) {
	var n network
	l := text(t, 2)
	wrong := *l.Manifest()
	wrong.Leaves = slices.Clone(wrong.Leaves)
	wrong.Leaves[1][0]++
	n.serve(t, "liar", &wrong, Whole(l))
	_, err := Open(t.Context(), n.config("a", "liar"), l.Manifest().Identity)
	if err == nil || !strings.Contains(err.Error(), "the hashes of text don't give its root") {
		t.Errorf("error is %v", err)
	}
	n.serve(t, "honest", l.Manifest(), Whole(l))
	same(t, fetcher(t, n.config("b", "liar", "honest"), l), l, 1)

	id := l.Manifest().Identity
	id.Files = slices.Clone(id.Files)
	id.Files[0].Size = data.MaxFileSize + 1
	if _, err := Open(t.Context(), n.config("c", "honest"), id); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a file of 16 TiB and a byte: %v", err)
	}
}

func TestStrangersGetNothing(t *testing.T) {
	var n network
	l := text(t, 1)
	n.serve(t, "creator", l.Manifest(), Whole(l))
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Secret = "secreT" }, "the secret is wrong"},
		{func(c *Config) { c.Secret = "" }, "the secret is wrong"},
		{func(c *Config) { c.Run = "ruin" }, "this is another run"},
		{func(c *Config) { c.Peers = func() []Peer { return nil } }, "there is nobody to ask"},
	} {
		cfg := n.config("stranger", "creator")
		c.change(&cfg)
		if _, err := Open(t.Context(), cfg, l.Manifest().Identity); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, want one with %q", err, c.want)
		}
	}
}

// A holder that says nothing any more is left for another one, and if there is none, the error comes in time.
func TestStall(t *testing.T) {
	l := text(t, 3)
	for name, answer := range map[string]func(conn net.Conn){
		"silent": func(net.Conn) {},
		"half a chunk": func(c net.Conn) {
			c.Write(append(appendReply(nil, kindChunk, 1, data.ChunkSize), make([]byte, 1<<19)...))
		},
		"drop by drop":   drip,
		"too large":      func(c net.Conn) { c.Write(appendReply(nil, kindChunk, 1, 1<<32-1)) },
		"another chunk":  func(c net.Conn) { c.Write(appendReply(nil, kindChunk, 2, data.ChunkSize)) },
		"hashes":         func(c net.Conn) { c.Write(appendReply(nil, kindHashes, 1, data.ChunkSize)) },
		"closes":         func(c net.Conn) { c.Close() },
		"has it and not": func(c net.Conn) { c.Write(appendReply(nil, kindHave, 1, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n network
				bad := n.host("bad")
				bad.Handle(Protocol, func(_ string, conn net.Conn) { misbehave(conn, l, answer) })
				defer bad.kill()
				cfg := n.config("a", "bad")
				f, err := Open(t.Context(), cfg, l.Manifest().Identity)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				start := time.Now()
				if _, err = f.Chunk(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "none of 1 peers gave bytes 1048576 to 2097151 of text: bad: ") {
					t.Errorf("error is %v", err)
				}
				if took := time.Since(start); took > defaultGiveUp+slowest*defaultWait {
					t.Errorf("it took %v", took)
				}

				good := n.host("good")
				server := Serve(ServerConfig{Transport: good, Run: "run", Secret: "secret", Manifest: l.Manifest(), Store: Whole(l), Log: discard})
				defer good.handlers.Wait()
				defer server.Close()
				both, err := Open(t.Context(), n.config("b", "bad", "good"), l.Manifest().Identity)
				if err != nil {
					t.Fatal(err)
				}
				defer both.Close()
				same(t, both, l, 1)
			})
		})
	}
}

// misbehave says hello, gives hashes, and answers a request for a chunk in its own way.
func misbehave(conn net.Conn, l *data.Local, answer func(conn net.Conn)) {
	defer conn.Close()
	if _, err := readHello(conn); err != nil {
		return
	}
	conn.Write(appendReply(nil, kindHave, 0, 0))
	for {
		q, err := readRequest(conn, len(l.Manifest().Leaves))
		if err != nil {
			return
		}
		if q.kind == kindChunk {
			answer(conn)
			io.Copy(io.Discard, conn)
			return
		}
		conn.Write(appendReply(nil, kindHashes, q.first, q.count*hashSize))
		for _, h := range l.Manifest().Leaves[q.first : q.first+q.count] {
			conn.Write(h[:])
		}
	}
}

func drip(conn net.Conn) {
	conn.Write(appendReply(nil, kindChunk, 1, data.ChunkSize))
	for range data.ChunkSize {
		if _, err := conn.Write([]byte{0}); err != nil {
			return
		}
		<-time.After(time.Second) // of the bubble
	}
}

// A holder dies in the middle of a chunk: the others give the rest.
func TestHolderKilled(t *testing.T) {
	var n network
	l := text(t, 12)
	started, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	dying := &store{ChunkSource: l, spoil: func(i int, b []byte) error {
		if i == 5 {
			once.Do(func() { close(started) })
			<-release
		}
		return nil
	}}
	n.serve(t, "dying", l.Manifest(), dying)
	second := false
	cfg := n.config("a", "dying")
	only, both := cfg.Peers, n.config("a", "dying", "other").Peers
	var mu sync.Mutex
	cfg.Peers = func() []Peer {
		mu.Lock()
		defer mu.Unlock()
		if second {
			return both()
		}
		return only()
	}
	f := fetcher(t, cfg, l)
	same(t, f, l, 0)
	got := make(chan error, 1)
	go func() {
		_, err := f.Chunk(t.Context(), 5)
		got <- err
	}()
	<-started
	n.serve(t, "other", l.Manifest(), Whole(l))
	mu.Lock()
	second = true
	mu.Unlock()
	close(release)
	n.host("dying").kill()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	for i := range l.Manifest().Leaves {
		same(t, f, l, i)
	}
}

// Who persists waits, says so once, and goes on when somebody comes who has the chunk; also for one that was fetched ahead.
func TestPersist(t *testing.T) {
	l := text(t, 4)
	for _, alone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var n network
			serve := func(name string, has func(i int) bool) *Server {
				return Serve(ServerConfig{Transport: n.host(name), Run: "run", Secret: "secret", Manifest: l.Manifest(),
					Store: &store{ChunkSource: l, has: has}, Log: discard})
			}
			one := serve("one", func(i int) bool { return i == 0 })
			cfg := n.config("a", "one")
			members, come := cfg.Peers, make(chan struct{})
			cfg.Peers = func() []Peer {
				select {
				case <-come:
					return []Peer{{ID: "late", Addrs: []string{"at late"}}}
				default:
					return members()
				}
			}
			f, err := Open(t.Context(), cfg, l.Manifest().Identity)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			said := make(chan error, 10)
			f.Persist(func(why error) { said <- why })
			f.Follow(slices.Values([]int{1, 2}))
			if alone {
				one.Close()
			}
			time.Sleep(defaultGiveUp - time.Second) // of the bubble: so that chunk 1 is wanted while it is fetched ahead
			got := make(chan []byte, 2)
			for _, i := range []int{1, 3} {
				go func() {
					b, err := f.Chunk(t.Context(), i)
					if err != nil {
						t.Error(err)
					}
					got <- b
				}()
			}
			time.Sleep(10 * time.Minute)
			if len(got) > 0 || len(said) != 1 {
				t.Fatalf("%d chunks are here, it said %d times that it waits", len(got), len(said))
			}
			if why := <-said; why == nil || !strings.Contains(why.Error(), "data: none of 1 peers gave bytes ") {
				t.Errorf("it says %v", why)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if _, err := f.Chunk(ctx, 2); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a wait that is given up: %v", err)
			}
			cancel()
			late := serve("late", func(int) bool { return true })
			close(come)
			for range 2 {
				if b := <-got; len(b) == 0 {
					t.Error("an empty chunk")
				}
			}
			time.Sleep(time.Minute)
			if why := <-said; why != nil || len(said) > 0 {
				t.Errorf("it says %v and %d more", why, len(said))
			}
			one.Close()
			late.Close()
		})
	}
}

func TestNobodyHasIt(t *testing.T) {
	l := text(t, 3)
	synctest.Test(t, func(t *testing.T) {
		var n network
		var servers []*Server
		for _, name := range []string{"one", "two"} {
			servers = append(servers, Serve(ServerConfig{Transport: n.host(name), Run: "run", Secret: "secret", Manifest: l.Manifest(),
				Store: &store{ChunkSource: l, has: func(i int) bool { return i == 0 }}, Log: discard}))
		}
		f, err := Open(t.Context(), n.config("a", "one", "two"), l.Manifest().Identity)
		if err != nil {
			t.Fatal(err)
		}
		same(t, f, l, 0)
		start := time.Now()
		_, err = f.Chunk(t.Context(), 2)
		const want = "data: none of 2 peers gave bytes 2097152 to 3145727 of text: one: it does not have them; two: it does not have them"
		if err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
		if took := time.Since(start); took < defaultGiveUp || took > defaultGiveUp+time.Second {
			t.Errorf("it took %v", took)
		}
		stopped := errors.New("the run is over")
		go f.Stop(stopped)
		if _, err = f.Chunk(t.Context(), 1); !errors.Is(err, stopped) {
			t.Errorf("after Stop: %v", err)
		}
		f.Close()
		f.Close()
		if _, err = f.Chunk(t.Context(), 1); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		same(t, f, l, 0)
		for _, s := range servers {
			s.Close()
			s.Close()
		}
	})
}

// What is fetched ahead comes in the plan's order, as much as half of the memory holds and no more.
func TestFollow(t *testing.T) {
	const window = 10
	var n network
	l := text(t, 30)
	asked := make(chan int, 100)
	st := &store{ChunkSource: l, spoil: func(i int, b []byte) error { asked <- i; return nil }}
	n.serve(t, "creator", l.Manifest(), st)
	cfg := n.config("a", "creator")
	cfg.Memory = 2 * window
	f := fetcher(t, cfg, l)
	var plan []int
	for i := range l.Manifest().Leaves {
		at := (i*7 + 3) % len(l.Manifest().Leaves)
		plan = append(plan, at, at)
	}
	f.Follow(slices.Values(plan))
	plan = slices.Compact(plan)[:window]
	for k := range window { // the k-th request is for one of those that k answers and all workers allow
		if i := <-asked; !slices.Contains(plan[:min(window, k+parallel)], i) {
			t.Errorf("request %d is for chunk %d, planned is %v", k, i, plan)
		}
	}
	for _, i := range plan {
		same(t, f, l, i)
	}
	f.Follow(slices.Values(plan)) // again: nothing is fetched that is there
	f.Close()
	if len(asked) > 0 {
		t.Errorf("chunk %d was asked for too", <-asked)
	}
}

// While chunks are fetched ahead by all streams meant for that, one that is waited for has a stream of its own.
func TestUrgent(t *testing.T) {
	var n network
	l := text(t, 10)
	release := make(chan struct{})
	st := &store{ChunkSource: l, spoil: func(i int, b []byte) error {
		if i != 9 {
			<-release
		}
		return nil
	}}
	n.serve(t, "creator", l.Manifest(), st)
	f := fetcher(t, n.config("a", "creator"), l)
	f.Follow(slices.Values([]int{1, 2, 3, 9}))
	same(t, f, l, 9)
	close(release)
	for i := range 4 {
		same(t, f, l, i)
	}
}

func TestServerLimits(t *testing.T) {
	var n network
	l := text(t, 1)
	s := n.serve(t, "creator", l.Manifest(), Whole(l))
	open := func(name string) net.Conn {
		conn, err := n.host(name).Open(t.Context(), "creator", []string{"at creator"}, Protocol)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	greeted := func(conn net.Conn) error {
		b, err := appendHello(nil, hello{"run", "secret"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(b); err != nil {
			return err
		}
		_, err = readReply(conn, request{}, 0, 2)
		return err
	}
	for range maxPeerStream {
		if err := greeted(open("greedy")); err != nil {
			t.Fatal(err)
		}
	}
	if err := greeted(open("greedy")); err == nil {
		t.Error("one stream more was served")
	}
	if err := greeted(open("modest")); err != nil {
		t.Error(err)
	}
	for _, bad := range []request{{kindChunk, 2, 1}, {kindChunk, 0, 2}, {kindHashes, 0, 3}, {kindHashes, 0, 0}, {kindHave, 0, 1}, {0, 0, 1}} {
		conn := open(fmt.Sprint(bad))
		if err := greeted(conn); err != nil {
			t.Fatal(err)
		}
		conn.Write(appendRequest(nil, bad))
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("request %+v was answered", bad)
		}
	}
	s.Close()
	if s.total != 0 || len(s.streams) != 0 {
		t.Errorf("%d streams are left: %v", s.total, s.streams)
	}
}
