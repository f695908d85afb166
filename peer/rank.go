package peer

import (
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"
)

const (
	dialStep      = 100 * time.Millisecond // between two addresses of one transport
	transportStep = 250 * time.Millisecond // before the next transport is tried
)

// rankDials says when each address is dialled: TCP first (it is faster here, and a killed peer's connection resets at
// once), then QUIC, which is there for networks that block TCP, then WebSocket; loopback last of each. The dialler
// skips the waiting when nothing is in flight any more, so a refused address costs no time.
func rankDials(addrs []ma.Multiaddr) []network.AddrDelay {
	out := make([]network.AddrDelay, 0, len(addrs))
	var next time.Duration
	for k := kindTCP; k <= kindOther; k++ {
		var any bool
		for _, a := range dialable(addrs) {
			if kindOf(a) != k {
				continue
			}
			out = append(out, network.AddrDelay{Addr: a, Delay: next})
			next, any = next+dialStep, true
		}
		if any {
			next += transportStep
		}
	}
	return out
}
