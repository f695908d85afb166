package cpu

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

func TestSplitCoversEveryItemOnce(t *testing.T) {
	for _, size := range []int{1, 2, 5} {
		c := newCrew(size)
		for _, total := range []int{0, 1, 2, 7, 100, 1001} {
			for _, grain := range []int{0, 1, 10, 5000} {
				seen := make([]atomic.Int32, total)
				c.split(total, grain, taskFunc(func(w, lo, hi int) {
					if w < 0 || w >= size || lo >= hi {
						t.Errorf("piece %d..%d by worker %d of %d", lo, hi, w, size)
					}
					for i := lo; i < hi; i++ {
						seen[i].Add(1)
					}
				}))
				for i := range seen {
					if n := seen[i].Load(); n != 1 {
						t.Fatalf("size %d, total %d, grain %d: item %d done %d times", size, total, grain, i, n)
					}
				}
			}
		}
		c.stop()
	}
}

// A worker's scratch belongs to it: no two pieces run on one worker at the same time.
func TestWorkersAreExclusive(t *testing.T) {
	c := newCrew(4)
	defer c.stop()
	var busy [4]atomic.Int32
	for range 200 {
		c.split(64, 1, taskFunc(func(w, _, _ int) {
			if busy[w].Add(1) != 1 {
				t.Error("two pieces on one worker")
			}
			runtime.Gosched()
			busy[w].Add(-1)
		}))
	}
}

// addAll adds to each item.
type addAll struct {
	to []int32
	n  int32
}

func (a *addAll) do(_, lo, hi int) {
	for i := lo; i < hi; i++ {
		a.to[i] += a.n
	}
}

// Helpers come when they like here: in the midst of an op, long after the one that they were woken for, while the next one is
// prepared. What they do is always a part of the op that runs.
func TestHelpersThatComeLate(t *testing.T) {
	c := &crew{size: 3, shares: make([]share, 3), done: make(chan struct{}, 1)}
	var over atomic.Bool
	var helpers sync.WaitGroup
	for w := 1; w < c.size; w++ {
		helpers.Go(func() {
			for !over.Load() {
				c.work(w)
				runtime.Gosched()
			}
		})
	}
	var op addAll
	got, want := make([]int32, 50), make([]int32, 50)
	for i := range 20_000 {
		n := i % len(got)
		op = addAll{got[:n], int32(i)}
		c.split(n, 1, &op)
		op = addAll{}
		for k := range n {
			want[k] += int32(i)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("after op %d: %v, want %v", i, got, want)
		}
	}
	over.Store(true)
	helpers.Wait()
}

func TestSplitAllocatesNothing(t *testing.T) {
	for _, size := range []int{1, 2, 5} {
		c := newCrew(size)
		op := addAll{make([]int32, 100), 1}
		if n := testing.AllocsPerRun(1000, func() { c.split(100, 1, &op) }); n > 0 {
			t.Errorf("%d workers: %v allocations", size, n)
		}
		c.stop()
	}
}

func TestGridCoversTheMatrix(t *testing.T) {
	for _, size := range []int{1, 2, 3, 16} {
		o := &ops{crew: &crew{size: size}}
		for _, s := range [][3]int{{1, 1, 1}, {1, 4096, 4096}, {4096, 1, 4096}, {1088, 64, 192}, {64, 64, 100_000}, {5, 7, 0}} {
			down, across := o.grid(s[0], s[1], s[2])
			if down < 1 || down > s[0] || across < 1 || across > s[1] {
				t.Errorf("%d workers: %v is cut into %d x %d", size, s, down, across)
			}
			last := 0
			for i := range down {
				lo, hi := cut(s[0], down, i)
				if lo != last || hi <= lo {
					t.Errorf("%v: part %d of %d is %d..%d", s, i, down, lo, hi)
				}
				last = hi
			}
		}
	}
}
