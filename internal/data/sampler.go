package data

import "math/bits"

// rounds of the Feistel network. Four make a pseudorandom permutation of large domains (Luby and Rackoff 1988); more
// cost nothing here and help the small ones.
const rounds = 8

// minHalf is the least width in bits of half an index. Networks on narrower halves reach too few permutations.
const minHalf = 4

// A shuffle is one epoch's order of the n samples: a keyed permutation of [0, n) in constant memory. It is a Feistel
// network on the smallest suitable power of 4, walked until it lands below n (Black and Rogaway 2002, "Ciphers with
// Arbitrary Finite Domains").
type shuffle struct {
	n    uint64
	half uint // width of half an index in bits
	keys [rounds]uint64
}

func newShuffle(seed uint64, epoch, n int) shuffle {
	s := shuffle{n: uint64(n), half: max(minHalf, uint(bits.Len64(uint64(n)-1)+1)/2)}
	key := mix(mix(seed) ^ uint64(epoch))
	for r := range s.keys {
		s.keys[r] = mix(key + uint64(r)*golden)
	}
	return s
}

// at is the sample at position i of the order.
func (s *shuffle) at(i uint64) uint64 {
	for {
		if i = s.network(i); i < s.n {
			return i
		}
	}
}

// network permutes [0, 2^(2*half)).
func (s *shuffle) network(i uint64) uint64 {
	mask := uint64(1)<<s.half - 1
	left, right := i>>s.half, i&mask
	for _, key := range s.keys {
		left, right = right, left^mix(right+key)&mask
	}
	return left<<s.half | right
}

// StepsPerEpoch is the number of global batches that hold n samples once; the last one may be short.
func StepsPerEpoch(n, batch int) int {
	if n < 1 || batch < 1 {
		return 0
	}
	return (n-1)/batch + 1
}

// Batch is the global batch of a step (from 0) over a data set of n samples: a slice of its epoch's order, which the
// seed and the epoch decide. An epoch's last batch is the shorter rest; a data set smaller than batch is a batch of n.
// Without samples (n or batch below 1, a negative step) the batch is empty.
func Batch(seed uint64, n, batch, step int) (epoch int, indices []int) {
	if n < 1 || batch < 1 || step < 0 {
		return 0, nil
	}
	steps := StepsPerEpoch(n, batch)
	epoch = step / steps
	first := step % steps * batch
	order := newShuffle(seed, epoch, n)
	indices = make([]int, min(batch, n-first))
	for i := range indices {
		indices[i] = int(order.at(uint64(first + i)))
	}
	return epoch, indices
}
