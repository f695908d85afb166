package place

import "slices"

// evener moves ranges from ranks that have more than their share to ranks that have less.
type evener struct {
	ranges      []Range
	may         []bool  // by rank: takes part
	load, share []int64 // by rank
	items       [][]int // by rank: the ranges that it could give away
	fits        func(i, from, to int) bool
	free        func(i, from, to int) bool // the move costs no transfer
	move        func(i, from, to int)
}

const (
	leave = 5  // nothing is moved when all loads are within a fifth of their share ...
	reach = 32 // ... otherwise until they are within this part of it
)

// off says whether some load is further from its share than a part of it.
func (e *evener) off(part int64) bool {
	for r, may := range e.may {
		if x := e.load[r] - e.share[r]; may && max(x, -x) > e.share[r]/part {
			return true
		}
	}
	return false
}

// run moves ranges while loads are off and a move brings the two loads that it changes nearer to their shares (the sum
// of squared distances falls). When it ends there is no such move, or the loads are good: to run again changes nothing.
func (e *evener) run() {
	if !e.off(leave) {
		return
	}
	left := 0 // moves, a bound that no sensible case comes near
	for _, list := range e.items {
		left += 4 * len(list)
	}
	for e.pass(&left) {
	}
}

// pass moves ranges to one receiver after another until none can take more, and says whether anything was moved.
func (e *evener) pass(left *int) bool {
	full, moved := make([]bool, len(e.may)), false
	for *left > 0 && e.off(reach) {
		to := e.neediest(full)
		if to < 0 {
			break
		}
		if !e.feed(to) {
			full[to] = true
			continue
		}
		moved = true
		*left--
	}
	return moved
}

func (e *evener) over(r int) int64 { return e.load[r] - e.share[r] }

func (e *evener) neediest(full []bool) int {
	best := -1
	for r, may := range e.may {
		if may && !full[r] && (best < 0 || e.over(r) < e.over(best)) {
			best = r
		}
	}
	return best
}

// feed moves one range to rank to, from the rank with most that has a suitable one.
func (e *evener) feed(to int) bool {
	var donors []int
	for r, may := range e.may {
		if may && e.over(r) > e.over(to) {
			donors = append(donors, r)
		}
	}
	slices.SortStableFunc(donors, func(a, b int) int { return int(min(max(e.over(b)-e.over(a), -1), 1)) })
	for _, from := range donors {
		if k := e.pick(from, to); k >= 0 {
			i := e.items[from][k]
			e.items[from] = slices.Delete(e.items[from], k, k+1)
			e.items[to] = append(e.items[to], i)
			e.load[from] -= e.ranges[i].size()
			e.load[to] += e.ranges[i].size()
			e.move(i, from, to)
			return true
		}
	}
	return false
}

// pick chooses which of the donor's ranges goes: the largest that doesn't overshoot, one that costs nothing before others;
// if all overshoot, the smallest that still helps.
func (e *evener) pick(from, to int) int {
	gap := e.over(from) - e.over(to)
	limit := min(e.over(from), -e.over(to))
	best, bestKey := -1, [3]int64{}
	for k, i := range e.items[from] {
		size := e.ranges[i].size()
		if size == 0 || size >= gap || !e.fits(i, from, to) {
			continue
		}
		key := [3]int64{0, 0, -size} // smallest first
		if size > limit {
			key[0], key[2] = 1, size
		}
		if !e.free(i, from, to) {
			key[1] = 1
		}
		if best < 0 || slices.Compare(key[:], bestKey[:]) < 0 {
			best, bestKey = k, key
		}
	}
	return best
}
