package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"
	msmux "github.com/multiformats/go-multistream"
)

const (
	openTimeout  = 30 * time.Second // of Open, when its context allows more
	addrTimeout  = 10 * time.Second // of one address
	maxDialAddrs = 64               // addresses that Open takes
	memberTag    = "shoal-member"   // protects a connection from being trimmed
)

// Host is a peer of the network. Its methods may be called from any goroutine.
type Host struct {
	host     host.Host
	identity *identity
	announce []ma.Multiaddr
	good     *goodAddrs
	ends     *lastEnds
	log      *slog.Logger
	maxPeers int
	disc     discovery
	relaying relaying

	ctx    context.Context // ends when Close begins
	cancel context.CancelFunc

	mu         sync.Mutex
	closed     bool
	disconnect []func(string)
	stops      []func()       // of what has to end before the libp2p host does
	handlers   sync.WaitGroup // running handlers, disconnect callbacks and background work; Add only by begin
	lingering  sync.WaitGroup // streams that say goodbye; Add only by begin

	close    sync.Once
	closeErr error
}

// newHost wraps a libp2p host that listens already.
func newHost(h host.Host, id *identity, s settings) *Host {
	ctx, cancel := context.WithCancel(context.Background())
	out := &Host{host: h, identity: id, announce: s.announce, good: s.good, ends: newLastEnds(), log: s.Log, maxPeers: s.MaxPeers, ctx: ctx, cancel: cancel}
	h.Network().Notify(&network.NotifyBundle{ConnectedF: s.good.connected, DisconnectedF: out.disconnected})
	h.Network().Notify(&network.NotifyBundle{ConnectedF: out.ends.connected})
	s.good.rankCircuits = out.rankCircuits
	return out
}

// Self is the own peer id.
func (h *Host) Self() string { return h.host.ID().String() }

// Addrs are the addresses at which others may dial this peer, as multiaddrs: those of Config.Announce and those of the
// interfaces that it listens on, with their actual ports; loopback addresses last. A browser's lead through the daemons to
// which it is connected, one each; it has none before the first Open. At most 32, as a Link holds.
func (h *Host) Addrs() []string { return texts(h.addrs()) }

func texts(addrs []ma.Multiaddr) []string {
	out := make([]string, len(addrs))
	for i, a := range addrs {
		out[i] = a.String()
	}
	return out
}

// Open opens a stream to a peer, dialling it at addrs, and at addresses known from before, if there is no connection
// yet. It returns when the peer has agreed to speak protocol, or with one of ErrUnreachable, ErrRefused, ErrWrongPeer,
// ErrProtocol, ErrClosed or the context's error wrapped; it gives up after 30 s even if ctx doesn't.
//
// Close of the stream ends both directions: the other end reads what was written before and then EOF, and its writes
// fail within 2 s. The stream also has CloseWrite() error.
func (h *Host) Open(ctx context.Context, peerID string, addrs []string, proto string) (net.Conn, error) {
	id, err := parsePeer(peerID)
	if err != nil {
		return nil, fmt.Errorf("peer: open: %w", err)
	}
	if len(addrs) > maxDialAddrs {
		return nil, fmt.Errorf("peer: open: %d addresses, at most %d", len(addrs), maxDialAddrs)
	}
	var dial []ma.Multiaddr
	for _, text := range addrs {
		a, err := parseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("peer: open: %w", err)
		}
		dial = append(dial, a)
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()

	s, err := h.open(ctx, id, dial, protocol.ID(proto))
	if h.ctx.Err() != nil {
		if s != nil {
			s.Reset()
		}
		return nil, ErrClosed
	}
	if err != nil {
		return nil, err
	}
	return &streamConn{s: s, host: h}, nil
}

// Drop closes the connections to a peer: their streams are reset here, also where the other side does not hear of it, and
// Open dials anew.
func (h *Host) Drop(peerID string) {
	id, err := parsePeer(peerID)
	if err != nil {
		return
	}
	if err := h.host.Network().ClosePeer(id); err != nil {
		h.log.Debug("closing a connection", "peer", short(id), "err", err)
	}
}

// Forget drops what is known of where a peer is that has gone. A record in the DHT would keep its addresses for half an hour.
func (h *Host) Forget(peerID string) {
	if id, err := parsePeer(peerID); err == nil {
		h.ends.forget(id)
		h.good.forget(h.host.Peerstore().Addrs(id))
		h.host.Peerstore().ClearAddrs(id)
	}
}

func (h *Host) open(ctx context.Context, id peer.ID, addrs []ma.Multiaddr, proto protocol.ID) (network.Stream, error) {
	if id == h.host.ID() {
		return nil, fmt.Errorf("dial peer %s: %w: that is this peer itself", id, ErrUnreachable)
	}
	h.host.Peerstore().AddAddrs(id, addrs, peerstore.TempAddrTTL) // who opens streams names them each time
	conn, err := h.dial(ctx, id)
	if errors.Is(err, ErrRefused) {
		return nil, err
	}
	if err != nil {
		return nil, dialError(ctx, id, h.host.Peerstore().Addrs(id), err)
	}
	h.reserve(ctx, conn)
	if ctx.Err() != nil { // yamux keeps a stream for ever that is opened with such a context
		return nil, fmt.Errorf("open stream to peer %s: %w", short(id), context.Cause(ctx))
	}
	s, err := conn.NewStream(ctx)
	if err != nil {
		return nil, fmt.Errorf("open stream to peer %s: %w", short(id), singleLine{err})
	}
	if err := negotiate(ctx, s, proto); err != nil {
		s.Reset()
		return nil, fmt.Errorf("open stream to peer %s: %w", short(id), err)
	}
	return s, nil
}

