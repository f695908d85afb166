//go:build !js

package peer

import (
	"errors"
	"fmt"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	quic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/libp2p/go-libp2p/p2p/transport/tcpreuse"
	"github.com/libp2p/go-libp2p/p2p/transport/websocket"
	webtransport "github.com/libp2p/go-libp2p/p2p/transport/webtransport"
	ma "github.com/multiformats/go-multiaddr"
	"go.uber.org/fx"
)

// newLibp2p assembles the libp2p host, which doesn't listen yet.
func newLibp2p(id *identity, s settings) (host.Host, error) {
	tuneLibp2p()
	resources, conns, err := managers(s)
	if err != nil {
		return nil, err
	}
	h, err := libp2p.New(
		libp2p.Identity(id.key),
		libp2p.UserAgent("shoal/"+s.Version),
		libp2p.NoListenAddrs, // listen does, address by address: libp2p is content when one works
		libp2p.AddrsFactory(func(own []ma.Multiaddr) []ma.Multiaddr { return advertised(own, s.announce) }),
		libp2p.Transport(tcp.NewTCPTransport, tcp.DisableReuseport(), tcp.WithConnectionTimeout(addrTimeout)),
		libp2p.Transport(quic.NewTransport),
		libp2p.Transport(websocket.New, websocket.WithHandshakeTimeout(addrTimeout)),
		libp2p.Transport(webtransport.New, webtransport.WithHandshakeTimeout(addrTimeout)),
		libp2p.WithFxOption(fx.Decorate(sharedPorts)),
		libp2p.Security(libp2ptls.ID, newCoalescingTLS),
		libp2p.Security(noise.ID, noise.New),
		libp2p.Muxer(yamux.ID, pathMuxer{}),
		libp2p.SwarmOpts(swarm.WithDialRanker(s.good.rankDials)),
		libp2p.WithDialTimeout(addrTimeout),
		libp2p.ResourceManager(resources),
		libp2p.ConnectionManager(conns),
		// Addresses that fail are the caller's affair; the guess that "UDP never works here" isn't wanted.
		libp2p.UDPBlackHoleSuccessCounter(nil),
		libp2p.IPv6BlackHoleSuccessCounter(nil),
		libp2p.DisableIdentifyAddressDiscovery(),
		libp2p.EnableRelay(), // browsers are reached through relays; startRelaying makes it one
		libp2p.DisableMetrics(),
	)
	if err != nil {
		conns.Close()
		resources.Close()
		return nil, fmt.Errorf("peer: %w", singleLine{err})
	}
	return h, nil
}

// sharedPorts lets TCP and WebSocket listen on one port. Without SO_REUSEPORT, with which a second program could listen
// there too and nobody would notice.
func sharedPorts(_ *tcpreuse.ConnMgr, u transport.Upgrader) *tcpreuse.ConnMgr {
	return tcpreuse.NewConnMgr(false, u)
}

// listen listens on all addresses or fails.
func listen(h host.Host, s settings) error {
	adder, ok := h.Network().(interface{ AddListenAddr(ma.Multiaddr) error })
	if !ok {
		return fmt.Errorf("peer: %T can't listen", h.Network())
	}
	for _, l := range s.listen {
		if kindOf(l.addr) == kindWebTransport {
			l.addr = besideQUIC(l.addr, h.Network().ListenAddresses())
		}
		err := adder.AddListenAddr(l.addr)
		if err == nil {
			continue
		}
		err = listenError(l.addr, err)
		if !l.optional || errors.Is(err, ErrPortInUse) {
			return err
		}
		s.Log.Debug("not listening", "addr", l.addr.String(), "err", err)
	}
	return nil
}

// besideQUIC is an address of WebTransport that may have any port, port 0, with that of QUIC on the same host, if that is
// listened on: they can share it.
func besideQUIC(a ma.Multiaddr, listening []ma.Multiaddr) ma.Multiaddr {
	if a[1].Value() != "0" {
		return a
	}
	for _, l := range listening {
		if kindOf(l) == kindQUIC && l[0].Equal(&a[0]) {
			return ma.Join(ma.Multiaddr{a[0], l[1]}, a[2:])
		}
	}
	return a
}
