package fsdp

import (
	"math/bits"

	"shoal/model"
)

// Granule is the number of elements at whose multiples a unit is cut among owners. It is also a leaf of the state hash.
const Granule = 256

// Layout maps every parameter to a place in its unit's flat vector, and every element of it to an owner. It is the only
// such mapping there is.
type Layout struct {
	Units   []UnitLayout
	Tensors []string // names, in unit order: the order of exponents and sums of squares
	uses    int      // most stages that share one tensor
	stages  [][]int  // per stage: tensor ids
}

// UnitLayout is the flat vector of one unit: its tensors one after another, the frozen ones last. Both parts are cut into
// one interval per rank.
type UnitLayout struct {
	Name       string
	Len        int    // elements
	Trained    int    // elements before the frozen ones
	Spans      []Span // one per tensor, ascending, without gaps
	Cuts       []int  // rank r owns [Cuts[r], Cuts[r+1]) of the trained elements ...
	FrozenCuts []int  // ... and [FrozenCuts[r], FrozenCuts[r+1]) of the frozen ones
}

// Owned is the number of elements that rank owns.
func (u *UnitLayout) Owned(rank int) int {
	return u.Cuts[rank+1] - u.Cuts[rank] + u.FrozenCuts[rank+1] - u.FrozenCuts[rank]
}

// Span is where a tensor lies in its unit.
type Span struct {
	Tensor int // index into Layout.Tensors
	Off, N int
	Param  model.Param
	Frozen bool
}

// NewLayout lays out m for owners of the given memory weights. frozen says which parameters, by name, never change; nil
// means none.
func NewLayout(m model.Model, weights []int64, frozen func(name string) bool) *Layout {
	l := &Layout{}
	ids := map[string]int{}
	trained, still := newCutter(weights), newCutter(weights)
	for _, u := range m.Units() {
		ul := UnitLayout{Name: u.Name}
		for _, part := range []bool{false, true} {
			for _, p := range u.Params {
				if (frozen != nil && frozen(p.Name)) != part {
					continue
				}
				ids[p.Name] = len(l.Tensors)
				ul.Spans = append(ul.Spans, Span{Tensor: len(l.Tensors), Off: ul.Len, N: p.Len(), Param: p, Frozen: part})
				l.Tensors = append(l.Tensors, p.Name)
				ul.Len += p.Len()
			}
			if !part {
				ul.Trained = ul.Len
			}
		}
		ul.Cuts = trained.cut(ul.Trained)
		ul.FrozenCuts = still.cut(ul.Len - ul.Trained)
		for r := range ul.FrozenCuts {
			ul.FrozenCuts[r] += ul.Trained
		}
		l.Units = append(l.Units, ul)
	}
	uses := make([]int, len(l.Tensors))
	for _, s := range m.Stages() {
		var t []int
		for _, name := range s.Params {
			t = append(t, ids[name])
			uses[ids[name]]++
			l.uses = max(l.uses, uses[ids[name]])
		}
		l.stages = append(l.stages, t)
	}
	return l
}

// Parameters is the number of elements of the whole model.
func (l *Layout) Parameters() int {
	n := 0
	for _, u := range l.Units {
		n += u.Len
	}
	return n
}

// Owned is the number of elements that rank owns.
func (l *Layout) Owned(rank int) int {
	n := 0
	for i := range l.Units {
		n += l.Units[i].Owned(rank)
	}
	return n
}

// vector is the trained or the frozen part of a unit: what the state hash has a tree for.
type vector struct {
	unit   int
	off, n int // in the unit
	cuts   []int
}

// vectors lists the parts of all units, without empty ones but for a unit that has nothing at all.
func (l *Layout) vectors() []vector {
	var list []vector
	for i := range l.Units {
		u := &l.Units[i]
		if u.Trained > 0 || u.Len == 0 {
			list = append(list, vector{i, 0, u.Trained, u.Cuts})
		}
		if u.Trained < u.Len {
			list = append(list, vector{i, u.Trained, u.Len - u.Trained, u.FrozenCuts})
		}
	}
	return list
}

// span finds the tensor in the unit.
func (u *UnitLayout) span(tensor int) Span { return u.Spans[tensor-u.Spans[0].Tensor] }

// within calls f for the part of each tensor that lies in [lo, hi): n elements that start at off in the unit.
func (u *UnitLayout) within(lo, hi int, f func(s Span, off, n int)) {
	for _, s := range u.Spans {
		a, b := max(lo, s.Off), min(hi, s.Off+s.N)
		if a < b {
			f(s, a, b-a)
		}
	}
}

// cutter divides one unit after another by weight at multiples of Granule. What rounding gives a rank too much or too
// little in one unit is made up for in the next, so that shares follow the weights though units may be small.
type cutter struct {
	weights []int64
	total   uint64
	sum     int   // elements of the units so far
	given   []int // given[r]: elements before rank r's cut in the units so far
}

func newCutter(weights []int64) *cutter {
	c := &cutter{weights: weights, given: make([]int, len(weights)+1)}
	for _, w := range weights {
		c.total += uint64(w)
	}
	return c
}

// cut divides n elements: rank r gets [cuts[r], cuts[r+1]), which may be empty.
func (c *cutter) cut(n int) []int {
	c.sum += n
	cuts := make([]int, len(c.weights)+1)
	var before uint64
	for r, w := range c.weights[:len(c.weights)-1] {
		before += uint64(w)
		due := scale(uint64(c.sum), before, c.total) - c.given[r+1]
		cuts[r+1] = min(n, max(cuts[r], roundTo(due, Granule)))
		c.given[r+1] += cuts[r+1]
	}
	cuts[len(c.weights)] = n
	return cuts
}

// scale is n*a/b, rounded down, without overflow for a <= b.
func scale(n, a, b uint64) int {
	hi, lo := bits.Mul64(n, a)
	q, _ := bits.Div64(hi, lo, b)
	return int(q)
}

// roundTo is the multiple of unit nearest to n, 0 for negative n.
func roundTo(n, unit int) int { return (max(n, 0) + unit/2) / unit * unit }
