package peer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	ma "github.com/multiformats/go-multiaddr"
)

// [Note: circuits]
//
// Nobody can dial a browser. So each daemon is also a relay (libp2p's circuit relay, version 2): it carries connections
// between peers that are connected to it, and can't read them, since they are encrypted from end to end. A browser asks each
// daemon that it dials for such a place, and its addresses are "daemon's address/p2p/daemon/p2p-circuit". Whoever wants to
// reach it takes one of these, or tries the daemons that it is connected to itself, the ones that are there now.
//
// A daemon that reaches a browser like this asks it, over the circuit, to be dialled: a direct connection is twice as fast
// and costs no third peer anything. So circuits are what browsers use among themselves.

const (
	// dialMeProtocol asks a peer, which can't be dialled, to dial the asker at the addresses that it is sent, one a line. The
	// answer is dialledYou, or why it can't.
	dialMeProtocol = "/shoal/dial-me/1"
	dialledYou     = "ok"
	maxDialMe      = maxLinkAddrs * (maxAddrText + 1) // bytes of the addresses or of the answer
)

// Relaying is what a daemon carries for peers that can't reach one another, which are browsers.
type Relaying struct {
	Circuits int   `json:"circuits"` // connections between two others that are open now
	Peers    int   `json:"peers"`    // that others may reach through this one
	Bytes    int64 `json:"bytes"`    // carried since the start, both directions together

	MostPeers    int `json:"most_peers"`    // the limit of Peers
	MostCircuits int `json:"most_circuits"` // the limit of Circuits to and from one peer
}

func isCircuit(a ma.Multiaddr) bool { return kindOf(a) == kindCircuit }

// throughCircuit says whether a connection is carried by a relay.
func throughCircuit(c network.Conn) bool { return isCircuit(c.RemoteMultiaddr()) }

// relayOf is the relay of an address of kindCircuit.
func relayOf(a ma.Multiaddr) (peer.ID, bool) {
	if !isCircuit(a) || len(a) < 2 {
		return "", false
	}
	id, err := peer.IDFromBytes(a[len(a)-2].RawValue())
	return id, err == nil && a[len(a)-2].Protocol().Code == ma.P_P2P
}

// circuitVia is the address of whoever is connected to a relay, which is known already or dialled at addr.
func circuitVia(addr ma.Multiaddr, relay peer.ID) ma.Multiaddr {
	return ma.Join(addr, ma.StringCast(fmt.Sprintf("/p2p/%s/p2p-circuit", relay)))
}

// dialCircuit is a connection to a peer through a relay, a new one if there is none.
func (h *Host) dialCircuit(ctx context.Context, id peer.ID) (network.Conn, error) {
	store := h.host.Peerstore()
	for _, relay := range h.host.Network().Peers() {
		if spoken, err := store.SupportsProtocols(relay, proto.ProtoIDv2Hop); err == nil && len(spoken) > 0 {
			store.AddAddrs(id, []ma.Multiaddr{circuitVia(nil, relay)}, peerstore.TempAddrTTL)
		}
	}
	if s, ok := h.host.Network().(*swarm.Swarm); ok {
		s.Backoff().Clear(id) // how often to try is the caller's affair
	}
	return h.host.Network().DialPeer(ctx, id)
}

// rankCircuits puts those first whose relay is connected: they need no other dial. Among these each pair of peers has an
// order of its own, so that not all pairs choose the same relay.
func (h *Host) rankCircuits(circuits []ma.Multiaddr) {
	marks := map[string][]byte{}
	for _, a := range circuits {
		relay, _ := relayOf(a)
		far := byte(1)
		if h.host.Network().Connectedness(relay) == network.Connected {
			far = 0
		}
		sum := sha256.Sum256([]byte(h.host.ID() + relay))
		marks[string(a.Bytes())] = append([]byte{far}, sum[:]...)
	}
	slices.SortStableFunc(circuits, func(a, b ma.Multiaddr) int {
		return bytes.Compare(marks[string(a.Bytes())], marks[string(b.Bytes())])
	})
}
