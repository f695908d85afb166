package swarm

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"shoal/swarm/codec"
)

// tcpHost is a Transport over loopback TCP, without security: the ceiling of what a real one reaches. A stream is a
// connection that begins with a line of the opener's name.
type tcpHost struct {
	name     string
	listener net.Listener
	tasks    sync.WaitGroup

	mu     sync.Mutex
	handle func(peer string, stream net.Conn)
}

func newTCPHost(b *testing.B, name string) *tcpHost {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	h := &tcpHost{name: name, listener: l}
	h.tasks.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.tasks.Go(func() { h.serve(c) })
		}
	})
	return h
}

func (h *tcpHost) serve(c net.Conn) {
	r := bufio.NewReader(c)
	peer, err := r.ReadString('\n')
	h.mu.Lock()
	handle := h.handle
	h.mu.Unlock()
	if err != nil || handle == nil {
		c.Close()
		return
	}
	handle(strings.TrimSuffix(peer, "\n"), readerConn{c, r})
}

type readerConn struct {
	net.Conn
	r *bufio.Reader
}

func (c readerConn) Read(p []byte) (int, error) { return c.r.Read(p) }

func (h *tcpHost) Self() string    { return h.name }
func (h *tcpHost) Addrs() []string { return []string{h.listener.Addr().String()} }

func (h *tcpHost) Open(ctx context.Context, _ string, addrs []string, _ string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addrs[0])
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(c, h.name); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (h *tcpHost) Drop(string) {} // each stream has a connection of its own

func (h *tcpHost) Handle(_ string, f func(peer string, stream net.Conn)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handle = f
}

// addSink adds into one accumulator, as the engine does.
type addSink struct {
	mu  sync.Mutex
	sum []int32
}

func (s *addSink) Add(_ Kind, _, _, offset int, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.sum[offset : offset+len(data)/4]
	for i := range sum {
		sum[i] += int32(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return nil
}

func (s *addSink) Done(Kind, int, int, int) error { return nil }

// BenchmarkExchange is a reduce-scatter and an all-gather of 40 MB among 4 members over loopback TCP.
func BenchmarkExchange(b *testing.B) {
	for _, packing := range []codec.Packing{codec.Off, codec.On, codec.Auto} {
		b.Run(packing.String(), func(b *testing.B) { benchmarkExchange(b, packing) })
	}
}

func benchmarkExchange(b *testing.B, packing codec.Packing) {
	const n, elements = 4, 10_000_000
	var members []exchangeMember
	var view []uint64
	var hosts []*tcpHost
	for r := range n {
		h := newTCPHost(b, peerName(r))
		hosts = append(hosts, h)
		members, view = append(members, exchangeMember{ID: uint64(r + 1), Peer: h.name, Addrs: h.Addrs()}), append(view, uint64(r+1))
	}
	m := &mesh{t: b, x: make([]*exchange, n)}
	whole, give := make([][]byte, n), make([][]byte, n)
	for r := range n {
		x, err := newExchange(exchangeConfig{Transport: hosts[r], Run: "run", Self: view[r], Packing: packing})
		if err != nil {
			b.Fatal(err)
		}
		for _, o := range members {
			x.add(o)
		}
		m.x[r] = x
		whole[r] = int32s(elements, func(i int) int32 { return value(1, 1, 1, i) })
		give[r] = int32s(elements, func(i int) int32 { return value(1, 1, 1, i) })
	}
	cut := func(all []byte) (parts [][]byte) {
		for r := range n {
			parts = append(parts, all[4*(elements*r/n):4*(elements*(r+1)/n)])
		}
		return parts
	}
	b.SetBytes(4 * elements)
	fence := uint64(0)
	for b.Loop() {
		fence++
		m.each(func(r int, x *exchange) error {
			if _, err := x.begin(b.Context(), fence, view, &addSink{sum: make([]int32, elements/n)}); err != nil {
				return err
			}
			if err := x.give(b.Context(), Gradient, 0, cut(give[r]), 1)(); err != nil {
				return err
			}
			parts := cut(whole[r])
			return gathered(x.allGather(b.Context(), 0, 4, parts[r], nil, parts))
		})
	}
	for r, x := range m.x {
		x.close()
		hosts[r].listener.Close()
		hosts[r].tasks.Wait()
	}
}
