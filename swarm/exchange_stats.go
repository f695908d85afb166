package swarm

import (
	"sync/atomic"

	"shoal/swarm/codec"
	"shoal/swarm/wire"
)

// linkStats counts bytes to and from other members, of all attempts and all tries.
type linkStats struct {
	RawSent, WireSent         uint64               // tensor bytes, and the payload bytes that carried them
	RawReceived, WireReceived uint64               // the same of what was not dropped
	BytesSent, BytesReceived  uint64               // everything, with headers, acknowledgements and dropped frames
	ClassSent                 [wire.Classes]uint64 // of BytesSent: frames by what their streams carry
}

// linkCounters are the live counters of one member's linkStats.
type linkCounters struct {
	payloadSent, payloadReceived codec.Counter
	sent, received               atomic.Uint64
	class                        [wire.Classes]atomic.Uint64
}

func (c *linkCounters) read() linkStats {
	s := linkStats{
		RawSent: c.payloadSent.Raw(), WireSent: c.payloadSent.Wire(),
		RawReceived: c.payloadReceived.Raw(), WireReceived: c.payloadReceived.Wire(),
		BytesSent: c.sent.Load(), BytesReceived: c.received.Load(),
	}
	for i := range c.class {
		s.ClassSent[i] = c.class[i].Load()
	}
	return s
}

func (s *linkStats) add(t linkStats) {
	s.RawSent += t.RawSent
	s.WireSent += t.WireSent
	s.RawReceived += t.RawReceived
	s.WireReceived += t.WireReceived
	s.BytesSent += t.BytesSent
	s.BytesReceived += t.BytesReceived
	for i, n := range t.ClassSent {
		s.ClassSent[i] += n
	}
}

// stats reads the counters of all members together, also those that are gone; it may be called at any time.
func (x *exchange) stats() linkStats {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.past
	for _, l := range x.links {
		s.add(l.count.read())
	}
	return s
}
