package place

// chooseBackups gives every range the backups that it is to have: those who hold it already, as far as they are not too
// many, then others.
func (d *dealer) chooseBackups(have Map) {
	c := d.newChooser(have)
	for i := range d.m.Owner {
		for len(d.m.Backups[i]) > d.backups {
			c.less(i)
		}
	}
	for i, owner := range d.m.Owner {
		if owner < 0 {
			continue
		}
		for len(d.m.Backups[i]) < d.backups {
			c.more(i, len(d.m.Backups[i]) == d.backups-1 && !d.safe(i))
		}
		if d.backups > 0 && !d.safe(i) {
			c.less(i)
			c.more(i, true)
		}
	}
}

// safe says whether range i is not left to browsers alone, or there are no others.
func (d *dealer) safe(i int) bool { return !d.daemons || d.daemonsBut(i, -1) > 0 }

// daemonsBut counts the holders of range i, beside rank but, that are no browsers.
func (d *dealer) daemonsBut(i, but int) int {
	n := 0
	if o := d.m.Owner[i]; o != but && !d.peers[o].Browser {
		n++
	}
	for _, b := range d.m.Backups[i] {
		if b != but && !d.peers[b].Browser {
			n++
		}
	}
	return n
}

// chooser keeps count of what each rank holds while backups are chosen.
type chooser struct {
	*dealer
	weight []int64
	held   []int64   // by rank: elements, as owner or backup
	share  []int64   // by rank: what is due to it of that
	pair   [][]int64 // [a][b]: elements that a owns and b backs up
}

// newChooser begins with all that stay and hold something as backups, old owners included.
func (d *dealer) newChooser(have Map) *chooser {
	c := &chooser{dealer: d, weight: d.weights(d.stays), held: d.loads(), share: d.shares(d.total*int64(d.backups+1), d.stays)}
	c.pair = make([][]int64, len(d.peers))
	for r := range c.pair {
		c.pair[r] = make([]int64, len(d.peers))
	}
	for i, owner := range d.m.Owner {
		if d.m.Backups[i] = nil; owner < 0 || len(have.Owner) == 0 {
			continue
		}
		for h := range have.Holders(i) {
			if d.stays[h] && h != owner {
				c.add(i, h)
			}
		}
	}
	return c
}

func (c *chooser) add(i, rank int) {
	c.m.add(i, rank)
	c.held[rank] += c.ranges[i].size()
	c.pair[c.m.Owner[i]][rank] += c.ranges[i].size()
}

// less drops the backup of range i that holds most beyond its share, but not the last one that is no browser.
func (c *chooser) less(i int) {
	worst := -1
	for _, b := range c.m.Backups[i] {
		if c.daemons && !c.peers[b].Browser && c.daemonsBut(i, b) == 0 && len(c.m.Backups[i]) > 1 {
			continue
		}
		if worst < 0 || c.held[b]-c.share[b] >= c.held[worst]-c.share[worst] {
			worst = b
		}
	}
	c.m.drop(i, worst)
	c.held[worst] -= c.ranges[i].size()
	c.pair[c.m.Owner[i]][worst] -= c.ranges[i].size()
}

// more gives range i one more backup: the rank that backs up least of this owner for its weight, so that the load of one
// that dies falls on all others; of these, the one that holds least.
func (c *chooser) more(i int, daemon bool) {
	best, owner := -1, c.m.Owner[i]
	for n := range c.peers {
		r := (owner + 1 + n) % len(c.peers)
		if !c.stays[r] || c.m.Holds(i, r) || daemon && c.peers[r].Browser {
			continue
		}
		if best < 0 || c.fitter(owner, r, best) {
			best = r
		}
	}
	c.add(i, best)
}

func (c *chooser) fitter(owner, a, b int) bool {
	if d := perWeight(c.pair[owner][a], c.weight[a], c.pair[owner][b], c.weight[b]); d != 0 {
		return d < 0
	}
	return perWeight(c.held[a], c.weight[a], c.held[b], c.weight[b]) < 0
}

// evenBackups moves backups from ranks that hold more than their share to ranks that hold less.
func (d *dealer) evenBackups(have Map) {
	staying := 0
	for _, s := range d.stays {
		if s {
			staying++
		}
	}
	if d.backups == 0 || d.backups == staying-1 {
		return // nothing to choose
	}
	items, held := make([][]int, len(d.peers)), d.loads()
	for i, list := range d.m.Backups {
		for _, b := range list {
			items[b] = append(items[b], i)
			held[b] += d.ranges[i].size()
		}
	}
	e := evener{ranges: d.ranges, may: d.stays, load: held, share: d.shares(d.total*int64(d.backups+1), d.stays), items: items,
		fits: func(i, from, to int) bool {
			return !d.m.Holds(i, to) && (!d.peers[to].Browser || !d.daemons || d.daemonsBut(i, from) > 0)
		},
		free: func(i, from, to int) bool {
			return len(have.Owner) > 0 && (have.Holds(i, to) || !have.Holds(i, from))
		},
		move: func(i, from, to int) { d.m.drop(i, from); d.m.add(i, to) }}
	e.run()
}
