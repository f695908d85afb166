package fsdp

import (
	"math/bits"

	"shoal/model"
)

// Granule is the number of elements at whose multiples a unit is cut among owners, counted from the beginning of each of
// the model's own units that it was made of. It is also a leaf of the state hash.
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

	trained, frozen []segment // by the model's own units, of which Wrap may have joined several
}

// segment is a piece of a unit's flat vector.
type segment struct{ off, n int }

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
	for i, u := range m.Units() {
		ul := UnitLayout{Name: u.Name}
		for _, part := range ownUnits(m, i, u.Params) {
			ul.trained = append(ul.trained, l.lay(&ul, ids, part, frozen, false))
		}
		ul.Trained = ul.Len
		for _, part := range ownUnits(m, i, u.Params) {
			ul.frozen = append(ul.frozen, l.lay(&ul, ids, part, frozen, true))
		}
		ul.Cuts = trained.cut(ul.trained)
		ul.FrozenCuts = still.cut(ul.frozen)
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

// lay appends those of the parameters that are frozen, or those that aren't, to the unit.
func (l *Layout) lay(u *UnitLayout, ids map[string]int, params []model.Param, frozen func(string) bool, want bool) segment {
	s := segment{off: u.Len}
	for _, p := range params {
		if (frozen != nil && frozen(p.Name)) != want {
			continue
		}
		ids[p.Name] = len(l.Tensors)
		u.Spans = append(u.Spans, Span{Tensor: len(l.Tensors), Off: u.Len, N: p.Len(), Param: p, Frozen: want})
		l.Tensors = append(l.Tensors, p.Name)
		u.Len += p.Len()
		s.n += p.Len()
	}
	return s
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

// vector is the trained or the frozen part of one of the model's own units, so that wrapping doesn't matter: what the
// state hash has a tree for.
type vector struct {
	segment
	unit int
	cuts []int // of the unit
}

// owned is the part [lo, hi) of the unit that lies in the vector and belongs to rank.
func (v *vector) owned(rank int) (lo, hi int) {
	within := func(x int) int { return min(max(x, v.off), v.off+v.n) }
	return within(v.cuts[rank]), within(v.cuts[rank+1])
}

// vectors lists the parts of all units, without empty ones but for a unit that has nothing at all.
func (l *Layout) vectors() []vector {
	var list []vector
	for i := range l.Units {
		u := &l.Units[i]
		for j := range u.trained {
			if u.trained[j].n > 0 || u.frozen[j].n == 0 {
				list = append(list, vector{u.trained[j], i, u.Cuts})
			}
			if u.frozen[j].n > 0 {
				list = append(list, vector{u.frozen[j], i, u.FrozenCuts})
			}
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

// cut divides segments that follow one another: rank r gets [cuts[r], cuts[r+1]), which may be empty.
func (c *cutter) cut(list []segment) []int {
	first, n := list[0].off, 0
	for _, s := range list {
		n += s.n
	}
	c.sum += n
	cuts := make([]int, len(c.weights)+1)
	cuts[0] = first
	var before uint64
	for r, w := range c.weights[:len(c.weights)-1] {
		before += uint64(w)
		due := scale(uint64(c.sum), before, c.total) - c.given[r+1]
		cuts[r+1] = max(cuts[r], nearest(list, first+due))
		c.given[r+1] += cuts[r+1] - first
	}
	cuts[len(c.weights)] = first + n
	return cuts
}

// nearest is the place nearest to at where the segments may be cut.
func nearest(list []segment, at int) int {
	for _, s := range list {
		if at < s.off+s.n {
			return s.off + min(s.n, roundTo(at-s.off, Granule))
		}
	}
	last := list[len(list)-1]
	return last.off + last.n
}

// scale is n*a/b, rounded down, without overflow for a <= b.
func scale(n, a, b uint64) int {
	hi, lo := bits.Mul64(n, a)
	q, _ := bits.Div64(hi, lo, b)
	return int(q)
}

// roundTo is the multiple of unit nearest to n, 0 for negative n.
func roundTo(n, unit int) int { return (max(n, 0) + unit/2) / unit * unit }
