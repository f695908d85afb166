package swarm

import (
	"sync/atomic"

	"shoal/swarm/codec"
)

// exchangeStats counts bytes on data streams since newExchange, of all attempts and all tries.
type exchangeStats struct {
	Total linkStats
	Peers []linkStats // by rank; zero for the own
}

// linkStats counts bytes to and from other members.
type linkStats struct {
	RawSent, WireSent         uint64 // tensor bytes, and the payload bytes that carried them
	RawReceived, WireReceived uint64 // the same of what was not dropped
	BytesSent, BytesReceived  uint64 // everything, with headers, acknowledgements and dropped frames
}

// linkCounters are the live counters of one member's linkStats.
type linkCounters struct {
	payloadSent, payloadReceived codec.Counter
	sent, received               atomic.Uint64
}

func (c *linkCounters) read() linkStats {
	return linkStats{
		RawSent: c.payloadSent.Raw(), WireSent: c.payloadSent.Wire(),
		RawReceived: c.payloadReceived.Raw(), WireReceived: c.payloadReceived.Wire(),
		BytesSent: c.sent.Load(), BytesReceived: c.received.Load(),
	}
}

func (s *linkStats) add(t linkStats) {
	s.RawSent += t.RawSent
	s.WireSent += t.WireSent
	s.RawReceived += t.RawReceived
	s.WireReceived += t.WireReceived
	s.BytesSent += t.BytesSent
	s.BytesReceived += t.BytesReceived
}

// stats reads the counters; it may be called at any time, also after close.
func (x *exchange) stats() exchangeStats {
	s := exchangeStats{Peers: make([]linkStats, len(x.links))}
	for r, l := range x.links {
		if l != nil {
			s.Peers[r] = l.count.read()
			s.Total.add(s.Peers[r])
		}
	}
	return s
}
