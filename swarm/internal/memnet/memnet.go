// Package memnet is a network inside one process, for tests: hosts with names, streams with bounded buffers and
// deadlines, and faults on demand. A Host has the methods of swarm.Transport. Nothing here sleeps or starts a goroutine
// but the handlers of incoming streams, so it also works inside a testing/synctest bubble.
package memnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// ErrReset is what reads and writes return once a stream was closed by either side, cut or broken. As after a reset of
// a real stream, bytes that were not read by then are lost.
var ErrReset = errors.New("memnet: stream reset")

// ErrRefused is wrapped by what Open returns for a host that was closed: nobody listens there any more.
var ErrRefused = errors.New("memnet: connection refused")

// Network joins hosts by name.
type Network struct {
	mu       sync.Mutex
	hosts    map[string]*Host
	closed   map[string]bool    // hosts that are no more
	links    map[*link]struct{} // open streams
	cut      map[pair]bool
	mute     map[pair]map[string]bool // by pair: hosts that have dropped the other one since Mute
	handlers sync.WaitGroup
}

type pair struct{ a, b string } // a <= b

func pairOf(a, b string) pair {
	if a > b {
		a, b = b, a
	}
	return pair{a, b}
}

// New makes a network without hosts.
func New() *Network {
	return &Network{hosts: map[string]*Host{}, closed: map[string]bool{}, links: map[*link]struct{}{}, cut: map[pair]bool{}, mute: map[pair]map[string]bool{}}
}

// Host returns the host called name, and makes it if there is none or the last one of that name was closed.
func (n *Network) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[name]
	if h == nil {
		h = &Host{net: n, name: name, handlers: map[string]func(string, net.Conn){}}
		n.hosts[name] = h
		delete(n.closed, name)
	}
	return h
}

// Cut resets all streams between a and b and refuses new ones until Heal.
func (n *Network) Cut(a, b string) {
	n.mu.Lock()
	n.cut[pairOf(a, b)] = true
	n.mu.Unlock()
	n.Break(a, b)
}

// Heal undoes Cut.
func (n *Network) Heal(a, b string) {
	n.mu.Lock()
	delete(n.cut, pairOf(a, b))
	n.mu.Unlock()
}

// Mute has nothing that is written between a and b arrive any more. Nothing is reset: streams can still be opened, as on a
// connection that seems to be there, until that is dropped; then Open waits for as long as its context allows.
func (n *Network) Mute(a, b string) {
	p := pairOf(a, b)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mute[p] = map[string]bool{}
	for l := range n.links {
		if l.pair() == p {
			l.silence()
		}
	}
}

// Unmute undoes Mute for streams that are opened from then on; those that were muted are reset.
func (n *Network) Unmute(a, b string) {
	p := pairOf(a, b)
	n.mu.Lock()
	delete(n.mute, p)
	n.mu.Unlock()
	n.Break(a, b)
}

// Break resets all streams between a and b; new ones may be opened at once.
func (n *Network) Break(a, b string) {
	p := pairOf(a, b)
	n.reset(func(l *link) bool { return l.pair() == p })
}

// Streams is the number of open streams.
func (n *Network) Streams() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.links)
}

// Wait blocks until all handlers of incoming streams have returned.
func (n *Network) Wait() { n.handlers.Wait() }

func (n *Network) reset(match func(*link) bool) {
	n.mu.Lock()
	var hit []*link
	for l := range n.links {
		if match(l) {
			hit = append(hit, l)
		}
	}
	n.mu.Unlock()
	for _, l := range hit {
		l.reset()
	}
}

func (n *Network) forget(l *link) {
	n.mu.Lock()
	delete(n.links, l)
	n.mu.Unlock()
}

// Host is one peer of a Network.
type Host struct {
	net      *Network
	name     string
	handlers map[string]func(peer string, stream net.Conn) // guarded by net.mu
}

// Self is the host's name.
func (h *Host) Self() string { return h.name }

// Addrs gives one address; Open does not need it.
func (h *Host) Addrs() []string { return []string{"/memory/" + h.name} }

// Open opens a stream to the host called peer. It fails at once when there is no such host (with ErrRefused where there
// was one), the pair is cut, or peer has no handler for protocol.
func (h *Host) Open(ctx context.Context, peer string, _ []string, protocol string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("memnet: open %s to %s: %w", protocol, peer, err)
	}
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	to := n.hosts[peer]
	switch {
	case n.hosts[h.name] != h:
		return nil, fmt.Errorf("memnet: open %s to %s: host %s is closed", protocol, peer, h.name)
	case to == nil && n.closed[peer] && !n.cut[pairOf(h.name, peer)]:
		return nil, fmt.Errorf("open %s to %s: %w", protocol, peer, ErrRefused)
	case to == nil:
		return nil, fmt.Errorf("memnet: open %s to %s: no such host", protocol, peer)
	case n.cut[pairOf(h.name, peer)]:
		return nil, fmt.Errorf("memnet: open %s to %s: unreachable", protocol, peer)
	case to.handlers[protocol] == nil:
		return nil, fmt.Errorf("memnet: open %s to %s: protocol not supported", protocol, peer)
	}
	handle := to.handlers[protocol]
	l := newLink(h.name, peer, n.forget)
	if dropped, mute := n.mute[l.pair()]; mute && dropped[h.name] {
		n.mu.Unlock()
		<-ctx.Done()
		n.mu.Lock()
		return nil, fmt.Errorf("memnet: open %s to %s: %w", protocol, peer, ctx.Err())
	} else if mute {
		l.silence()
	}
	n.links[l] = struct{}{}
	n.handlers.Go(func() { handle(h.name, &l.ends[1]) })
	return &l.ends[0], nil
}

// Drop ends all streams to peer. Across a pair that is mute, only this side learns of it.
func (h *Host) Drop(peer string) {
	n, p := h.net, pairOf(h.name, peer)
	n.mu.Lock()
	if dropped := n.mute[p]; dropped != nil {
		dropped[h.name] = true
	}
	var ends []*end
	for l := range n.links {
		if l.pair() == p {
			ends = append(ends, l.end(h.name))
		}
	}
	n.mu.Unlock()
	for _, e := range ends {
		e.Close()
	}
}

// Handle has f called, in a goroutine of its own, for each incoming stream of protocol; nil removes the handler.
func (h *Host) Handle(protocol string, f func(peer string, stream net.Conn)) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if f == nil {
		delete(h.handlers, protocol)
		return
	}
	h.handlers[protocol] = f
}

// Close takes the host off the network and resets its streams, as the death of its process would. It may be called
// twice. It does not wait for handlers (see Network.Wait).
func (h *Host) Close() error {
	h.net.mu.Lock()
	if h.net.hosts[h.name] != h {
		h.net.mu.Unlock()
		return nil
	}
	delete(h.net.hosts, h.name)
	h.net.closed[h.name] = true
	h.net.mu.Unlock()
	h.net.reset(func(l *link) bool { return l.ends[0].local == h.name || l.ends[1].local == h.name })
	return nil
}
