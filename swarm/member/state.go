package member

import (
	"errors"
	"fmt"
	"slices"

	"shoal/internal/place"
	"shoal/swarm/wire"
)

const (
	// MaxPeers is the most members that a run may have: a rank fits in a byte.
	MaxPeers = place.MaxPeers

	maxFaults = 16  // removals that are remembered for people
	maxPast   = 256 // members that are remembered, to be told that they are none any more
)

// state is the state machine. apply is its only change, and depends on nothing but the log; a snapshot is its encoding.
// Slices and maps in it are replaced and never changed, so that copies may share them.
type state struct {
	Run     []byte   `cbor:"1,keyasint,omitempty"` // the run's description
	Peers   int      `cbor:"2,keyasint"`           // members that the first view waits for
	Exact   bool     `cbor:"3,keyasint,omitempty"` // members need the first one's kernel fingerprint
	Members []Member `cbor:"4,keyasint"`           // by admission; before the first view the creator is the first

	Number    uint64   `cbor:"5,keyasint,omitempty"` // of the current view; 0 before the first
	ViewFence uint64   `cbor:"6,keyasint,omitempty"`
	ViewIDs   []uint64 `cbor:"7,keyasint,omitempty"` // in rank order
	Reason    string   `cbor:"8,keyasint,omitempty"` // of the view

	Fence   uint64     `cbor:"9,keyasint,omitempty"`  // current; 0 before the first view
	Last    recordKind `cbor:"11,keyasint,omitempty"` // what began the current fence
	Payload []byte     `cbor:"12,keyasint,omitempty"` // of the last Commit, Retry or Done
	Stop    *stop      `cbor:"13,keyasint,omitempty"` // the run has ended with an error
	Joined  uint64     `cbor:"14,keyasint,omitempty"` // log index of the last admission

	Ranges  []int64 `cbor:"15,keyasint,omitempty"` // what the model is cut into, see rangeList
	Backups int     `cbor:"16,keyasint,omitempty"` // of each range; place.All: everybody
	Have    []byte  `cbor:"17,keyasint,omitempty"` // the placement, by rank of the view; see encodeMap
	Want    []byte  `cbor:"18,keyasint,omitempty"` // where things should be
	Work    []int64 `cbor:"19,keyasint,omitempty"` // of the current attempt, by rank
	Fills   []int64 `cbor:"20,keyasint,omitempty"` // of the current attempt, see fillList
	Tries   int     `cbor:"21,keyasint,omitempty"` // attempts of this step that have failed
	Lates   int     `cbor:"22,keyasint,omitempty"` // of these, for lateness

	Generation uint64   `cbor:"23,keyasint,omitempty"` // of the log, see NextGeneration
	Faults     []Fault  `cbor:"24,keyasint,omitempty"` // the last removals
	Past       []uint64 `cbor:"25,keyasint,omitempty"` // the last members that are none any more

	Saved    []Saved `cbor:"26,keyasint,omitempty"` // the last checkpoints that became whole, the newest last
	Restored uint64  `cbor:"27,keyasint,omitempty"` // log index of the last Restore

	// Have, Want, Ranges and Fills as they are worked with; encode and decodeState convert them.
	ranges     []place.Range
	have, want place.Map
	fills      []place.Fill

	broken broken // for tests
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
	first := s.Members[0]
	same := slices.IndexFunc(s.Members, func(o Member) bool { return o.Peer == m.Peer || o.ID == m.ID })
	switch {
	case s.ended():
		return "the run is over"
	case same >= 0:
		return fmt.Sprintf("peer %s is in the run already: a second process needs an identity of its own", m.Short())
	case len(s.Members) >= MaxPeers:
		return fmt.Sprintf("the run has %d peers, which is the most that it can have", MaxPeers)
	case slices.Contains(s.Past, m.ID):
		return "this process was in the run before: it needs a new member id"
	case m.Offer.ModelHash != first.Offer.ModelHash:
		return fmt.Sprintf("the model differs from the run's (hash %.12s, want %.12s): use the same program version and run file", m.Offer.ModelHash, first.Offer.ModelHash)
	case s.Exact && m.Offer.Fingerprint != first.Offer.Fingerprint:
		return fmt.Sprintf("the run is exact and this peer's kernels give other bits (fingerprint %.12s, want %.12s)", m.Offer.Fingerprint, first.Offer.Fingerprint)
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
	case recordStop:
		if r.Follows != 0 && r.Follows != s.Fence {
			return false
		}
		s.Stop = &stop{ID: r.ID, Reason: r.Reason}
		return true
	default:
		next := *s
		if r.Follows != s.Fence && !s.broken.noFence || next.advance(index, r) != nil {
			return false
		}
		*s = next
		return true
	}
}

// leave takes out a member that is in no view; before the first one the creator never leaves without ending the run.
func (s *state) leave(id uint64) bool {
	if _, ok := s.find(id); !ok || s.rank(id) >= 0 || !s.started() && id == s.Members[0].ID {
		return false
	}
	s.remove(id)
	return true
}

