package peer

import (
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"
)

const (
	dialStep      = 100 * time.Millisecond // between two addresses of one transport, at most
	dialSpread    = time.Second            // all steps together, at most
	transportStep = 250 * time.Millisecond // before the next transport is tried, and before all that never answered
)

// rankDials says when each address is dialled: first those that answered before, then TCP (it is faster here, and a killed
// peer's connection resets at once), QUIC, which is there for networks that block TCP, WebTransport and WebSocket, the ones
// that a browser has, and circuits; loopback last of each. An address that doesn't answer stays in flight while the next ones are tried, so all of them are within about 2 s.
// The dialler skips the waiting when nothing is in flight any more, so a refused address costs no time.
func (g *goodAddrs) rankDials(addrs []ma.Multiaddr) []network.AddrDelay {
	good, others := g.split(dialable(addrs))
	out := make([]network.AddrDelay, 0, len(good)+len(others))
	step := min(dialStep, dialSpread/time.Duration(len(addrs)+1))
	var next time.Duration
	put := func(group []ma.Multiaddr) {
		for _, a := range group {
			out = append(out, network.AddrDelay{Addr: a, Delay: next})
			next += step
		}
		if len(group) > 0 {
			next += transportStep
		}
	}
	put(good)
	for k := kindTCP; k <= kindOther; k++ {
		var group []ma.Multiaddr
		for _, a := range others {
			if kindOf(a) == k {
				group = append(group, a)
			}
		}
		if k == kindCircuit && g.rankCircuits != nil {
			g.rankCircuits(group)
		}
		put(group)
	}
	return out
}