// negotiate waits for the other end's yes. (libp2p's own NewStream may put it off to the first Read, whose deadline then
// decides about the whole stream.)
func negotiate(ctx context.Context, s network.Stream, proto protocol.ID) error {
	stop := context.AfterFunc(ctx, func() { s.Reset() })
	err := msmux.SelectProtoOrFail(proto, s)
	if !stop() {
		return ctx.Err()
	}
	if errors.Is(err, msmux.ErrNotSupported[protocol.ID]{}) {
		return fmt.Errorf("%s: %w", proto, ErrProtocol)
	}
	if err != nil {
		return singleLine{err}
	}
	return s.SetProtocol(proto)
}

// Handle has f called for each incoming stream of protocol, in a goroutine of its own; f owns the stream. A nil f
// removes the handler. Close waits for f to return, so f must return when its streams fail.
func (h *Host) Handle(proto string, f func(peer string, stream net.Conn)) {
	if f == nil {
		h.host.RemoveStreamHandler(protocol.ID(proto))
		return
	}
	h.host.SetStreamHandler(protocol.ID(proto), func(s network.Stream) {
		if !h.begin(&h.handlers) {
			s.Reset()
			return
		}
		defer h.handlers.Done()
		f(s.Conn().RemotePeer().String(), &streamConn{s: s, host: h})
	})
}

// Counts are the streams and the connections that are open now, those of libp2p's own protocols included.
func (h *Host) Counts() (streams, conns int) {
	all := h.host.Network().Conns()
	for _, c := range all {
		streams += c.Stat().NumStreams
	}
	return streams, len(all)
}

// Connected says whether there is a connection to a peer, or was a moment ago.
func (h *Host) Connected(peerID string) bool {
	id, err := parsePeer(peerID)
	return err == nil && h.host.Network().Connectedness(id) == network.Connected
}

// Transports names how this peer is connected to others now, sorted: tcp, quic, ws, webtransport, and circuit for what goes
// through a third one.
func (h *Host) Transports() []string {
	used := map[string]bool{}
	for _, c := range h.host.Network().Conns() {
		if name := transportNames[kindOf(c.RemoteMultiaddr())]; name != "" {
			used[name] = true
		}
	}
	return slices.Sorted(maps.Keys(used))
}

var transportNames = map[kind]string{kindTCP: "tcp", kindQUIC: "quic", kindWS: "ws", kindWebTransport: "webtransport", kindCircuit: "circuit"}

// OnDisconnect has f called, in a goroutine of its own, when the last connection to a peer has gone: closed, reset, or
// given up by the transport. Close waits for f to return. The callback stays for the life of the Host.
func (h *Host) OnDisconnect(f func(peer string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.disconnect = append(h.disconnect, f)
}

func (h *Host) disconnected(n network.Network, c network.Conn) {
	id := c.RemotePeer()
	if n.Connectedness(id) == network.Connected {
		return // by another connection
	}
	h.mu.Lock()
	callbacks := h.disconnect
	h.mu.Unlock()
	for _, f := range callbacks {
		if !h.begin(&h.handlers) {
			return
		}
		go func() {
			defer h.handlers.Done()
			f(id.String())
		}()
	}
}

// Protect keeps the connection to a peer when there are more peers than Config.MaxPeers and connections are closed.
func (h *Host) Protect(peerID string) {
	if id, err := parsePeer(peerID); err == nil {
		h.host.ConnManager().Protect(id, memberTag)
	}
}

// Unprotect undoes Protect.
func (h *Host) Unprotect(peerID string) {
	if id, err := parsePeer(peerID); err == nil {
		h.host.ConnManager().Unprotect(id, memberTag)
	}
}

// beforeClose has Close call stop before it ends the libp2p host; false if Close has begun.
func (h *Host) beforeClose(stop func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.stops = append(h.stops, stop)
	}
	return !h.closed
}

// begin adds to a group that Close waits for, unless Close has begun.
func (h *Host) begin(g *sync.WaitGroup) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	g.Add(1)
	return true
}

// Close ends the Host: streams that were closed before may finish for up to 2 s, all others are reset, and handlers and
// callbacks are waited for. It may be called more than once.
func (h *Host) Close() error {
	h.close.Do(func() {
		h.mu.Lock()
		h.closed = true
		stops := h.stops
		h.mu.Unlock()
		h.cancel()
		for _, stop := range stops {
			stop()
		}
		waitAtMost(&h.lingering, closeLinger)
		h.closeErr = errors.Join(h.host.Close(), h.identity.release())
		h.lingering.Wait()
		h.handlers.Wait()
	})
	return h.closeErr
}

// waitAtMost waits for g, or for d. The caller must see to it that g gets done later.
func waitAtMost(g *sync.WaitGroup, d time.Duration) {
	done := make(chan struct{})
	go func() {
		g.Wait()
		close(done)
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
