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

// UnitLayout is the flat vector of one unit: its tensors one after another, cut into one interval per rank.
type UnitLayout struct {
	Name  string
	Len   int    // elements
	Spans []Span // one per tensor, ascending, without gaps
	Cuts  []int  // rank r owns [Cuts[r], Cuts[r+1])
}

// Span is where a tensor lies in its unit.
type Span struct {
	Tensor int // index into Layout.Tensors
	Off, N int
	Param  model.Param
}

// NewLayout lays out m for owners of the given memory weights.
func NewLayout(m model.Model, weights []int64) *Layout {
	l := &Layout{}
	ids := map[string]int{}
	for _, u := range m.Units() {
		ul := UnitLayout{Name: u.Name}
		for _, p := range u.Params {
			ids[p.Name] = len(l.Tensors)
			ul.Spans = append(ul.Spans, Span{Tensor: len(l.Tensors), Off: ul.Len, N: p.Len(), Param: p})
			l.Tensors = append(l.Tensors, p.Name)
			ul.Len += p.Len()
		}
		ul.Cuts = cut(ul.Len, weights)
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
	for _, u := range l.Units {
		n += u.Cuts[rank+1] - u.Cuts[rank]
	}
	return n
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

// cut divides n elements by weight at multiples of Granule, to the nearest. Any interval may be empty.
func cut(n int, weights []int64) []int {
	var total, sum uint64
	for _, w := range weights {
		total += uint64(w)
	}
	cuts := make([]int, len(weights)+1)
	for r, w := range weights {
		sum += uint64(w)
		cuts[r+1] = min(n, roundTo(scale(uint64(n), sum, total), Granule))
	}
	cuts[len(weights)] = n
	return cuts
}

// scale is n*a/b, rounded down, without overflow for a <= b.
func scale(n, a, b uint64) int {
	hi, lo := bits.Mul64(n, a)
	q, _ := bits.Div64(hi, lo, b)
	return int(q)
}

func roundTo(n, unit int) int { return (n + unit/2) / unit * unit }
