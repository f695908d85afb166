package place

import (
	"math/bits"
	"slices"
)

// dealer makes one map.
type dealer struct {
	ranges  []Range
	peers   []Peer
	stays   []bool // by rank: may hold something
	owns    []bool // by rank: may own something
	daemons bool   // one that stays is no browser
	backups int    // of each range
	total   int64  // elements
	m       Map
}

// Start is the first map: in each group every peer has one stretch of ranges, and what rounding to whole ranges gives it
// too much or too little is made up for in the groups that follow. The backups of what one peer owns are spread over all
// others, by weight.
func Start(ranges []Range, peers []Peer, backups int) Map {
	d := newDealer(ranges, peers, backups)
	if len(peers) > 0 {
		d.cut()
		d.improve(Map{})
	}
	return d.m
}

// Want is where things should be, given where they are. Owners stay when each has what is due to it by weight to within
// a fifth; otherwise as few ranges as possible change hands, those that the new owner holds already first. Holders stay
// as backups; what lacks backups gets those that have least. It is stable: what is wanted once everything is as wanted
// is the same, and Start is as wanted.
func Want(ranges []Range, peers []Peer, backups int, have Map) Map {
	d := newDealer(ranges, peers, backups)
	d.m = have.Clone()
	for i, owner := range have.Owner {
		if owner < 0 { // nobody has it, nobody can be given it
			d.total -= ranges[i].size()
		}
	}
	if len(peers) > 0 {
		d.improve(have)
	}
	return d.m
}

func newDealer(ranges []Range, peers []Peer, backups int) *dealer {
	d := &dealer{ranges: ranges, peers: peers, stays: make([]bool, len(peers)), owns: make([]bool, len(peers))}
	d.m = Map{Owner: slices.Repeat([]int{-1}, len(ranges)), Backups: make([][]int, len(ranges))}
	for _, r := range ranges {
		d.total += r.size()
	}
	staying := 0
	for r, p := range peers {
		if d.stays[r] = p.Keep; p.Keep {
			staying++
			d.daemons = d.daemons || !p.Browser
		}
	}
	if staying == 0 { // somebody has to hold it
		staying = len(peers)
		for r, p := range peers {
			d.stays[r] = true
			d.daemons = d.daemons || !p.Browser
		}
	}
	d.backups = staying - 1
	if backups != All {
		d.backups = min(max(backups, 0), d.backups)
	}
	for r, p := range peers {
		d.owns[r] = d.stays[r] && !(p.Browser && d.daemons && d.backups == 0)
	}
	return d
}

// shares divides n among the peers in may, by weight; equally when none of them has one.
func (d *dealer) shares(n int64, may []bool) []int64 {
	weight := d.weights(may)
	var total, before, given int64
	for _, w := range weight {
		total += w
	}
	share := make([]int64, len(weight))
	for r, w := range weight {
		before += w
		up := scale(n, before, total)
		share[r], given = up-given, up
	}
	return share
}

// weights are the weights of the peers in may and 0 for others; 1 for all of them when none has one.
func (d *dealer) weights(may []bool) []int64 {
	weight := make([]int64, len(d.peers))
	some := false
	for r, p := range d.peers {
		if may[r] {
			weight[r] = p.weight()
			some = some || weight[r] > 0
		}
	}
	for r := range weight {
		if !some && may[r] {
			weight[r] = 1
		}
	}
	return weight
}

// scale is n*a/b, rounded down, without overflow for a <= b.
func scale(n, a, b int64) int64 {
	if b == 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(n), uint64(a))
	q, _ := bits.Div64(hi, lo, uint64(b))
	return int64(q)
}

// cut gives every range of one group after another its first owner.
func (d *dealer) cut() {
	weight := d.weights(d.owns)
	var total, sum int64
	for _, w := range weight {
		total += w
	}
	given := make([]int64, len(weight)) // given[r]: elements before the end of rank r's stretch, in the groups so far
	for lo := 0; lo < len(d.ranges); {
		hi := lo
		for hi < len(d.ranges) && d.ranges[hi].Group == d.ranges[lo].Group {
			sum += d.ranges[hi].size()
			hi++
		}
		d.cutGroup(lo, hi, weight, total, sum, given)
		lo = hi
	}
}

func (d *dealer) cutGroup(lo, hi int, weight []int64, total, sum int64, given []int64) {
	at, passed, before := lo, int64(0), int64(0)
	for r, w := range weight {
		before += w
		due := scale(sum, before, total) - given[r]
		for w > 0 && at < hi && (2*passed+d.ranges[at].size() <= 2*due || before == total) {
			d.m.Owner[at] = r
			passed += d.ranges[at].size()
			at++
		}
		given[r] += passed
	}
}

// improve makes d.m as it should be. have tells where data are already.
func (d *dealer) improve(have Map) {
	d.evict()
	d.evenOwners(have)
	d.chooseBackups(have)
	d.evenBackups(have)
}

// loads is what each rank owns.
func (d *dealer) loads() []int64 {
	load := make([]int64, len(d.peers))
	for i, owner := range d.m.Owner {
		if owner >= 0 {
			load[owner] += d.ranges[i].size()
		}
	}
	return load
}

// evict takes what those own that may not, and gives it to the holder that lacks most, or whoever does.
func (d *dealer) evict() {
	load, share := d.loads(), d.shares(d.total, d.owns)
	for i, owner := range d.m.Owner {
		if owner < 0 || d.owns[owner] {
			continue
		}
		best := -1
		for r := range d.peers {
			if d.owns[r] && (best < 0 || d.prefer(i, r, best, load, share)) {
				best = r
			}
		}
		d.m.give(i, best)
		load[owner] -= d.ranges[i].size()
		load[best] += d.ranges[i].size()
	}
}

// prefer says whether rank a should rather become the owner of range i than b.
func (d *dealer) prefer(i, a, b int, load, share []int64) bool {
	if x, y := d.m.Holds(i, a), d.m.Holds(i, b); x != y {
		return x
	}
	return load[a]-share[a] < load[b]-share[b]
}

func (d *dealer) evenOwners(have Map) {
	owned := make([][]int, len(d.peers))
	for i, owner := range d.m.Owner {
		if owner >= 0 {
			owned[owner] = append(owned[owner], i)
		}
	}
	e := evener{ranges: d.ranges, may: d.owns, load: d.loads(), share: d.shares(d.total, d.owns), items: owned,
		fits: func(int, int, int) bool { return true },
		free: func(i, _, to int) bool { return len(have.Owner) > 0 && have.Holds(i, to) },
		move: func(i, _, to int) { d.m.give(i, to) }}
	e.run()
}
