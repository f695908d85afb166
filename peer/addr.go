package peer

import (
	"fmt"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// kind is the transport that an address is for, in the order in which it is dialled.
type kind int

const (
	kindTCP kind = iota
	kindQUIC
	kindWebTransport
	kindWS
	kindCircuit
	kindOther
)

func (k kind) String() string {
	return [...]string{"tcp", "quic", "webtransport", "ws", "circuit", "other"}[k]
}

// kindOf looks at the protocols after the host part: tcp, udp/quic-v1, udp/quic-v1/webtransport, tcp/ws, tcp/wss or
// tcp/tls/ws. What ends in p2p-circuit is a way through the peer before it.
func kindOf(a ma.Multiaddr) kind {
	var codes []int
	for _, c := range a {
		if code := c.Protocol().Code; code != ma.P_SNI && code != ma.P_CERTHASH {
			codes = append(codes, code)
		}
	}
	if len(codes) == 0 {
		return kindOther
	}
	switch rest := codes[1:]; {
	case slices.Equal(rest, []int{ma.P_TCP}):
		return kindTCP
	case slices.Equal(rest, []int{ma.P_UDP, ma.P_QUIC_V1}):
		return kindQUIC
	case slices.Equal(rest, []int{ma.P_UDP, ma.P_QUIC_V1, ma.P_WEBTRANSPORT}):
		return kindWebTransport
	case slices.Equal(rest, []int{ma.P_TCP, ma.P_WS}), slices.Equal(rest, []int{ma.P_TCP, ma.P_WSS}),
		slices.Equal(rest, []int{ma.P_TCP, ma.P_TLS, ma.P_WS}):
		return kindWS
	}
	if codes[len(codes)-1] == ma.P_CIRCUIT {
		return kindCircuit
	}
	return kindOther
}

func startsWithIP(a ma.Multiaddr) bool {
	return len(a) > 0 && (a[0].Protocol().Code == ma.P_IP4 || a[0].Protocol().Code == ma.P_IP6)
}

// parseAddr parses a multiaddr without a peer id in it, except that of a relay.
func parseAddr(text string) (ma.Multiaddr, error) {
	if len(text) > maxAddrText {
		return nil, fmt.Errorf("address of %d bytes, at most %d", len(text), maxAddrText)
	}
	a, err := ma.NewMultiaddr(text)
	if err != nil {
		return nil, fmt.Errorf("address %q is not a multiaddr: %s", text, oneLine(err.Error()))
	}
	before := a
	if _, ok := relayOf(a); ok {
		before = a[:len(a)-2]
	}
	if slices.ContainsFunc(before, func(c ma.Component) bool { return c.Protocol().Code == ma.P_P2P }) {
		return nil, fmt.Errorf("address %q has a peer id in it", text)
	}
	return a, nil
}

// withoutCertHashes is a without the hashes of certificates, which change every few days.
func withoutCertHashes(a ma.Multiaddr) ma.Multiaddr {
	return slices.DeleteFunc(slices.Clone(a), func(c ma.Component) bool { return c.Protocol().Code == ma.P_CERTHASH })
}

// certHashes are the multihashes of certificates in an address.
func certHashes(a ma.Multiaddr) (hashes [][]byte) {
	for _, c := range a {
		if c.Protocol().Code == ma.P_CERTHASH {
			hashes = append(hashes, c.RawValue())
		}
	}
	return hashes
}

// parsePeer parses a peer id in text form.
func parsePeer(text string) (peer.ID, error) {
	if len(text) > 128 {
		return "", fmt.Errorf("peer id of %d bytes", len(text))
	}
	id, err := peer.Decode(text)
	if err != nil {
		return "", fmt.Errorf("%q is not a peer id", text)
	}
	return id, nil
}

// dialable keeps what another machine can try: no unspecified and no link-local address. Loopback goes last, and within
// that the transports keep the order in which they are dialled. Duplicates go.
func dialable(addrs []ma.Multiaddr) []ma.Multiaddr {
	addrs = slices.DeleteFunc(ma.Unique(slices.Clone(addrs)), func(a ma.Multiaddr) bool {
		return manet.IsIPUnspecified(a) || manet.IsIP6LinkLocal(a)
	})
	rank := func(a ma.Multiaddr) int {
		r := int(kindOf(a))
		if manet.IsIPLoopback(a) {
			r += 100
		}
		return r
	}
	slices.SortStableFunc(addrs, func(a, b ma.Multiaddr) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return a.Compare(b)
	})
	return addrs
}
