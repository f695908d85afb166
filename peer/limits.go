package peer

import (
	"github.com/libp2p/go-libp2p/core/protocol"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
)

// Caps on what other peers can make this one hold. A stream is refused, and a window doesn't grow, when a cap is
// reached; memory here is what streams may buffer, so it is promised and seldom used. Windows that are made for a long path
// (see [Note: windows]) count as small ones, or ten streams would not fit.
const (
	connsPerPeer   = 8         // both sides may dial at once, over several addresses, and only one is kept in use
	streamsPerPeer = 64        // in each direction; a member needs about ten
	memoryPerPeer  = 128 << 20 // bytes; windows that grow take up to half of it (yamux asks with low priority)
	memoryTotal    = 1 << 30   // bytes, all peers together
	spareConns     = 16        // for those who are refused after the handshake

	dials = 512 // in flight, all peers together: all addresses of a peer are dialled at once, and each one counts

	dhtStreamsPerPeer = 8 // in each direction; a node asks another one over one stream
)

// resourceLimits are libp2p's limits for a host made for that many peers.
func resourceLimits(maxPeers int) rcmgr.ConcreteLimitConfig {
	conns := rcmgr.LimitVal(connLimit(maxPeers))
	streams := rcmgr.LimitVal(maxPeers * streamsPerPeer)
	all := rcmgr.ResourceLimits{
		Streams: 2 * streams, StreamsInbound: streams, StreamsOutbound: streams,
		Conns: 2*conns + dials, ConnsInbound: conns, ConnsOutbound: conns + dials,
		FD:     2*conns + dials,
		Memory: memoryTotal,
	}
	onePeer := rcmgr.ResourceLimits{
		Streams: 2 * streamsPerPeer, StreamsInbound: streamsPerPeer, StreamsOutbound: streamsPerPeer,
		Conns: 2*connsPerPeer + maxDialAddrs, ConnsInbound: connsPerPeer, ConnsOutbound: connsPerPeer + maxDialAddrs,
		FD:     2*connsPerPeer + maxDialAddrs,
		Memory: memoryPerPeer,
	}
	dht := onePeer
	dht.Streams, dht.StreamsInbound, dht.StreamsOutbound = 2*dhtStreamsPerPeer, dhtStreamsPerPeer, dhtStreamsPerPeer
	return rcmgr.PartialLimitConfig{
		System:              all,
		Transient:           all, // connections whose peer isn't known yet: a run's start brings all of them at once
		ProtocolDefault:     all,
		ProtocolPeerDefault: onePeer,
		ProtocolPeer:        map[protocol.ID]rcmgr.ResourceLimits{dhtProtocol: dht},
		ServiceDefault:      all,
		ServicePeerDefault:  onePeer,
		PeerDefault:         onePeer,
	}.Build(rcmgr.DefaultLimits.AutoScale())
}

// connLimit is the cap on connections in one direction.
func connLimit(maxPeers int) int { return 2*maxPeers + spareConns }

// perSubnet lets all peers sit behind one address, as they do on one machine or behind one router.
func perSubnet(maxPeers int) (v4, v6 []rcmgr.ConnLimitPerSubnet) {
	n := connLimit(maxPeers)
	return []rcmgr.ConnLimitPerSubnet{{PrefixLength: 32, ConnCount: n}},
		[]rcmgr.ConnLimitPerSubnet{{PrefixLength: 56, ConnCount: n}}
}
