package fsdp

import (
	"fmt"

	"shoal/model"
)

// Granule is the number of elements at whose multiples a unit is cut into ranges, counted from the beginning of each of
// the model's own units that it was made of. It is also a leaf of the state hash.
const Granule = 256

// maxRanges is the most ranges that one vector is cut into.
const maxRanges = 64

// Layout maps every parameter to a place in its unit's flat vector, and cuts the vectors into ranges, which a View's
// members own and back up. It depends on the model alone, and is the only such mapping there is.
type Layout struct {
	Units   []UnitLayout
	Ranges  []Range  // in the order of units, and of elements in a unit
	Tensors []string // names, in unit order: the order of exponents and sums of squares
	uses    int      // most stages that share one tensor
	stages  [][]int  // per stage: tensor ids
}

// Range is a piece of a unit's flat vector: N elements from element Off on, all of them trained or all of them frozen.
type Range struct {
	Unit, Off, N int
	Frozen       bool
}

// UnitLayout is the flat vector of one unit: its tensors one after another, the frozen ones last.
type UnitLayout struct {
	Name    string
	Len     int    // elements
	Trained int    // elements before the frozen ones
	Spans   []Span // one per tensor, ascending, without gaps

	first, end      int       // its ranges are [first, end) of Layout.Ranges
	trained, frozen []segment // by the model's own units, of which Wrap may have joined several
}

// segment is a piece of a unit's flat vector.
type segment struct{ off, n int }

// Span is where a tensor lies in its unit.
type Span struct {
	Tensor int // index into Layout.Tensors
	Off, N int
	Param  model.Param
	Frozen bool
}

// NewLayout lays out m. frozen says which parameters, by name, never change; nil means none.
func NewLayout(m model.Model, frozen func(name string) bool) *Layout {
	l := &Layout{}
	ids := map[string]int{}
	for i, u := range m.Units() {
		ul := UnitLayout{Name: u.Name, first: len(l.Ranges)}
		for _, part := range ownUnits(m, i, u.Params) {
			ul.trained = append(ul.trained, l.lay(&ul, ids, part, frozen, false))
		}
		ul.Trained = ul.Len
		for _, part := range ownUnits(m, i, u.Params) {
			ul.frozen = append(ul.frozen, l.lay(&ul, ids, part, frozen, true))
		}
		for _, s := range ul.trained {
			l.cut(i, s, false)
		}
		for _, s := range ul.frozen {
			l.cut(i, s, true)
		}
		ul.end = len(l.Ranges)
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

// cut divides a segment into ranges of whole granules, as even as can be. They are the same however Wrap joins units.
func (l *Layout) cut(unit int, s segment, frozen bool) {
	granules := leaves(s.n)
	k := min(maxRanges, granules)
	at := 0
	for i := 1; i <= k; i++ {
		end := min(s.n, granules*i/k*Granule)
		l.Ranges = append(l.Ranges, Range{Unit: unit, Off: s.off + at, N: end - at, Frozen: frozen})
		at = end
	}
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

// name says in words which part of the model range i is.
func (l *Layout) name(i int) string {
	r := l.Ranges[i]
	return fmt.Sprintf("range %d (unit %s, elements %d to %d)", i, l.Units[r.Unit].Name, r.Off, r.Off+r.N)
}

// vector is the trained or the frozen part of one of the model's own units, so that wrapping doesn't matter: what the
// state hash has a tree for.
type vector struct {
	segment
	unit int
}

// vectors lists the parts of all units, without empty ones but for a unit that has nothing at all.
func (l *Layout) vectors() []vector {
	var list []vector
	for i := range l.Units {
		u := &l.Units[i]
		for j := range u.trained {
			if u.trained[j].n > 0 || u.frozen[j].n == 0 {
				list = append(list, vector{u.trained[j], i})
			}
			if u.frozen[j].n > 0 {
				list = append(list, vector{u.frozen[j], i})
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
