package wasm

import (
	"math/rand/v2"
	"testing"
)

// TestArena: what is taken lies inside, aligned, and overlaps nothing else that is taken; when all is given back there is one
// hole again, as large as at first.
func TestArena(t *testing.T) {
	const start, size = 1000, 1 << 20
	a := newArena(start, size)
	whole := a.holes[0]
	if whole.at%align != 0 || whole.at < start || whole.at+whole.n > start+size || whole.n < size-2*align {
		t.Fatalf("the arena is %+v", whole)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var live []span
	full := 0
	for range 20_000 {
		if len(live) > 0 && r.IntN(2) == 0 {
			i := r.IntN(len(live))
			a.give(live[i])
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
			continue
		}
		n := int64(r.IntN(1 << r.IntN(18)))
		s, ok := a.take(n)
		if !ok {
			full++
			continue
		}
		if s.n < n || s.at%align != 0 || s.at < whole.at || s.at+s.n > whole.at+whole.n {
			t.Fatalf("take(%d) = %+v", n, s)
		}
		for _, o := range live {
			if s.at < o.at+o.n && o.at < s.at+s.n {
				t.Fatalf("%+v overlaps %+v", s, o)
			}
		}
		live = append(live, s)
	}
	if full == 0 {
		t.Error("the arena was never full: the test is too small")
	}
	for _, s := range live {
		a.give(s)
	}
	if len(a.holes) != 1 || a.holes[0] != whole || a.used != 0 {
		t.Errorf("after all: %+v, %d used", a.holes, a.used)
	}
	for _, n := range []int64{-1, whole.n + 1, 1 << 62} {
		if s, ok := a.take(n); ok {
			t.Errorf("take(%d) = %+v", n, s)
		}
	}
	if _, ok := a.take(whole.n); !ok {
		t.Error("all of it at once: not found")
	}
}

// TestArenaTooSmall: an arena that has room for nothing gives nothing.
func TestArenaTooSmall(t *testing.T) {
	for _, size := range []int64{-5, 0, 63, 64} {
		a := newArena(1, size)
		if s, ok := a.take(1); ok {
			t.Errorf("of %d bytes: %+v", size, s)
		}
	}
}
