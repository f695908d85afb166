//go:build !js

package peer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	pbv2 "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/pb"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

const (
	relayBuffer     = 64 << 10 // bytes that a circuit copies at a time, in each direction
	circuitsPerPeer = 64       // with 32 members there is one for each other one, and room for those that are redialled

	straightTimeout = 5 * time.Second
)

// relaying is what a daemon has of circuits: it is a relay. See [Note: circuits].
type relaying struct {
	member       atomic.Pointer[func(peer string) bool]
	circuits     atomic.Int64
	reservations atomic.Int64
	bytes        atomic.Int64

	mu      sync.Mutex
	direct  map[peer.ID]chan struct{} // closed when the first direct connection is there
	asking  map[peer.ID]chan struct{} // closed when the one who asks to be dialled has an answer
	crooked map[string]bool           // circuits, by the connection's id, whose peer can't dial this one
}

// startRelaying begins to carry circuits. A daemon gives whoever is connected a place, which costs it a few bytes, but
// connects only those for whom the function of RelayFor says yes. Those may send as much as they like.
func (h *Host) startRelaying() error {
	r := &h.relaying
	r.direct, r.asking, r.crooked = map[peer.ID]chan struct{}{}, map[peer.ID]chan struct{}{}, map[string]bool{}
	h.host.Network().Notify(&network.NotifyBundle{ConnectedF: r.connected, DisconnectedF: r.disconnected})
	limits := relay.DefaultResources()
	limits.Limit = nil
	limits.BufferSize = relayBuffer
	limits.MaxCircuits = circuitsPerPeer
	limits.MaxReservations = h.maxPeers
	limits.MaxReservationsPerIP, limits.MaxReservationsPerASN = h.maxPeers, h.maxPeers
	service, err := relay.New(h.host, relay.WithResources(limits), relay.WithACL(r), relay.WithMetricsTracer(r),
		relay.WithReservationAddressFilter(func(ma.Multiaddr) bool { return false })) // they are known, and too long for the answer
	if err != nil {
		return fmt.Errorf("peer: relay: %w", singleLine{err})
	}
	if !h.beforeClose(func() { service.Close() }) {
		service.Close()
		return ErrClosed
	}
	return nil
}

// RelayFor has this daemon carry circuits between peers for whom member says yes, which has to be quick. At first it does
// so for nobody. In a browser it has no effect.
func (h *Host) RelayFor(member func(peer string) bool) { h.relaying.member.Store(&member) }

// Relaying is what this daemon carries now.
func (h *Host) Relaying() Relaying {
	r := &h.relaying
	return Relaying{Circuits: int(r.circuits.Load()), Peers: int(r.reservations.Load()), Bytes: r.bytes.Load(),
		MostPeers: h.maxPeers, MostCircuits: circuitsPerPeer}
}

// AllowReserve is for libp2p's relay.
func (r *relaying) AllowReserve(peer.ID, ma.Multiaddr) bool { return true }

// AllowConnect is for libp2p's relay.
func (r *relaying) AllowConnect(from peer.ID, _ ma.Multiaddr, to peer.ID) bool {
	member := r.member.Load()
	return member != nil && (*member)(from.String()) && (*member)(to.String())
}

// The following are for libp2p's relay, too, which calls that metrics.

func (r *relaying) ConnectionOpened()              { r.circuits.Add(1) }
func (r *relaying) ConnectionClosed(time.Duration) { r.circuits.Add(-1) }
func (r *relaying) ReservationClosed(n int)        { r.reservations.Add(int64(-n)) }
func (r *relaying) BytesTransferred(n int)         { r.bytes.Add(int64(n)) }
func (r *relaying) ReservationAllowed(renewal bool) {
	if !renewal {
		r.reservations.Add(1)
	}
}
func (r *relaying) RelayStatus(bool)                      {}
func (r *relaying) ConnectionRequestHandled(pbv2.Status)  {}
func (r *relaying) ReservationRequestHandled(pbv2.Status) {}

// addrs are the listeners' addresses and those announced.
func (h *Host) addrs() []ma.Multiaddr {
	own, err := h.host.Network().InterfaceListenAddresses()
	if err != nil { // the interfaces can't be listed: what is listened on by name is still known
		own = h.host.Network().ListenAddresses()
	}
	return advertised(own, h.announce)
}

