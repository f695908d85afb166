package fsdp

import (
	"math/bits"
	"slices"
)

// Share is the microbatches that one member computes in a step: [First, Last) of the global batch's list.
type Share struct{ First, Last int }

// idle says whether a member computes nothing.
func (s Share) idle() bool { return s.First == s.Last }

// NoWork, as a cost, says that a member gets no microbatches.
const NoWork = -1

// maxCost bounds what a microbatch is taken to cost, in microseconds.
const maxCost = 1 << 40

// A member that would get nothing, since it is too slow, is tried again now and then: it may have become faster. How often
// follows from what that costs, so that all such trials together take no more than 1 of trialShare parts of the time.
const (
	trialShare = 32
	trialLeast = 8 // steps from one trial to the next
)

// Deal deals m microbatches of a step so that all are done as early as can be, but for trials. work is what one costs each
// member, in microseconds; 0 is unknown and counts as what the quickest needs, so that it will be known. Turns go round with the step where
// members are equal, so that over many steps each of them computes as many. Only speed depends on the deal, never a result.
func Deal(step, m int, work []int64) []Share {
	cost := costs(work)
	counts := deal(step, m, cost)
	if tried := trials(step, m, cost, counts); len(tried) > 0 {
		for _, r := range tried {
			cost[r] = 0
		}
		counts = deal(step, m-len(tried), cost)
		for _, r := range tried {
			counts[r] = 1
		}
	}
	shares := make([]Share, len(cost))
	at := 0
	for r, n := range counts {
		shares[r] = Share{at, at + n}
		at += n
	}
	return shares
}

// deal is how many of m microbatches each member gets, so that all are done as early as can be.
func deal(step, m int, cost []int64) []int {
	end := finish(m, cost)
	counts := make([]int, len(cost))
	left := -m
	for r, c := range cost {
		if c > 0 {
			counts[r] = int(end / c)
			left += counts[r]
		}
	}
	for _, r := range last(step, end, left, cost) {
		counts[r]--
	}
	return counts
}

// trials are those who get a microbatch in this step although they are too slow for one: at most half of m, and the only
// one at least. The times between two trials are powers of two, so that members are tried in the same steps, which costs
// no more than the slowest of them.
func trials(step, m int, cost []int64, counts []int) (list []int) {
	if m == 0 {
		return nil
	}
	end, least := finish(m, cost), 0
	for r, c := range cost {
		if counts[r] > 0 || c <= end {
			continue
		}
		every := max(trialLeast, 1<<bits.Len64(uint64(trialShare*(c-end)/end)))
		if step%every == every-1 {
			list = append(list, r)
			if least == 0 || every < least {
				least = every
			}
		}
	}
	if most := max(1, m/2); len(list) > most {
		first := step / least % len(list)
		list = append(list[first:], list[:first]...)[:most]
	}
	return list
}

// costs fills in what is unknown. If nobody is to get work, all are.
func costs(work []int64) []int64 {
	least, some := int64(0), false
	for _, c := range work {
		some = some || c >= 0
		if c = min(c, maxCost); c > 0 && (least == 0 || c < least) {
			least = c
		}
	}
	cost := make([]int64, len(work))
	for r, c := range work {
		switch {
		case c > 0:
			cost[r] = min(c, maxCost)
		case c == 0 || !some:
			cost[r] = max(1, least)
		}
	}
	return cost
}

// finish is the earliest time at which m microbatches can be done.
func finish(m int, cost []int64) int64 {
	if m == 0 {
		return 0
	}
	quickest := int64(maxCost)
	for _, c := range cost {
		if c > 0 {
			quickest = min(quickest, c)
		}
	}
	lo, hi := int64(0), int64(m)*quickest // not enough, enough
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		n := int64(0)
		for _, c := range cost {
			if c > 0 {
				n += mid / c
			}
		}
		if n >= int64(m) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// last chooses those n who get one less, since at the moment end more are done than there are: of those that are done
// just then the slowest, taking turns.
func last(step int, end int64, n int, cost []int64) []int {
	groups := map[int64][]int{} // by cost: ranks
	var slowest []int64
	for r, c := range cost {
		if c > 0 && end%c == 0 {
			if groups[c] == nil {
				slowest = append(slowest, c)
			}
			groups[c] = append(groups[c], r)
		}
	}
	slices.Sort(slowest)
	slices.Reverse(slowest)
	var list []int
	for _, c := range slowest {
		g := groups[c]
		k := min(n-len(list), len(g))
		for i := range k {
			list = append(list, g[turn(step, k, i, len(g))])
		}
	}
	return list
}

// turn is (step*k + i) mod n, without overflow for a step that makes no sense.
func turn(step, k, i, n int) int {
	hi, lo := bits.Mul64(uint64(step), uint64(k))
	_, rest := bits.Div64(hi%uint64(n), lo, uint64(n))
	return (int(rest) + i) % n
}

// microbatches cuts a batch of n samples into slices of at most size: [lo, hi) pairs.
func microbatches(n, size int) [][2]int {
	list := make([][2]int, 0, n/max(size, 1)+1)
	for lo := 0; lo < n; lo += size {
		list = append(list, [2]int{lo, min(n, lo+size)})
	}
	return list
}
