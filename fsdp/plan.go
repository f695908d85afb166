package fsdp

// Share is the microbatches that one member computes in a step: [First, Last) of the global batch's list.
type Share struct{ First, Last int }

// Shares deals m microbatches of a step to members by weight. The fractions that are left over go round with the step,
// so that over many steps each member's part follows its weight. Only speed depends on the deal, never a result.
func Shares(step, m int, weights []int64) []Share {
	var total, sum uint64
	for _, w := range weights {
		total += uint64(w)
	}
	// A Weyl sequence (step times the golden ratio, mod 1) as a 16-bit fraction spreads the leftovers evenly.
	phase := uint64(step) * 40503 & 0xffff
	shares := make([]Share, len(weights))
	at := 0
	for r, w := range weights {
		sum += uint64(w)
		end := min(m, int((uint64(scale(uint64(m)<<16, sum, total))+phase)>>16))
		if r == len(weights)-1 {
			end = m
		}
		shares[r] = Share{at, end}
		at = end
	}
	return shares
}

// microbatches cuts a batch of n samples into slices of at most size: [lo, hi) pairs.
func microbatches(n, size int) [][2]int {
	var list [][2]int
	for lo := 0; lo < n; lo += size {
		list = append(list, [2]int{lo, min(n, lo+size)})
	}
	return list
}
