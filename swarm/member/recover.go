package member

import (
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
	"shoal/internal/place"
)

// Snapshot is all that this member knows of the log, for Recovered.
func (c *Core) Snapshot() []byte {
	return snapshotOf(c.st, c.log.applied, c.log.term, c.conf)
}

// NextGeneration is the generation of a log that member self begins anew: the upper half of it counts, the lower is the
// member's, so that two parts of a mesh that both begin theirs never take one for the other.
func NextGeneration(generation, self uint64) uint64 {
	return (generation>>32+1)<<32 | self>>32
}

// Recoveries is how often a log of that generation was begun anew.
func Recoveries(generation uint64) uint64 { return generation >> 32 }

// skipped is how many indices a new generation leaves out: only the dead know which attempts began at the first of them,
// and frames name attempts by nothing else.
const skipped = 1 << 20

// Recovered makes a new generation of a log that has lost the majority of its voters for good, from the Snapshots of the
// survivors: the longest of the newest generation, followed by a view of those members that are alive. Where they don't hold
// all ranges it goes back to the newest checkpoint that one of them can read; reads has, by member id, the name of the one
// that it can. self is the only voter; all who are alive must Adopt the result (PROTOCOL.md 19).
func Recovered(snapshots [][]byte, self uint64, alive []uint64, reads map[uint64]string) ([]byte, error) {
	var st *state
	var index, term uint64
	for _, b := range snapshots {
		s, next, err := decodeSnapshot(b)
		if err != nil {
			return nil, fmt.Errorf("recover: %w", err)
		}
		m := s.GetMetadata()
		term = max(term, m.GetTerm())
		if st == nil || next.Generation > st.Generation || next.Generation == st.Generation && m.GetIndex() > index {
			st, index = next, m.GetIndex()
		}
	}
	if st == nil {
		return nil, errors.New("recover: nobody has told how far the log is")
	}
	index += skipped
	if err := st.outlive(index, self, alive, reads); err != nil {
		return nil, err
	}
	conf := &raftpb.ConfState{Voters: []uint64{self}}
	for _, m := range st.Members {
		if m.ID != self {
			conf.Learners = append(conf.Learners, m.ID)
		}
	}
	st.Generation = NextGeneration(st.Generation, self)
	return snapshotOf(st, index, term+1, conf), nil
}

// outlive goes on at index without those that are not alive.
func (s *state) outlive(index, self uint64, alive []uint64, reads map[uint64]string) error {
	m, ok := s.find(self)
	lives := func(id uint64) bool { return id == self || slices.Contains(alive, id) }
	switch {
	case s.ended():
		return errors.New("recover: the run is over")
	case !ok:
		return errors.New("recover: this peer is no member of the run any more: join again")
	case m.Offer.Kind != "daemon":
		return errors.New("recover: a browser can't keep the run's log: recover on another peer")
	}
	if s.started() {
		r, err := s.survivors(lives, reads)
		if err != nil {
			return err
		}
		if !s.apply(index, r) {
			return errors.New("recover: the survivors' view contradicts the log")
		}
	}
	for _, m := range slices.Clone(s.Members) {
		if !lives(m.ID) {
			s.remove(m.ID)
		}
	}
	return nil
}

// survivors is the view of those of the current one that live.
func (s *state) survivors(lives func(id uint64) bool, reads map[uint64]string) (*record, error) {
	r := &record{Kind: recordView, Follows: s.Fence, Number: s.Number + 1, Reason: "recovered from the survivors"}
	for i, id := range s.ViewIDs {
		if lives(id) {
			r.IDs, r.Work = append(r.IDs, id), append(r.Work, max(s.Work[i], 0))
		}
	}
	peers := s.survivingPeers(r.IDs)
	have, lost := s.have.Survive(moves(s.ViewIDs, r.IDs), peers, s.ranges)
	if len(lost) > 0 || len(r.IDs) == 0 {
		if back := s.survivorsBack(lives, reads); back != nil {
			return back, nil
		}
		return nil, fmt.Errorf("recover: no survivor holds %d of %d ranges of the model", len(lost), len(s.ranges))
	}
	r.Have = encodeMap(have, len(r.IDs))
	r.Want = encodeMap(place.Want(s.ranges, peers, s.Backups, have), len(r.IDs))
	return r, nil
}

// survivorsBack is the Restore of those that live, or nil if none of them can read a checkpoint.
func (s *state) survivorsBack(lives func(id uint64) bool, reads map[uint64]string) *record {
	alive := slices.DeleteFunc(slices.Clone(s.ViewIDs), func(id uint64) bool { return !lives(id) })
	saved, ids := s.newest(alive, func(id uint64) string { return reads[id] })
	if saved == nil {
		return nil
	}
	peers := s.survivingPeers(ids)
	have := place.Start(s.ranges, peers, s.Backups)
	return &record{Kind: recordRestore, Follows: s.Fence, Name: saved.Name, Number: s.Number + 1, IDs: ids, Work: make([]int64, len(ids)),
		Lost: slices.DeleteFunc(slices.Clone(s.ViewIDs), lives), Have: encodeMap(have, len(ids)),
		Want: encodeMap(place.Want(s.ranges, peers, s.Backups, have), len(ids)), Reason: "recovered from the survivors: " + saved.goingBack()}
}

func (s *state) survivingPeers(ids []uint64) (peers []place.Peer) {
	for _, id := range ids {
		m, _ := s.find(id)
		peers = append(peers, place.Peer{Weight: m.Offer.Weight, Browser: m.Offer.Kind != "daemon", Keep: true})
	}
	return peers
}

// Adopt goes on with a newer generation of the log, made by Recovered, and tells what is different there.
func (c *Core) Adopt(snapshot []byte) error {
	defer c.rescue()
	s, st, err := decodeSnapshot(snapshot)
	switch {
	case err != nil:
		return err
	case c.over:
		return errors.New("member: the run is over here")
	case st.Generation <= c.st.Generation || s.GetMetadata().GetIndex() <= c.log.applied:
		return fmt.Errorf("member: generation %d of the log at %d is no successor of generation %d at %d", st.Generation, s.GetMetadata().GetIndex(), c.st.Generation, c.log.applied)
	}
	if err := c.openLog(s); err != nil {
		return err
	}
	c.lead, c.election, c.contact = leadership{}, election{}, c.tick
	c.Resume()
	c.jump(st)
	if slices.Equal(c.conf.GetVoters(), []uint64{c.cfg.ID}) {
		if err := c.rn.Campaign(); err != nil {
			return fmt.Errorf("member: start the log: %w", err)
		}
	}
	c.watch() // or this member could still be told to recover, a log that has just begun
	c.settle()
	return nil
}
