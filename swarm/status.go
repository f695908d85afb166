package swarm

import (
	"shoal/swarm/member"
	"slices"

	"shoal/internal/place"
)

// Status is the run at one moment, as this member sees it.
type Status struct {
	Generation uint64 // how often the log was begun anew from survivors
	View       uint64 // number of the current view, 0 before the first
	Fence      uint64 // of the current attempt
	Applied    uint64 // log index
	Leader     string // peer id, or ""
	Promise    int    // simultaneous deaths, whoever dies, after which the run goes on
	Redundancy int    // deaths that every range survives
	Wanted     int    // further holders that every range is to have
	Members    []MemberStatus
	Stuck      string   // why the run can't go on for now, or ""
	Waiting    []string // peer ids of those for whom this member waits
	Phase      string   // what this member is doing
	Unit       int      // and with which unit; -1: none
	Faults     []Fault  // the last members that were lost or late, the newest last
}

// MemberStatus is one member of the run.
type MemberStatus struct {
	ID        uint64
	Peer      string
	Kind      string // "daemon", ...
	Rank      int    // -1: not in the view
	Voter     bool
	Data      bool  // has all of the run's data files
	Owns      int64 // elements of the parameters
	Holds     int64 // elements, as a backup
	FillsLeft int   // ranges that are still to be sent to it
	Work      int64 // microseconds of a microbatch; 0 unknown, -1 none in this attempt
}

// Fault is a member's removal.
type Fault struct {
	Peer   string
	Reason string
	Fence  uint64 // log index of the entry that removed it
	Ago    int    // ticks
}

// Status tells how the run is doing. Once the node is closed, only what this member was doing is left of it.
func (n *Node) Status() Status {
	doing := n.doing.Load()
	s := Status{Phase: doing.name, Unit: doing.unit}
	n.call(func() { n.readLog(&s) })
	return s
}

// readLog runs in the loop.
func (n *Node) readLog(s *Status) {
	c, v := n.core, n.core.View()
	s.Generation, s.View, s.Fence, s.Applied, s.Stuck = member.Recoveries(c.Generation()), v.Number, c.Fence(), c.Applied(), n.stuck
	s.Promise, s.Redundancy, s.Wanted = c.Promise(), c.Redundancy(), c.Backups()
	if s.Wanted == place.All {
		s.Wanted = max(0, len(v.Members)-1)
	}
	_, waiting := n.exchange.waiting(n.doing.Load().reducing())
	fills := place.Missing(v.Place, c.Wanted())
	for _, m := range c.Members() {
		rank := slices.IndexFunc(v.Members, func(o Member) bool { return o.ID == m.ID })
		ms := MemberStatus{ID: m.ID, Peer: m.Peer, Kind: m.Offer.Kind, Rank: rank, Data: m.Offer.Data, Voter: slices.Contains(c.Voters(), m.ID)}
		if rank >= 0 {
			ms.load(rank, v.Place, c.Ranges(), fills)
			if work := c.Work(); rank < len(work) {
				ms.Work = work[rank]
			}
		}
		s.Members = append(s.Members, ms)
		if m.ID == c.Leader() {
			s.Leader = m.Peer
		}
		if slices.Contains(waiting, m.ID) {
			s.Waiting = append(s.Waiting, m.Peer)
		}
	}
	for _, f := range c.Faults() {
		s.Faults = append(s.Faults, Fault{Peer: f.Peer, Reason: f.Reason, Fence: f.Index, Ago: int(f.Ago)})
	}
}

// load adds what a rank has of the parameters.
func (m *MemberStatus) load(rank int, have place.Map, ranges []place.Range, fills []place.Fill) {
	for i, r := range ranges {
		switch {
		case i >= len(have.Owner):
		case have.Owner[i] == rank:
			m.Owns += r.Size
		case have.Holds(i, rank):
			m.Holds += r.Size
		}
	}
	for _, f := range fills {
		if f.To == rank {
			m.FillsLeft++
		}
	}
}
