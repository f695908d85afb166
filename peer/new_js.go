package peer

import (
	"errors"
	"fmt"
	"syscall/js"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/core/transport"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
)

// newLibp2p assembles the libp2p host from its parts: libp2p.New doesn't build for a browser. It works in a dedicated
// Worker and in Node.
func newLibp2p(id *identity, s settings) (_ host.Host, err error) {
	tuneLibp2p()
	self, err := peer.IDFromPrivateKey(id.key)
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	resources, conns, err := managers(s)
	if err != nil {
		return nil, err
	}
	store, err := pstoremem.NewPeerstore()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("peer: %w", err), conns.Close(), resources.Close())
	}
	bus := eventbus.NewBus()
	h, err := func() (*basichost.BasicHost, error) {
		if err := errors.Join(store.AddPrivKey(self, id.key), store.AddPubKey(self, id.key.GetPublic())); err != nil {
			return nil, err
		}
		net, err := swarm.NewSwarm(self, store, bus, swarm.WithResourceManager(resources), swarm.WithDialRanker(s.good.rankDials),
			swarm.WithDialTimeout(addrTimeout), swarm.WithUDPBlackHoleSuccessCounter(nil), swarm.WithIPv6BlackHoleSuccessCounter(nil))
		if err != nil {
			return nil, err
		}
		h, err := basichost.NewHost(net, &basichost.HostOpts{EventBus: bus, ConnManager: conns, EnablePing: true, UserAgent: "shoal/" + s.Version})
		if err != nil {
			net.Close()
		}
		return h, err
	}()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("peer: %w", err), store.Close(), conns.Close(), resources.Close())
	}
	// From here on the host closes all of them.
	if err := addTransports(h, id, self); err != nil {
		h.Close()
		return nil, fmt.Errorf("peer: %w", err)
	}
	h.Start()
	return h, nil
}

// addTransports adds those that a browser has, and circuits through daemons.
func addTransports(h *basichost.BasicHost, id *identity, self peer.ID) error {
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: newMuxer()}}
	resources := h.Network().ResourceManager()
	security, err := noise.New(noise.ID, id.key, muxers)
	if err != nil {
		return err
	}
	up, err := upgrader.New([]sec.SecureTransport{security}, muxers, nil, resources, nil)
	if err != nil {
		return err
	}
	if js.Global().Get("WebSocket").IsUndefined() {
		return errors.New("there is no WebSocket here: run it in a browser, or in Node 22 or later (Node 20: node --experimental-websocket)")
	}
	net := h.Network().(transport.TransportNetwork)
	if err := net.AddTransport(&webSocket{up, resources}); err != nil {
		return err
	}
	if hasWebTransport() {
		if err := net.AddTransport(&webTransport{self, security, resources}); err != nil {
			return err
		}
	}
	return client.AddTransport(h, up)
}

// listen has nothing to do: a browser can't.
func listen(host.Host, settings) error { return nil }