// advertised is what others are told: the listeners' addresses own and those announced. Of each host all transports stand
// together, so that whoever takes only the first ones has all of these.
func advertised(own, announce []ma.Multiaddr) []ma.Multiaddr {
	own = dialable(own)
	announce = certified(announce, own)
	own = slices.DeleteFunc(own, func(a ma.Multiaddr) bool { return isCircuit(a) || ma.Contains(announce, a) })
	slices.SortStableFunc(own, func(a, b ma.Multiaddr) int {
		if la, lb := manet.IsIPLoopback(a), manet.IsIPLoopback(b); la != lb {
			if lb {
				return -1
			}
			return 1
		}
		return bytes.Compare(a[0].Bytes(), b[0].Bytes())
	})
	all := append(announce, own...)
	return all[:min(len(all), maxLinkAddrs)]
}

// certified adds the hashes of the own certificates to addresses of WebTransport without any, and drops these where it
// isn't listened on: nobody could dial them.
func certified(announce, own []ma.Multiaddr) (out []ma.Multiaddr) {
	var hashes ma.Multiaddr
	for _, a := range own {
		if kindOf(a) == kindWebTransport {
			hashes = slices.DeleteFunc(slices.Clone(a), func(c ma.Component) bool { return c.Protocol().Code != ma.P_CERTHASH })
			break
		}
	}
	for _, a := range announce {
		if kindOf(a) == kindWebTransport && len(certHashes(a)) == 0 {
			if a = ma.Join(a, hashes); len(hashes) == 0 {
				continue
			}
		}
		out = append(out, a)
	}
	return out
}

// reserve is for browsers: a daemon needs no relay.
func (h *Host) reserve(context.Context, network.Conn) {}

// connected and disconnected are for a network's notifications.
func (r *relaying) connected(_ network.Network, c network.Conn) {
	if throughCircuit(c) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if there := r.direct[c.RemotePeer()]; there != nil {
		close(there)
		delete(r.direct, c.RemotePeer())
	}
}

func (r *relaying) disconnected(_ network.Network, c network.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.crooked, c.ID())
}

// straighten has the peer behind a circuit dial this one, and is the direct connection then; or the circuit, if that fails.
// One asks, all others wait.
func (h *Host) straighten(ctx context.Context, circuit network.Conn) network.Conn {
	if !throughCircuit(circuit) {
		return circuit
	}
	r, id := &h.relaying, circuit.RemotePeer()
	ctx, cancel := context.WithTimeout(ctx, straightTimeout)
	defer cancel()
	r.mu.Lock()
	if r.crooked[circuit.ID()] {
		r.mu.Unlock()
		return circuit
	}
	answered, ask := r.asking[id], false
	if answered == nil {
		answered, ask = make(chan struct{}), true
		r.asking[id], r.direct[id] = answered, make(chan struct{})
	}
	direct := r.direct[id]
	r.mu.Unlock()
	if ask {
		err := h.askToDial(ctx, circuit, direct)
		r.mu.Lock()
		delete(r.asking, id)
		delete(r.direct, id)
		if err != nil && !circuit.IsClosed() {
			r.crooked[circuit.ID()] = true
		}
		r.mu.Unlock()
		close(answered)
		h.log.Debug("asked a peer to dial", "peer", short(id), "err", err)
	}
	select {
	case <-answered:
	case <-ctx.Done():
	}
	for _, c := range h.host.Network().ConnsToPeer(id) {
		if !throughCircuit(c) && !c.IsClosed() {
			return c
		}
	}
	return circuit
}

// askToDial tells the own addresses through a circuit, and waits until direct is closed.
func (h *Host) askToDial(ctx context.Context, circuit network.Conn, direct <-chan struct{}) error {
	s, err := circuit.NewStream(ctx)
	if err != nil {
		return err
	}
	defer s.Reset()
	defer context.AfterFunc(ctx, func() { s.Reset() })()
	if err := negotiate(ctx, s, dialMeProtocol); err != nil {
		return err
	}
	if _, err := io.WriteString(s, strings.Join(h.Addrs(), "\n")); err != nil {
		return err
	}
	if err := s.CloseWrite(); err != nil {
		return err
	}
	answer, err := io.ReadAll(io.LimitReader(s, maxDialMe))
	if err == nil && string(answer) != dialledYou {
		err = fmt.Errorf("it can't dial: %s", oneLine(string(answer)))
	}
	if err != nil {
		return err
	}
	select {
	case <-direct:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