// advance ends the current attempt and begins the next. After an error the state is useless.
func (s *state) advance(index uint64, r *record) error {
	if !s.started() && r.Kind != recordView {
		return errors.New("nothing is to be decided before the first view")
	}
	s.Tries++
	switch r.Kind {
	case recordCommit, recordDone:
		if len(s.fills) > 0 { // whoever was filled is a holder now
			s.have = s.have.Apply(s.fills)
		}
		s.Payload, s.Tries, s.Lates = r.Body, 0, 0
		s.save(r.Saved)
	case recordRetry:
		s.Payload = r.Body
		s.save(r.Saved)
	case recordRestore:
		if err := s.goBack(index, r.Name); err != nil {
			return err
		}
	case recordLate:
		s.Lates++
	case recordView:
		if !s.started() {
			s.Tries = 0
		}
	}
	begins := r.Kind == recordView || r.Kind == recordRestore
	if r.Number > 0 && !begins && r.Kind != recordCommit {
		return fmt.Errorf("an entry of kind %d can't begin a view", r.Kind)
	}
	if r.Number > 0 || begins {
		if err := s.view(index, r); err != nil {
			return err
		}
	}
	if err := s.next(r); err != nil {
		return err
	}
	s.Fence, s.Last = index, r.Kind
	return nil
}

// next takes over what r says about the attempt that begins.
func (s *state) next(r *record) (err error) {
	n := len(s.ViewIDs)
	if r.Want != nil || r.Number > 0 {
		if s.want, err = decodeMap(r.Want, len(s.ranges), n); err != nil {
			return err
		}
	}
	if r.Kind == recordDone {
		s.fills = nil
		return nil
	}
	if err := checkWork(r.Work, n); err != nil {
		return err
	}
	s.Work = r.Work
	s.fills, err = fillList(r.Fills, len(s.ranges), n)
	return err
}

func (s *state) encode() []byte {
	e := *s
	e.Have, e.Want = encodeMap(s.have, len(s.ViewIDs)), encodeMap(s.want, len(s.ViewIDs))
	e.Ranges, e.Fills = flatRanges(s.ranges), flatFills(s.fills)
	b, err := wire.Marshal(&e)
	if err != nil {
		panic(err) // plain fields only: can't happen
	}
	return b
}

// decodeState believes nothing: a snapshot comes from the network.
func decodeState(b []byte) (*state, error) {
	s := &state{}
	err := wire.Unmarshal(b, s)
	if err == nil {
		err = s.checkMembers()
	}
	if err == nil {
		err = s.unpack()
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot of the log: %w", err)
	}
	return s, nil
}

func (s *state) checkMembers() error {
	if len(s.Members) == 0 || len(s.Members) > MaxPeers || s.Peers < 1 || s.Peers > MaxPeers {
		return fmt.Errorf("%d members of %d, at most %d", len(s.Members), s.Peers, MaxPeers)
	}
	for i, m := range s.Members {
		if err := m.check(); err != nil {
			return err
		}
		if slices.ContainsFunc(s.Members[:i], func(o Member) bool { return o.ID == m.ID || o.Peer == m.Peer }) {
			return fmt.Errorf("%s is in it twice", m.Short())
		}
	}
	for i, id := range s.ViewIDs {
		if _, ok := s.find(id); !ok || slices.Contains(s.ViewIDs[:i], id) {
			return fmt.Errorf("the view has member %x that is none, or twice", id)
		}
	}
	if len(s.Saved) > maxSaved {
		return fmt.Errorf("%d checkpoints, at most %d", len(s.Saved), maxSaved)
	}
	for i := range s.Saved {
		if err := s.Saved[i].check(); err != nil {
			return err
		}
	}
	if s.started() != (len(s.ViewIDs) > 0) || s.Tries < 0 || s.Lates < 0 || len(s.Faults) > maxFaults || len(s.Past) > maxPast {
		return fmt.Errorf("view %d of %d members, %d failed tries, %d of them late, %d faults and %d past members make no sense",
			s.Number, len(s.ViewIDs), s.Tries, s.Lates, len(s.Faults), len(s.Past))
	}
	return nil
}

// unpack fills in what is not encoded.
func (s *state) unpack() (err error) {
	n := len(s.ViewIDs)
	if s.Backups < place.All || s.Backups > MaxPeers {
		return fmt.Errorf("%d backups", s.Backups)
	}
	if s.ranges, err = rangeList(s.Ranges); err != nil {
		return err
	}
	if n == 0 {
		s.Have, s.Want, s.Work, s.Fills, s.Ranges = nil, nil, nil, nil, nil
		return nil
	}
	if s.have, err = decodeMap(s.Have, len(s.ranges), n); err != nil {
		return err
	}
	if s.want, err = decodeMap(s.Want, len(s.ranges), n); err != nil {
		return err
	}
	if s.fills, err = fillList(s.Fills, len(s.ranges), n); err != nil {
		return err
	}
	s.Have, s.Want, s.Fills, s.Ranges = nil, nil, nil, nil
	return checkWork(s.Work, n)
}
