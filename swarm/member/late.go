package member

import (
	"cmp"
	"slices"
)

const (
	firstBudget = 4 << 20 // bytes of fills in an attempt, to begin with
	mostBudget  = 1 << 40
	recentSteps = 8 // committed attempts by which a step is judged
	mostShift   = 6 // doublings of the deadline
)

// pace is how long attempts take, in the own ticks of this member.
type pace struct {
	since  uint64   // when the current attempt began
	recent []uint64 // what the last committed attempts took, the newest last
	plain  uint64   // what one without fills takes, smoothed, in sixteenths; 0: unknown
	budget int64    // bytes of fills in an attempt
}

func newPace() pace { return pace{budget: firstBudget} }

// measure takes in that the current attempt has ended.
func (c *Core) measure(kind EntryKind, filled bool) {
	took := c.tick - c.pace.since
	c.pace.since = c.tick
	if kind == EntryCommit {
		c.pace.committed(took, filled)
	}
}

// committed learns from an attempt how much may be filled in the next: more while fills cost less than a tenth of the
// time, less when they cost more than a fifth. Ticks are coarse, so one of them is nothing.
func (p *pace) committed(took uint64, filled bool) {
	p.recent = append(p.recent, took)
	p.recent = p.recent[max(0, len(p.recent)-recentSteps):]
	const tick = 16
	took *= tick
	switch {
	case !filled && p.plain == 0:
		p.plain = max(took, 1)
	case !filled:
		p.plain = max((3*p.plain+took)/4, 1)
	case p.plain == 0:
	case 10*took < 11*p.plain+10*tick:
		p.budget = min(2*p.budget, mostBudget)
	case 10*took > 12*p.plain+10*tick:
		p.budget = max(p.budget/2, 1)
	}
}

// deadline is how long an attempt may take; none before one was committed. It doubles with each try of a step
// (PROTOCOL.md 15).
func (t Timing) deadline(recent []uint64, tries int) (ticks uint64, ok bool) {
	if len(recent) == 0 {
		return 0, false
	}
	return max(uint64(t.Deadline), 3*slices.Max(recent)) << min(tries, mostShift), true
}

// overdue ends an attempt that has taken too long. First those at fault compute nothing in the next; if there is a second
// deadline in one step, the worst of them is removed. A new leader first lets everybody tell it how far they are.
func (c *Core) overdue() bool {
	limit, ok := c.cfg.Timing.deadline(c.pace.recent, c.st.Tries)
	fresh := c.tick-c.lead.since < uint64(c.cfg.Timing.Suspect)
	if !ok || fresh || c.busy() || c.tick-c.pace.since < limit || len(c.lostInView()) > 0 {
		return false
	}
	late := c.late()
	if len(late) == 0 {
		return false
	}
	return c.st.Lates > 0 && !c.lacksData(late[0]) && c.expel(late[0]) || c.passOver(late)
}

// lacksData says whether a rank still waits for its samples. Others may lack them as well: to remove it helps nobody.
func (c *Core) lacksData(rank int) bool {
	w := c.waits
	if p := c.peers[c.st.ViewIDs[rank]]; p != nil {
		w = p.waits
	}
	return w.fence == c.st.Fence && w.phase == "data"
}

// late are the ranks at fault for the current attempt's delay, the worst first; on ties one that doesn't vote, then the
// higher rank.
func (c *Core) late() []int {
	n := len(c.st.ViewIDs)
	ready, waits := make([]bool, n), make([][]int, n)
	for r, id := range c.st.ViewIDs {
		_, ready[r] = c.readyOf(id)
		w := c.waits
		if p := c.peers[id]; p != nil {
			w = p.waits
		}
		for _, other := range w.ids {
			if rank := c.st.rank(other); rank >= 0 && rank != r && w.fence == c.st.Fence {
				waits[r] = append(waits[r], rank)
			}
		}
	}
	late, blocks := culprits(ready, waits)
	slices.SortFunc(late, func(a, b int) int {
		return cmp.Or(
			ahead(c.st.Work[a] < 0, c.st.Work[b] < 0), // was late before
			cmp.Compare(blocks[b], blocks[a]),
			ahead(!c.votes(c.st.ViewIDs[a]), !c.votes(c.st.ViewIDs[b])),
			cmp.Compare(b, a))
	})
	return late
}

// ahead sorts those first for which something is so.
func ahead(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// culprits are those of n members that hold the others up: not ready, and waiting for nobody, or only for one another.
// Whoever waits for such a one is held up itself. blocks counts, for each, those that wait for it. While all are at work
// and nobody waits, nobody holds anybody up, however long it takes. A wait for one that is ready counts as none: the data
// were given, so it is as much a fault of the receiver.
func culprits(ready []bool, waits [][]int) (late, blocks []int) {
	n := len(ready)
	blocks = make([]int, n)
	reach := make([][]bool, n)
	for r := range n {
		reach[r] = make([]bool, n)
		for next := []int{r}; len(next) > 0 && !ready[r]; {
			at := next[0]
			next = next[1:]
			for _, o := range waits[at] {
				if !ready[o] && !reach[r][o] {
					reach[r][o] = true
					next = append(next, o)
				}
			}
		}
	}
	for r := range n {
		for o := range n {
			if o != r && (ready[o] || reach[o][r]) {
				blocks[r]++
			}
		}
	}
	for r := range n {
		fault := !ready[r] && blocks[r] > 0
		for o := range n {
			fault = fault && (!reach[r][o] || reach[o][r])
		}
		if fault {
			late = append(late, r)
		}
	}
	return late, blocks
}

// passOver proposes the same step again, in which those that are late compute nothing; the last of them does if there is
// nobody else.
func (c *Core) passOver(late []int) bool {
	p := c.planned(false)
	p.work = slices.Clone(p.work)
	for _, r := range late {
		was := p.work[r]
		p.work[r] = -1
		if slices.Max(p.work) < 0 {
			p.work[r] = max(was, 0)
		}
	}
	return c.proposeNext(p.record(recordLate))
}

// expel proposes a view without one member, if the log and the model can do without it. A leader that is at fault itself
// has another one lead, which will judge by itself.
func (c *Core) expel(rank int) bool {
	id := c.st.ViewIDs[rank]
	if id == c.cfg.ID {
		return c.abdicate()
	}
	m, _ := c.st.find(id)
	p := c.planned(false)
	if !c.expendable(id) || !p.without([]Member{m}) {
		return false
	}
	p.reason = c.st.name(id) + " held the others up"
	p.fill()
	return c.proposeNext(p.record(recordView))
}
