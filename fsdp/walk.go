package fsdp

// visit is one stage computed for all of a member's microbatches.
type visit struct {
	stage    int
	unit     int
	backward bool
	release  bool // the unit is dropped afterwards
	finish   bool // backward: the unit's gradient is whole afterwards
}

// walk is the order of an attempt: which stages are computed, and which units are gathered for them, the next one
// always ahead of time. It is the same on every member.
type walk struct {
	visits  []visit
	gathers []int // units in the order in which they are gathered
}

// newWalk goes through the stages forward and, for training, backward. units[s] is stage s's unit. The root unit stays
// gathered from its first use to its last; any other unit is dropped when the walk leaves it, or, if keep is set, when
// its backward visit is over. So at most the root and two other units are held at once, unless keep is set.
func newWalk(units []int, training, keep bool) walk {
	var w walk
	for s, u := range units {
		w.visits = append(w.visits, visit{stage: s, unit: u})
	}
	if training {
		for s := len(units) - 1; s >= 0; s-- {
			w.visits = append(w.visits, visit{stage: s, unit: units[s], backward: true})
		}
	}
	held, last := map[int]bool{}, map[int]int{}
	for i := range w.visits {
		v := &w.visits[i]
		last[v.unit] = i
		if !held[v.unit] {
			held[v.unit] = true
			w.gathers = append(w.gathers, v.unit)
		}
		if v.unit != 0 && w.leaves(i) && (v.backward || !training || !keep) {
			v.release = true
			held[v.unit] = false
		}
	}
	for u, i := range last {
		w.visits[i].finish = training
		if u == 0 || keep {
			w.visits[i].release = true
		}
	}
	return w
}

// leaves says whether the next visit that is not to the root goes to another unit than visit i.
func (w *walk) leaves(i int) bool {
	for _, v := range w.visits[i+1:] {
		if v.unit != 0 {
			return v.unit != w.visits[i].unit
		}
	}
	return true
}
