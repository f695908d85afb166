package peer

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
)

var layerNames = map[string]string{libp2ptls.ID: "TLS", noise.ID: "Noise", yamux.ID: "yamux"}

// Connection says what the connection to a peer is made of, as in "tcp, TLS, yamux"; "" if there is none. Of several it is
// the one on which Open opens a stream.
func (h *Host) Connection(peerID string) string {
	id, err := parsePeer(peerID)
	if err != nil {
		return ""
	}
	c, err := h.host.Network().DialPeer(network.WithNoDial(context.Background(), "describing it"), id)
	if err != nil {
		return ""
	}
	parts := []string{transportNames[kindOf(c.RemoteMultiaddr())]}
	for _, layer := range []string{string(c.ConnState().Security), string(c.ConnState().StreamMultiplexer)} {
		if layer != "" { // QUIC has both in it
			parts = append(parts, cmp.Or(layerNames[layer], layer))
		}
	}
	return strings.Join(parts, ", ")
}

// JoinAddr is an address of Addrs with the peer that listens there, as one multiaddr.
func JoinAddr(addr, peerID string) string { return addr + "/p2p/" + peerID }

// SplitAddr is the reverse of JoinAddr. An error says what is wrong with text.
func SplitAddr(text string) (addr, peerID string, err error) {
	i := strings.LastIndex(text, "/p2p/")
	if i < 0 {
		return "", "", fmt.Errorf("address %.100q: want a multiaddr that ends with /p2p/ and a peer id", text)
	}
	addr, peerID = text[:i], text[i+len("/p2p/"):]
	if _, err := parsePeer(peerID); err != nil {
		return "", "", fmt.Errorf("address %.100q: %w", text, err)
	}
	a, err := parseAddr(addr)
	if err != nil {
		return "", "", err
	}
	if kindOf(a) == kindOther {
		return "", "", fmt.Errorf("address %.100q: nothing that this program speaks listens at %q", text, addr)
	}
	return addr, peerID, nil
}
