package place

import (
	"math/bits"
	"slices"
)

// Survive is the map after some peers are gone. rank gives each old rank its new one, or -1 for those that are gone;
// peers are in the new order. What a gone owner had falls to that holder of it that has the least for its weight. lost
// lists the ranges that have no holder any more.
func (m Map) Survive(rank []int, peers []Peer, ranges []Range) (after Map, lost []int) {
	after = Map{Owner: make([]int, len(m.Owner)), Backups: make([][]int, len(m.Owner))}
	load := make([]int64, len(peers))
	for i, owner := range m.Owner {
		after.Owner[i] = moved(rank, owner)
		for _, b := range m.Backups[i] {
			if b = moved(rank, b); b >= 0 {
				after.Backups[i] = append(after.Backups[i], b)
			}
		}
		slices.Sort(after.Backups[i])
		if o := after.Owner[i]; o >= 0 {
			load[o] += ranges[i].size()
		}
	}
	for i, owner := range after.Owner {
		if owner >= 0 {
			continue
		}
		if len(after.Backups[i]) == 0 {
			lost = append(lost, i)
			continue
		}
		heir := slices.MinFunc(after.Backups[i], func(a, b int) int { return heirs(peers, load, a, b) })
		after.give(i, heir)
		load[heir] += ranges[i].size()
	}
	return after, lost
}

func moved(rank []int, old int) int {
	if old < 0 || old >= len(rank) {
		return -1
	}
	return rank[old]
}

// heirs orders ranks by how fit they are to own more: those that stay first, then those with the least for their weight.
func heirs(peers []Peer, load []int64, a, b int) int {
	if peers[a].Keep != peers[b].Keep {
		if peers[a].Keep {
			return -1
		}
		return 1
	}
	return perWeight(load[a], peers[a].weight(), load[b], peers[b].weight())
}

// perWeight compares x/wx with y/wy; anything divided by weight 0 is more than all else.
func perWeight(x, wx, y, wy int64) int {
	switch {
	case wx == 0 && wy == 0:
		return int(min(max(x-y, -1), 1))
	case wx == 0:
		return 1
	case wy == 0:
		return -1
	}
	ah, al := bits.Mul64(uint64(x), uint64(wy))
	bh, bl := bits.Mul64(uint64(y), uint64(wx))
	switch {
	case ah < bh || ah == bh && al < bl:
		return -1
	case ah == bh && al == bl:
		return 0
	}
	return 1
}

// Missing lists the fills that lead from have to want. Donors, who are the owners in have, take turns, so that all of
// them send at the same time; each begins with its ranges that have the fewest holders. A range that nobody holds
// can't be filled.
func Missing(have, want Map) []Fill {
	var donors [][]Fill // by rank
	total := 0
	for i, owner := range have.Owner {
		if owner < 0 {
			continue
		}
		for len(donors) <= owner {
			donors = append(donors, nil)
		}
		for to := range want.Holders(i) {
			if !have.Holds(i, to) {
				donors[owner] = append(donors[owner], Fill{Range: i, To: to})
				total++
			}
		}
	}
	fills := make([]Fill, 0, total)
	for _, d := range donors {
		slices.SortStableFunc(d, func(a, b Fill) int { return len(have.Backups[a.Range]) - len(have.Backups[b.Range]) })
	}
	for turn := 0; len(fills) < total; turn++ {
		for _, d := range donors {
			if turn < len(d) {
				fills = append(fills, d[turn])
			}
		}
	}
	return fills
}

// Apply is the map once some fills are done: each receiver is a backup of what it was sent.
func (m Map) Apply(fills []Fill) Map {
	after := m.Clone()
	for _, f := range fills {
		after.add(f.Range, f.To)
	}
	return after
}

// Settle is want where all its holders hold what they are to hold, and have elsewhere.
func Settle(have, want Map) Map {
	after := have.Clone()
	for i := range have.Owner {
		there := want.Owner[i] >= 0
		for h := range want.Holders(i) {
			there = there && have.Holds(i, h)
		}
		if there {
			after.Owner[i], after.Backups[i] = want.Owner[i], slices.Clone(want.Backups[i])
		}
	}
	return after
}
