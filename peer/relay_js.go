package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

const (
	reserveTimeout = 5 * time.Second
	reserveAgain   = time.Minute // after a refusal
	dialMeTimeout  = 5 * time.Second
)

// relaying is what a browser has of circuits: a place at each daemon that it has dialled. See [Note: circuits].
type relaying struct {
	mu     sync.Mutex
	places map[peer.ID]*place
}

// place is one at a daemon. It is lost with the connection over which it was asked for.
type place struct {
	conn   network.Conn
	asked  chan struct{} // closed when the daemon has answered, or has not for reserveTimeout
	held   bool          // under mu of relaying
	cancel context.CancelFunc
}

// RelayFor has no effect in a browser.
func (h *Host) RelayFor(func(peer string) bool) {}

// Relaying is nothing: a browser carries nothing for others.
func (h *Host) Relaying() Relaying { return Relaying{} }

func (h *Host) startRelaying() error {
	h.relaying.places = map[peer.ID]*place{}
	h.host.Network().Notify(&network.NotifyBundle{DisconnectedF: h.relaying.disconnected})
	h.Handle(dialMeProtocol, h.dialAsAsked)
	return nil
}

// reserve waits until the daemon at the other end of conn has given this peer a place or has refused to. It keeps the place
// until the connection is gone.
func (h *Host) reserve(ctx context.Context, conn network.Conn) {
	if throughCircuit(conn) {
		return
	}
	r, id := &h.relaying, conn.RemotePeer()
	r.mu.Lock()
	p := r.places[id]
	if p == nil || p.conn.IsClosed() {
		if !h.begin(&h.handlers) {
			r.mu.Unlock()
			return
		}
		if p != nil {
			p.cancel()
		}
		p = &place{conn: conn, asked: make(chan struct{})}
		var keeping context.Context
		keeping, p.cancel = context.WithCancel(h.ctx)
		r.places[id] = p
		go func() {
			defer h.handlers.Done()
			h.keep(keeping, id, p)
		}()
	}
	r.mu.Unlock()
	select {
	case <-p.asked:
	case <-ctx.Done():
	}
}

// keep asks a daemon for a place, again before it is lost, until ctx ends.
func (h *Host) keep(ctx context.Context, id peer.ID, p *place) {
	for {
		asking, cancel := context.WithTimeout(ctx, reserveTimeout)
		got, err := client.Reserve(asking, h.host, peer.AddrInfo{ID: id})
		cancel()
		h.relaying.mu.Lock()
		p.held = err == nil
		h.relaying.mu.Unlock()
		if !over(p.asked) {
			close(p.asked)
		}
		wait := reserveAgain
		if err == nil {
			wait = time.Until(got.Expiration) / 2
		} else {
			h.log.Debug("no place at a relay", "peer", short(id), "err", oneLine(err.Error()))
		}
		if pause(ctx, max(wait, reserveAgain)); ctx.Err() != nil {
			return
		}
	}
}

// disconnected is for a network's notifications.
func (r *relaying) disconnected(_ network.Network, c network.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.places[c.RemotePeer()]; p != nil && p.conn.ID() == c.ID() {
		p.cancel()
		delete(r.places, c.RemotePeer())
	}
}

// addrs lead through the daemons that have a place for this peer.
func (h *Host) addrs() []ma.Multiaddr {
	h.relaying.mu.Lock()
	var relays []peer.ID
	for id, p := range h.relaying.places {
		if p.held {
			relays = append(relays, id)
		}
	}
	h.relaying.mu.Unlock()
	slices.Sort(relays)
	var out []ma.Multiaddr
	for _, id := range relays[:min(len(relays), maxLinkAddrs)] {
		out = append(out, circuitVia(h.dialableByAll(id), id))
	}
	return out
}

// dialableByAll is the address of a daemon that serves most of those who are not connected to it: over WebSocket, not
// loopback, and on the machine where this peer has reached it; nil if there is none.
func (h *Host) dialableByAll(id peer.ID) ma.Multiaddr {
	var at []ma.Multiaddr
	for _, c := range h.host.Network().ConnsToPeer(id) {
		at = append(at, c.RemoteMultiaddr())
	}
	var best ma.Multiaddr
	most := -1
	for _, a := range dialable(h.host.Peerstore().Addrs(id)) {
		if kindOf(a) != kindWS {
			continue
		}
		score := 0
		if !manet.IsIPLoopback(a) {
			score = 2
		}
		if slices.ContainsFunc(at, func(c ma.Multiaddr) bool { return c[0].Equal(&a[0]) }) {
			score++
		}
		if score > most {
			best, most = a, score
		}
	}
	return best
}

// straighten has nothing to do: a browser can't be dialled.
func (h *Host) straighten(_ context.Context, circuit network.Conn) network.Conn { return circuit }

// dialAsAsked dials a peer that has asked for it.
func (h *Host) dialAsAsked(from string, c net.Conn) {
	defer c.Close()
	if c.SetDeadline(time.Now().Add(dialMeTimeout)) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(h.ctx, dialMeTimeout)
	defer cancel()
	answer := dialledYou
	if err := h.dialBack(ctx, from, c); err != nil {
		answer = oneLine(err.Error())
	}
	io.WriteString(c, answer)
}

func (h *Host) dialBack(ctx context.Context, from string, c io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(c, maxDialMe))
	if err != nil {
		return err
	}
	id, err := parsePeer(from)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) > maxLinkAddrs {
		return errors.New("too many addresses")
	}
	var addrs []ma.Multiaddr
	for _, line := range lines {
		a, err := parseAddr(line)
		if err != nil {
			return err
		}
		addrs = append(addrs, a)
	}
	h.host.Peerstore().AddAddrs(id, addrs, peerstore.TempAddrTTL)
	conn, err := h.dialDirect(ctx, id)
	if err == nil {
		h.reserve(ctx, conn)
	}
	return err
}
