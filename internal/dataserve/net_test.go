package dataserve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"shoal/internal/data"
)

// network joins hosts of this process by pipes.
type network struct {
	mu    sync.Mutex
	hosts map[string]*host
}

type host struct {
	net  *network
	name string

	handlers sync.WaitGroup
	handle   func(peer string, stream net.Conn)
	conns    []net.Conn // incoming
	dead     bool
}

func (n *network) host(name string) *host {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts == nil {
		n.hosts = map[string]*host{}
	}
	if n.hosts[name] == nil {
		n.hosts[name] = &host{net: n, name: name}
	}
	return n.hosts[name]
}

func (h *host) Handle(protocol string, f func(peer string, stream net.Conn)) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.handle = f
}

func (h *host) Open(ctx context.Context, peer string, addrs []string, protocol string) (net.Conn, error) {
	if protocol != Protocol || len(addrs) != 1 || addrs[0] != "at "+peer {
		return nil, fmt.Errorf("protocol %q at %v", protocol, addrs)
	}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	to := h.net.hosts[peer]
	if to == nil || to.dead || to.handle == nil {
		return nil, errors.New("connection refused")
	}
	a, b := net.Pipe()
	to.conns = append(to.conns, b)
	handle := to.handle
	to.handlers.Go(func() { handle(h.name, b) })
	return a, nil
}

// kill ends all streams to h, and nobody can open others.
func (h *host) kill() {
	h.net.mu.Lock()
	h.dead = true
	for _, c := range h.conns {
		c.Close()
	}
	h.net.mu.Unlock()
	h.handlers.Wait()
}

// text is a data set of n chunks and a bit, as a file.
func text(t testing.TB, n int) *data.Local {
	t.Helper()
	b := make([]byte, n*data.ChunkSize+1000)
	for i := range b {
		b[i] = byte(i*7 + i>>16)
	}
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := data.OpenLocal(t.Context(), "text", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// store is a Store whose chunks tests look at or spoil.
type store struct {
	data.ChunkSource
	has   func(i int) bool            // nil: all
	spoil func(i int, b []byte) error // nil: not

	mu    sync.Mutex
	asked []int
	count atomic.Int32
}

func (s *store) Has(i int) bool { return s.has == nil || s.has(i) }

func (s *store) Chunk(ctx context.Context, i int) ([]byte, error) {
	s.mu.Lock()
	s.asked = append(s.asked, i)
	s.mu.Unlock()
	s.count.Add(1)
	b, err := s.ChunkSource.Chunk(ctx, i)
	if err == nil && s.spoil != nil {
		b = slices.Clone(b)
		err = s.spoil(i, b)
	}
	return b, err
}

// serve has a host of that name serve st.
func (n *network) serve(t testing.TB, name string, m *data.Manifest, st Store) *Server {
	t.Helper()
	h := n.host(name)
	s := Serve(ServerConfig{Transport: h, Run: "run", Secret: "secret", Manifest: m, Store: st, Log: discard})
	t.Cleanup(func() {
		s.Close()
		h.handlers.Wait()
	})
	return s
}

// config is that of a fetcher at a host of that name, which knows some peers.
func (n *network) config(name string, peers ...string) Config {
	return Config{Transport: n.host(name), Run: "run", Secret: "secret", Peers: func() []Peer {
		var list []Peer
		for _, p := range peers {
			list = append(list, Peer{ID: p, Addrs: []string{"at " + p}})
		}
		return list
	}}
}

func fetcher(t testing.TB, cfg Config, l *data.Local) *Fetcher {
	t.Helper()
	f, err := Open(t.Context(), cfg, l.Manifest().Identity)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// same checks that chunk i comes whole.
func same(t testing.TB, f *Fetcher, l *data.Local, i int) {
	t.Helper()
	got, err := f.Chunk(t.Context(), i)
	if err != nil {
		t.Fatal(err)
	}
	want, err := l.Chunk(t.Context(), i)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("chunk %d is another one", i)
	}
}
