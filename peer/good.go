package peer

import (
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"
)

const maxGood = 1024 // addresses that are remembered

// goodAddrs remembers the addresses at which a peer has answered, so that they are the first ones dialled the next time:
// a peer tells all its addresses, and of most machines only some can be reached from here.
type goodAddrs struct {
	mu    sync.Mutex
	order []string // oldest first, as addrKey
	known map[string]bool

	rankCircuits func([]ma.Multiaddr) // sorts them; nil: as they are
}

func newGoodAddrs() *goodAddrs { return &goodAddrs{known: map[string]bool{}} }

// connected is for a network's notifications.
func (g *goodAddrs) connected(_ network.Network, c network.Conn) {
	if c.Stat().Direction == network.DirOutbound && !throughCircuit(c) {
		g.add(c.RemoteMultiaddr())
	}
}

func (g *goodAddrs) add(a ma.Multiaddr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := addrKey(a)
	if g.known[key] {
		return
	}
	if len(g.order) == maxGood {
		delete(g.known, g.order[0])
		g.order = g.order[1:]
	}
	g.known[key] = true
	g.order = append(g.order, key)
}

func (g *goodAddrs) forget(addrs []ma.Multiaddr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range addrs {
		delete(g.known, addrKey(a))
	}
	g.order = slices.DeleteFunc(g.order, func(key string) bool { return !g.known[key] })
}

// split divides addrs into those that are remembered and the others, in their order.
func (g *goodAddrs) split(addrs []ma.Multiaddr) (good, others []ma.Multiaddr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	others = slices.Clone(addrs)
	others = slices.DeleteFunc(others, func(a ma.Multiaddr) bool {
		if !g.known[addrKey(a)] {
			return false
		}
		good = append(good, a)
		return true
	})
	return good, others
}

func addrKey(a ma.Multiaddr) string { return string(withoutCertHashes(a).Bytes()) }
