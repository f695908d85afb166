package peer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peerstore"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	p2pconnmgr "github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
)

// New makes a Host that listens. A browser can't listen: there Config.Listen is ignored, and others reach the Host through
// the daemons that it is connected to. ctx is for the making only; Close ends the Host.
func New(ctx context.Context, c Config) (*Host, error) {
	s, err := c.validate()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	id, err := openIdentity(s.Identity)
	if err != nil {
		return nil, err
	}
	h, err := newLibp2p(id, s)
	if err != nil {
		id.release()
		return nil, err
	}
	if err := listen(h, s); err != nil {
		h.Close()
		id.release()
		return nil, err
	}
	out := newHost(h, id, s)
	if err := out.startRelaying(); err != nil {
		out.Close()
		return nil, err
	}
	s.Log.Debug("peer is listening", "peer", out.Self(), "addrs", out.Addrs())
	return out, nil
}

// tuneLibp2p sets what libp2p has no other switch for than its variables, before the first host is made.
//
// It dials all addresses of a peer at once: libp2p would dial 8, so that 8 that don't answer hold up the others until they
// time out. And it forgets the addresses of a peer that is gone after three minutes, not a quarter of an hour: in a run where
// many come and go they are most of what is kept of those, and whoever dials a peer names its addresses again. (With
// TempAddrTTL, two minutes, they would be gone with the last connection.)
var tuneLibp2p = sync.OnceFunc(func() {
	swarm.DefaultPerPeerRateLimit = maxDialAddrs
	peerstore.RecentlyConnectedAddrTTL = peerstore.TempAddrTTL + time.Minute
})

// managers bound what other peers can make this one hold, see limits.go. The libp2p host closes them.
func managers(s settings) (network.ResourceManager, connmgr.ConnManager, error) {
	v4, v6 := perSubnet(s.MaxPeers)
	resources, err := rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(resourceLimits(s.MaxPeers)),
		rcmgr.WithLimitPerSubnet(v4, v6))
	if err != nil {
		return nil, nil, fmt.Errorf("peer: resource manager: %w", err)
	}
	conns, err := p2pconnmgr.NewConnManager(s.MaxPeers, s.MaxPeers+spareConns, p2pconnmgr.WithGracePeriod(30*time.Second))
	if err != nil {
		resources.Close()
		return nil, nil, fmt.Errorf("peer: connection manager: %w", err)
	}
	return resources, conns, nil
}
