package member

import (
	"fmt"
	"slices"

	"shoal/swarm/wire"
)

// MaxPeers is the most members a run may have.
const MaxPeers = 256

// state is the state machine. apply is its only change, and depends on nothing but the log; a snapshot is its encoding.
type state struct {
	Run     []byte   `cbor:"1,keyasint,omitempty"` // the run's description
	Peers   int      `cbor:"2,keyasint"`           // members that the first view waits for
	Exact   bool     `cbor:"3,keyasint,omitempty"` // members need the creator's kernel fingerprint
	Members []Member `cbor:"4,keyasint"`           // creator first, then by admission

	Number    uint64   `cbor:"5,keyasint,omitempty"` // of the current view; 0 before the first
	ViewFence uint64   `cbor:"6,keyasint,omitempty"`
	ViewIDs   []uint64 `cbor:"7,keyasint,omitempty"` // in rank order
	Reason    string   `cbor:"8,keyasint,omitempty"` // of the view

	Fence   uint64     `cbor:"9,keyasint,omitempty"`  // current; 0 before the first view
	Before  uint64     `cbor:"10,keyasint,omitempty"` // the fence before it
	Last    recordKind `cbor:"11,keyasint,omitempty"` // what began the current fence
	Payload []byte     `cbor:"12,keyasint,omitempty"` // of the last Commit, Retry or Done
	Stop    *stop      `cbor:"13,keyasint,omitempty"` // the run has ended with an error
	Joined  uint64     `cbor:"14,keyasint,omitempty"` // log index of the last admission
}

// stop is why a run has ended early.
type stop struct {
	ID     uint64 `cbor:"1,keyasint,omitempty"` // the member that it is about, or 0
	Reason string `cbor:"2,keyasint"`
}

func (s *state) started() bool { return s.Number > 0 }
func (s *state) ended() bool   { return s.Stop != nil || s.Last == recordDone }

func (s *state) find(id uint64) (Member, bool) {
	i := slices.IndexFunc(s.Members, func(m Member) bool { return m.ID == id })
	if i < 0 {
		return Member{}, false
	}
	return s.Members[i], true
}

// rank is the place of id in the current view, or -1.
func (s *state) rank(id uint64) int { return slices.Index(s.ViewIDs, id) }

// name is how messages for a person call a member.
func (s *state) name(id uint64) string {
	m, ok := s.find(id)
	switch rank := s.rank(id); {
	case !ok:
		return fmt.Sprintf("peer with member id %x", id)
	case rank < 0:
		return "peer " + m.Short()
	default:
		return fmt.Sprintf("peer %s (rank %d)", m.Short(), rank)
	}
}

// place is name, with the address where a member was that doesn't answer any more.
func (s *state) place(id uint64) string {
	m, _ := s.find(id)
	if at := m.host(); at != "" {
		return s.name(id) + " at " + at
	}
	return s.name(id)
}

// refuse says in one line why m can't become a member, or "".
func (s *state) refuse(m Member) string {
	if err := m.check(); err != nil {
		return "not admitted: " + err.Error()
	}
	creator := s.Members[0]
	same := slices.IndexFunc(s.Members, func(o Member) bool { return o.Peer == m.Peer || o.ID == m.ID })
	switch {
	case s.ended():
		return "the run is over"
	case same >= 0:
		return fmt.Sprintf("peer %s is in the run already: a second process needs an identity of its own", m.Short())
	case s.started():
		return "the run has started: this release can't take in a peer after the start"
	case len(s.Members) >= s.Peers:
		return fmt.Sprintf("the run has its %d peers and is about to start", s.Peers)
	case m.Offer.ModelHash != creator.Offer.ModelHash:
		return fmt.Sprintf("the model differs from the run's (hash %.12s, want %.12s): use the same program version and run file", m.Offer.ModelHash, creator.Offer.ModelHash)
	case s.Exact && m.Offer.Fingerprint != creator.Offer.Fingerprint:
		return fmt.Sprintf("the run is exact and this peer's kernels give other bits (fingerprint %.12s, want %.12s)", m.Offer.Fingerprint, creator.Offer.Fingerprint)
	}
	return ""
}

// apply changes the state by the entry at index, and says whether it did.
func (s *state) apply(index uint64, r *record) bool {
	if s.ended() {
		return false
	}
	switch r.Kind {
	case recordAdmit:
		if s.refuse(*r.Member) != "" {
			return false
		}
		s.Members = append(slices.Clip(s.Members), *r.Member)
		s.Joined = index
		return true
	case recordLeave:
		return s.leave(r.ID)
	case recordView:
		return s.view(index, r)
	case recordStop:
		if r.Follows != 0 && r.Follows != s.Fence {
			return false
		}
		s.Stop = &stop{ID: r.ID, Reason: r.Reason}
		return true
	default: // Commit, Retry, Done
		if !s.started() || r.Follows != s.Fence {
			return false
		}
		s.advance(index, r.Kind)
		s.Payload = r.Body
		return true
	}
}

// leave takes out a member before the first view; the creator never leaves without ending the run.
func (s *state) leave(id uint64) bool {
	if s.started() || id == s.Members[0].ID {
		return false
	}
	n := len(s.Members)
	s.Members = slices.DeleteFunc(slices.Clone(s.Members), func(m Member) bool { return m.ID == id })
	return len(s.Members) < n
}

func (s *state) view(index uint64, r *record) bool {
	if r.Follows != s.Fence || r.Number != s.Number+1 || len(r.IDs) == 0 {
		return false
	}
	for i, id := range r.IDs {
		if _, ok := s.find(id); !ok || slices.Contains(r.IDs[:i], id) {
			return false
		}
	}
	s.Number, s.ViewFence, s.ViewIDs, s.Reason = r.Number, index, r.IDs, r.Reason
	s.advance(index, r.Kind)
	return true
}

func (s *state) advance(index uint64, kind recordKind) {
	s.Before, s.Fence, s.Last = s.Fence, index, kind
}

// current is the view as self sees it.
func (s *state) current(self uint64) View {
	v := View{Number: s.Number, Fence: s.ViewFence, Rank: s.rank(self), Reason: s.Reason}
	for _, id := range s.ViewIDs {
		m, _ := s.find(id)
		v.Members = append(v.Members, m)
	}
	return v
}

func (s *state) encode() []byte {
	b, err := wire.Marshal(s)
	if err != nil {
		panic(err) // plain fields only: can't happen
	}
	return b
}

func decodeState(b []byte) (*state, error) {
	s := &state{}
	if err := wire.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("snapshot of the log: %w", err)
	}
	if len(s.Members) == 0 || len(s.Members) > MaxPeers || s.Peers < 1 || s.Peers > MaxPeers {
		return nil, fmt.Errorf("snapshot of the log: %d members of %d, at most %d", len(s.Members), s.Peers, MaxPeers)
	}
	for i, m := range s.Members {
		if err := m.check(); err != nil {
			return nil, fmt.Errorf("snapshot of the log: %w", err)
		}
		if slices.ContainsFunc(s.Members[:i], func(o Member) bool { return o.ID == m.ID || o.Peer == m.Peer }) {
			return nil, fmt.Errorf("snapshot of the log: %s is in it twice", m.Short())
		}
	}
	for _, id := range s.ViewIDs {
		if _, ok := s.find(id); !ok {
			return nil, fmt.Errorf("snapshot of the log: the view has a stranger %x", id)
		}
	}
	return s, nil
}
