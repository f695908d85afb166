package member

import (
	"fmt"
	"math"
	"slices"

	"shoal/internal/place"
)

// MaxRanges is the most ranges that a model may be cut into.
const MaxRanges = 1 << 14

// encodeMap packs a placement for n members: for each range a byte with its owner's rank, then a bit for each rank that
// is a backup.
func encodeMap(m place.Map, n int) []byte {
	size := 1 + (n+7)/8
	b := make([]byte, len(m.Owner)*size)
	for i, owner := range m.Owner {
		at := b[i*size:]
		at[0] = byte(owner)
		for _, r := range m.Backups[i] {
			at[1+r/8] |= 1 << (r % 8)
		}
	}
	return b
}

// decodeMap unpacks the placement of so many ranges among n members, in which every range has an owner.
func decodeMap(b []byte, ranges, n int) (place.Map, error) {
	size := 1 + (n+7)/8
	if len(b) != ranges*size {
		return place.Map{}, fmt.Errorf("placement of %d bytes, want %d", len(b), ranges*size)
	}
	m := place.Map{Owner: make([]int, ranges), Backups: make([][]int, ranges)}
	for i := range ranges {
		at := b[i*size : (i+1)*size]
		m.Owner[i] = int(at[0])
		for r := range 8 * (size - 1) {
			if at[1+r/8]&(1<<(r%8)) != 0 {
				m.Backups[i] = append(m.Backups[i], r)
			}
		}
	}
	return m, m.Check(ranges, n)
}

// rangeList and flatRanges are the two forms of what the model is cut into; the log has pairs of group and size.
func rangeList(flat []int64) ([]place.Range, error) {
	if len(flat)%2 != 0 || len(flat) > 2*MaxRanges {
		return nil, fmt.Errorf("%d ranges, at most %d", len(flat)/2, MaxRanges)
	}
	var list []place.Range
	for i := 0; i < len(flat); i += 2 {
		if flat[i] < 0 || flat[i] > math.MaxInt32 || flat[i+1] < 0 || flat[i+1] > 1<<40 {
			return nil, fmt.Errorf("range %d has %d elements of unit %d", i/2, flat[i+1], flat[i])
		}
		list = append(list, place.Range{Group: int(flat[i]), Size: flat[i+1]})
	}
	return list, nil
}

func flatRanges(list []place.Range) []int64 {
	var flat []int64
	for _, r := range list {
		flat = append(flat, int64(r.Group), r.Size)
	}
	return flat
}

func fillList(flat []int64, ranges, n int) ([]place.Fill, error) {
	if len(flat)%2 != 0 {
		return nil, fmt.Errorf("fills in %d numbers", len(flat))
	}
	var list []place.Fill
	for i := 0; i < len(flat); i += 2 {
		if flat[i] < 0 || flat[i] >= int64(ranges) || flat[i+1] < 0 || flat[i+1] >= int64(n) {
			return nil, fmt.Errorf("fill of range %d for rank %d: there are %d ranges and %d members", flat[i], flat[i+1], ranges, n)
		}
		list = append(list, place.Fill{Range: int(flat[i]), To: int(flat[i+1])})
	}
	return list, nil
}

func flatFills(list []place.Fill) []int64 {
	var flat []int64
	for _, f := range list {
		flat = append(flat, int64(f.Range), int64(f.To))
	}
	return flat
}

// checkWork is for the work of n members: somebody must do it.
func checkWork(work []int64, n int) error {
	if len(work) != n {
		return fmt.Errorf("work for %d members of %d", len(work), n)
	}
	if n > 0 && slices.Max(work) < 0 || n > 0 && slices.Min(work) < -1 {
		return fmt.Errorf("work %v: want -1 or more, not -1 for all", work)
	}
	return nil
}

// moves gives each old rank its new one, or -1.
func moves(from, to []uint64) []int {
	rank := make([]int, len(from))
	for i, id := range from {
		rank[i] = slices.Index(to, id)
	}
	return rank
}

// onlyHolders says whether every holder in now, a placement among to, was a holder in before, a placement among from.
// So no holder is made up, and no range loses its last one (PROTOCOL.md 6, 8).
func onlyHolders(before, now place.Map, from, to []uint64) error {
	old := moves(to, from)
	for i := range now.Owner {
		for r := range now.Holders(i) {
			if old[r] < 0 || !before.Holds(i, old[r]) {
				return fmt.Errorf("placement: rank %d is to hold range %d without having it", r, i)
			}
		}
	}
	return nil
}

// view begins the view that r describes, in place of the one before it.
func (s *state) view(index uint64, r *record) error {
	if r.Number != s.Number+1 || len(r.IDs) == 0 || len(r.IDs) > MaxPeers {
		return fmt.Errorf("view %d of %d members after view %d", r.Number, len(r.IDs), s.Number)
	}
	for i, id := range r.IDs {
		if _, ok := s.find(id); !ok || slices.Contains(r.IDs[:i], id) {
			return fmt.Errorf("view %d has member %x that is none, or twice", r.Number, id)
		}
	}
	have, err := decodeMap(r.Have, len(s.ranges), len(r.IDs))
	if err != nil {
		return err
	}
	if s.started() && r.Kind != recordRestore && !s.broken.dropLast {
		if err := onlyHolders(s.have, have, s.ViewIDs, r.IDs); err != nil {
			return err
		}
	}
	s.removeOthers(index, r)
	s.Number, s.ViewFence, s.ViewIDs, s.Reason, s.have = r.Number, index, r.IDs, r.Reason, have
	return nil
}

// removeOthers takes out the members that were in the view and are not in the next one. After a Restore those stay that
// only couldn't read the checkpoint: they come in as newcomers do.
func (s *state) removeOthers(index uint64, r *record) {
	for _, id := range s.ViewIDs {
		if slices.Contains(r.IDs, id) || r.Kind == recordRestore && !slices.Contains(r.Lost, id) {
			continue
		}
		m, _ := s.find(id)
		s.remove(id)
		if r.Kind == recordView || r.Kind == recordRestore {
			s.Faults = append(slices.Clip(s.Faults), Fault{Peer: m.Peer, Reason: r.Reason, Index: index})
			s.Faults = s.Faults[max(0, len(s.Faults)-maxFaults):]
		}
	}
}

// remove takes out a member, and remembers it so that it can be told.
func (s *state) remove(id uint64) {
	s.Members = slices.DeleteFunc(slices.Clone(s.Members), func(m Member) bool { return m.ID == id })
	s.Past = append(slices.Clip(s.Past), id)
	s.Past = s.Past[max(0, len(s.Past)-maxPast):]
}

// current is the view as self sees it.
func (s *state) current(self uint64) View {
	v := View{Number: s.Number, Fence: s.ViewFence, Rank: s.rank(self), Reason: s.Reason, Place: s.have}
	v.Members = make([]Member, 0, len(s.ViewIDs))
	for _, id := range s.ViewIDs {
		m, _ := s.find(id)
		v.Members = append(v.Members, m)
	}
	return v
}

// entry is the current attempt's beginning as self sees it.
func (s *state) entry(self uint64) Entry {
	e := Entry{Fence: s.Fence, Kind: entryKinds[s.Last], Payload: s.Payload, Work: s.Work, Fills: s.fills, Run: s.Run, Restored: s.Restored}
	if s.ViewFence == s.Fence {
		v := s.current(self)
		e.View = &v
	}
	return e
}
