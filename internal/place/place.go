package place

import (
	"fmt"
	"iter"
	"slices"
)

const (
	// All, as a number of backups, means that every peer holds everything.
	All = -1

	// MaxPeers is the most peers that a map can speak of: a rank fits in a byte.
	MaxPeers = 256

	maxSize   = 1 << 40 // elements of a range that are reckoned with; 2^14 of them, 256 times, fit in an int64
	maxWeight = 1 << 54 // of a peer; sums of MaxPeers of them fit in an int64
)

// Range is a piece of a unit's flat vector. Ranges are listed in the order of units and, inside one, of offsets.
type Range struct {
	Group int   // the unit
	Size  int64 // elements
}

func (r Range) size() int64 { return min(max(r.Size, 0), maxSize) }

// Peer is what matters of a peer here; its place in a list is its rank.
type Peer struct {
	Weight  int64 // what it owns is in proportion to this; 0: it owns only what nobody else can
	Browser bool  // may vanish at any moment: no range is left to browsers alone
	Keep    bool  // false: it is leaving, and is to hold nothing in the end
}

func (p Peer) weight() int64 { return min(max(p.Weight, 0), maxWeight) }

// Map says who holds what, by range.
type Map struct {
	Owner   []int   // rank of the owner; -1: nobody holds it
	Backups [][]int // ranks of the other holders, ascending
}

// Fill is a transfer of a range from its owner to rank To, which becomes a holder by it.
type Fill struct{ Range, To int }

// Check is for maps from the network: it says what is wrong with m as a map of so many ranges among so many peers.
func (m Map) Check(ranges, peers int) error {
	switch {
	case peers < 0 || peers > MaxPeers:
		return fmt.Errorf("placement: %d peers, at most %d", peers, MaxPeers)
	case len(m.Owner) != ranges || len(m.Backups) != ranges:
		return fmt.Errorf("placement: %d owners and %d lists of backups for %d ranges", len(m.Owner), len(m.Backups), ranges)
	}
	for i, owner := range m.Owner {
		if owner < -1 || owner >= peers {
			return fmt.Errorf("placement: range %d: owner %d of %d peers", i, owner, peers)
		}
		if owner < 0 && len(m.Backups[i]) > 0 {
			return fmt.Errorf("placement: range %d: backups without an owner", i)
		}
		last := -1
		for _, b := range m.Backups[i] {
			if b <= last || b >= peers || b == owner {
				return fmt.Errorf("placement: range %d: backups %v beside owner %d of %d peers, want ascending ranks", i, m.Backups[i], owner, peers)
			}
			last = b
		}
	}
	return nil
}

// Clone is a copy that shares no memory with m.
func (m Map) Clone() Map {
	c := Map{Owner: slices.Clone(m.Owner), Backups: make([][]int, len(m.Backups))}
	for i, b := range m.Backups {
		c.Backups[i] = slices.Clone(b)
	}
	return c
}

// Equal says whether both maps say the same.
func (m Map) Equal(o Map) bool {
	return slices.Equal(m.Owner, o.Owner) && slices.EqualFunc(m.Backups, o.Backups, slices.Equal[[]int])
}

// Holds says whether rank is a holder of range i.
func (m Map) Holds(i, rank int) bool {
	if m.Owner[i] == rank {
		return rank >= 0
	}
	_, ok := slices.BinarySearch(m.Backups[i], rank)
	return ok
}

// Holders are the owner of range i, then its backups; none when nobody holds the range.
func (m Map) Holders(i int) iter.Seq[int] {
	return func(yield func(rank int) bool) {
		if m.Owner[i] < 0 || !yield(m.Owner[i]) {
			return
		}
		for _, r := range m.Backups[i] {
			if !yield(r) {
				return
			}
		}
	}
}

// Redundancy is the number of deaths that every range survives: the fewest further holders of any range beside one, not
// counting peers that are leaving.
func (m Map) Redundancy(peers []Peer) int {
	stay := func(rank int) bool { return rank < len(peers) && peers[rank].Keep }
	fewest := 0
	for _, p := range peers {
		if p.Keep {
			fewest++
		}
	}
	for i := range m.Owner {
		n := 0
		for h := range m.Holders(i) {
			if stay(h) {
				n++
			}
		}
		fewest = min(fewest, n)
	}
	return max(fewest-1, 0)
}

// add makes rank a backup of range i, if it doesn't hold it.
func (m *Map) add(i, rank int) {
	if at, ok := slices.BinarySearch(m.Backups[i], rank); !ok && m.Owner[i] != rank {
		m.Backups[i] = slices.Insert(m.Backups[i], at, rank)
	}
}

// drop takes range i from a backup.
func (m *Map) drop(i, rank int) {
	if at, ok := slices.BinarySearch(m.Backups[i], rank); ok {
		m.Backups[i] = slices.Delete(m.Backups[i], at, at+1)
	}
}

// give makes rank the owner of range i; the old owner is no holder after that.
func (m *Map) give(i, rank int) {
	m.drop(i, rank)
	m.Owner[i] = rank
}
