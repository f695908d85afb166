package fsdp

import (
	"fmt"
	"slices"
)

// run is n elements of a unit, from element off on.
type run struct{ off, n int }

// placement is a view as the engine needs it.
type placement struct {
	View
	layout *Layout
	units  []unitPlace
}

// unitPlace is who owns what of a unit. What a rank gives in an all-gather are its runs one after another.
type unitPlace struct {
	owned      [][]run // by rank: trained ones, then frozen ones, each ascending
	trained    []int   // by rank: elements owned, without frozen ones
	all        []int   // by rank: elements owned
	everywhere bool    // every member holds all of it: it need not travel
}

// newPlacement checks what the log says.
func newPlacement(l *Layout, v *View) (*placement, error) {
	if v.Size < 1 || v.Rank < 0 || v.Rank >= v.Size || len(v.Owner) != len(l.Ranges) || len(v.Backups) != len(l.Ranges) {
		return nil, fmt.Errorf("fsdp: view %d: rank %d of %d members, %d owners and %d lists of backups, the model has %d ranges",
			v.Fence, v.Rank, v.Size, len(v.Owner), len(v.Backups), len(l.Ranges))
	}
	if v.NoFiles != nil && len(v.NoFiles) != v.Size {
		return nil, fmt.Errorf("fsdp: view %d tells of %d of %d members whether they keep files", v.Fence, len(v.NoFiles), v.Size)
	}
	p := &placement{View: *v, layout: l}
	p.Owner, p.Backups = slices.Clone(v.Owner), make([][]int, len(v.Backups))
	for i, list := range v.Backups {
		p.Backups[i] = slices.Sorted(slices.Values(list))
		for j, r := range append([]int{p.Owner[i]}, p.Backups[i]...) {
			if r < 0 || r >= v.Size || j > 0 && r == p.Owner[i] || j > 1 && r == p.Backups[i][j-2] {
				return nil, fmt.Errorf("fsdp: view %d: %s has owner %d and backups %v of %d members", v.Fence, l.name(i), p.Owner[i], list, v.Size)
			}
		}
	}
	for i := range l.Units {
		p.units = append(p.units, p.place(i))
	}
	return p, nil
}

func (p *placement) place(i int) unitPlace {
	u := &p.layout.Units[i]
	x := unitPlace{everywhere: true}
	for r := range p.Size {
		runs := p.runs(i, func(k int) bool { return p.Owner[k] == r })
		trained, all := 0, 0
		for _, x := range runs {
			if all += x.n; x.off < u.Trained {
				trained += x.n
			}
		}
		x.owned, x.trained, x.all = append(x.owned, runs), append(x.trained, trained), append(x.all, all)
	}
	for k := u.first; k < u.end; k++ {
		x.everywhere = x.everywhere && len(p.Backups[k]) == p.Size-1
	}
	return x
}

// runs joins the ranges of a unit that has names.
func (p *placement) runs(unit int, has func(k int) bool) []run {
	u := &p.layout.Units[unit]
	var list []run
	for k := u.first; k < u.end; k++ {
		if !has(k) {
			continue
		}
		r := p.layout.Ranges[k]
		if n := len(list); n > 0 && list[n-1].off+list[n-1].n == r.Off && r.Off != u.Trained {
			list[n-1].n += r.N
		} else {
			list = append(list, run{r.Off, r.N})
		}
	}
	return list
}

// backs says whether rank is a backup of range k.
func (p *placement) backs(k, rank int) bool {
	_, ok := slices.BinarySearch(p.Backups[k], rank)
	return ok
}

// holds says whether rank is a holder of range k.
func (p *placement) holds(k, rank int) bool { return p.Owner[k] == rank || p.backs(k, rank) }

// keeps says whether rank keeps its part of checkpoints.
func (p *placement) keeps(rank int) bool { return p.NoFiles == nil || !p.NoFiles[rank] }

// saver is the rank that saves range k: its owner, or a backup where that keeps no checkpoints; -1 where nobody does.
func (p *placement) saver(k int) int {
	for _, r := range append([]int{p.Owner[k]}, p.Backups[k]...) {
		if p.keeps(r) {
			return r
		}
	}
	return -1
}

// owned is the number of elements that the member owns.
func (p *placement) owned() int {
	n := 0
	for i := range p.units {
		n += p.units[i].all[p.Rank]
	}
	return n
}

// fill makes the receivers of fills backups, after the attempt was committed.
func (p *placement) fill(fills []Fill) {
	for _, f := range fills {
		if at, ok := slices.BinarySearch(p.Backups[f.Range], f.To); !ok {
			p.Backups[f.Range] = slices.Insert(p.Backups[f.Range], at, f.To)
		}
	}
	for _, f := range fills {
		i := p.layout.Ranges[f.Range].Unit
		p.units[i] = p.place(i)
	}
}

// wanted are the fills that have something to do: not to whom holds the range, and each once.
func (p *placement) wanted(fills []Fill) ([]Fill, error) {
	var list []Fill
	for _, f := range fills {
		if f.Range < 0 || f.Range >= len(p.Owner) || f.To < 0 || f.To >= p.Size {
			return nil, fmt.Errorf("fsdp: the log fills range %d to rank %d: there are %d ranges and %d members", f.Range, f.To, len(p.Owner), p.Size)
		}
		if !p.holds(f.Range, f.To) && !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	return list, nil
}
