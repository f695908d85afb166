package wasm

import (
	"slices"
	"sort"
)

// arena shares out a range of addresses: the first hole that is large enough, and what is given back joins the holes beside
// it. A training step asks for the same sizes in the same order again and again, so holes don't crumble.
type arena struct {
	holes []span // ascending, none touches the next
	size  int64  // of all
	used  int64
}

// span is n bytes from address at on; both are multiples of align.
type span struct{ at, n int64 }

// align is a cache line, so that no two buffers share one.
const align = 64

func newArena(start, size int64) arena {
	at := roundUp(start)
	size = (start + size - at) / align * align
	if size <= 0 {
		return arena{}
	}
	return arena{holes: []span{{at, size}}, size: size}
}

func roundUp(n int64) int64 { return (n + align - 1) / align * align }

// take finds n bytes, or fails. An empty span has an address, too.
func (a *arena) take(n int64) (span, bool) {
	if n < 0 || n > a.size {
		return span{}, false
	}
	n = max(roundUp(n), align)
	for i, h := range a.holes {
		if h.n < n {
			continue
		}
		if h.n == n {
			a.holes = slices.Delete(a.holes, i, i+1)
		} else {
			a.holes[i] = span{h.at + n, h.n - n}
		}
		a.used += n
		return span{h.at, n}, true
	}
	return span{}, false
}

// give takes back what take has found.
func (a *arena) give(s span) {
	a.used -= s.n
	i := sort.Search(len(a.holes), func(i int) bool { return a.holes[i].at > s.at })
	before := i > 0 && a.holes[i-1].at+a.holes[i-1].n == s.at
	after := i < len(a.holes) && s.at+s.n == a.holes[i].at
	switch {
	case before && after:
		a.holes[i-1].n += s.n + a.holes[i].n
		a.holes = slices.Delete(a.holes, i, i+1)
	case before:
		a.holes[i-1].n += s.n
	case after:
		a.holes[i] = span{s.at, s.n + a.holes[i].n}
	default:
		a.holes = slices.Insert(a.holes, i, s)
	}
}
