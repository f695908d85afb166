package member

import (
	"fmt"
	"slices"

	"shoal/internal/place"
)

// plan is what the leader wants an entry to say about the attempt that begins.
type plan struct {
	c          *Core
	ids        []uint64 // of the view, in rank order
	have, want place.Map
	work       []int64
	fills      []place.Fill
	view       bool // a view begins
	rewant     bool // the view stays, and want changes
	reason     string
}

// planned is the plan that changes nothing; committed: the current attempt ends by a Commit, so its fills count and
// whoever was late computes again.
func (c *Core) planned(committed bool) *plan {
	p := &plan{c: c, ids: c.st.ViewIDs, have: c.st.have, want: c.st.want, work: c.st.Work}
	if committed {
		if len(c.st.fills) > 0 {
			p.have = p.have.Apply(c.st.fills)
		}
		p.work = slices.Clone(p.work)
		for i := range p.work {
			p.work[i] = max(p.work[i], 0)
		}
	}
	return p
}

// afresh is the plan for a view of members that all make, or read, what they are to hold.
func (c *Core) afresh(ids []uint64) *plan {
	p := &plan{c: c, view: true, ids: ids, work: make([]int64, len(ids))}
	peers := c.placePeers(ids)
	p.have = place.Start(c.st.ranges, peers, c.st.Backups)
	p.want = place.Want(c.st.ranges, peers, c.st.Backups, p.have)
	return p
}

// record is the plan as an entry behind the current fence.
func (p *plan) record(kind recordKind) *record {
	st := p.c.st
	r := &record{Kind: kind, Follows: st.Fence, Work: p.work, Fills: flatFills(p.fills)}
	if p.view {
		r.Number, r.IDs, r.Reason = st.Number+1, p.ids, text(p.reason)
		r.Have = encodeMap(p.have, len(p.ids))
	}
	if p.view || p.rewant {
		r.Want = encodeMap(p.want, len(p.ids))
	}
	return r
}

// placePeers is what the placement needs to know of members.
func (c *Core) placePeers(ids []uint64) []place.Peer {
	var peers []place.Peer
	for _, id := range ids {
		m, _ := c.st.find(id)
		peers = append(peers, place.Peer{Weight: m.Offer.Weight, Browser: m.Offer.Kind != "daemon", Keep: c.farewell(id) == ""})
	}
	return peers
}

// move changes the plan to a view of other members, unless that would lose a range; then it says so and does nothing.
// Members keep their order, and newcomers stand behind them, so that ranks change as little as possible.
func (p *plan) move(ids []uint64) bool {
	st, peers, rank := p.c.st, p.c.placePeers(ids), moves(p.ids, ids)
	have, lost := p.have.Survive(rank, peers, st.ranges)
	if len(lost) > 0 && !p.c.cfg.broken.dropLast || len(ids) == 0 {
		return false
	}
	for _, i := range lost { // if that rule is broken
		have.Owner[i] = 0
	}
	work := make([]int64, len(ids))
	for old, now := range rank {
		if now >= 0 {
			work[now] = p.work[old]
		}
	}
	if slices.Max(work) < 0 { // only those are left that were late
		clear(work)
	}
	p.ids, p.have, p.work, p.view = ids, have, work, true
	p.want = place.Want(st.ranges, peers, st.Backups, have)
	return true
}

// without is move to the same view without some members.
func (p *plan) without(gone []Member) bool {
	return p.move(slices.DeleteFunc(slices.Clone(p.ids), func(id uint64) bool {
		return slices.ContainsFunc(gone, func(m Member) bool { return m.ID == id })
	}))
}

// regroup does what waits for a Commit, so that no attempt is ever aborted for it (PROTOCOL.md 17): newcomers come in,
// members leave, owners change once everything is where it is wanted.
func (p *plan) regroup() {
	arrived, left := p.c.arrived(), p.leaving()
	switch {
	case len(arrived) > 0 || len(left) > 0:
		ids := slices.DeleteFunc(slices.Clone(p.ids), func(id uint64) bool { return slices.Contains(left, id) })
		p.move(append(ids, arrived...))
		p.reason = p.c.regrouped(arrived, left)
	case p.c.st.Number > 0 && len(place.Missing(p.have, p.want)) == 0 && !p.have.Equal(p.want):
		p.have, p.view, p.reason = place.Settle(p.have, p.want), true, "rebalance"
		p.want = place.Want(p.c.st.ranges, p.c.placePeers(p.ids), p.c.st.Backups, p.have)
	default:
		p.emptyOut()
	}
}

// emptyOut has what leaving members hold filled to others, so that they can go.
func (p *plan) emptyOut() {
	peers := p.c.placePeers(p.ids)
	for rank, peer := range peers {
		for i := range p.want.Owner {
			if !peer.Keep && p.want.Holds(i, rank) {
				want := place.Want(p.c.st.ranges, peers, p.c.st.Backups, p.have)
				p.rewant = !want.Equal(p.want)
				p.want = want
				return
			}
		}
	}
}

// arrived are members that are in no view yet and follow the log. Beats come too seldom to ask more of them than that they
// have applied their admission: steps may be shorter.
func (c *Core) arrived() (ids []uint64) {
	caughtUp := c.caughtUp()
	for _, m := range c.st.Members {
		p := c.peers[m.ID]
		here := p == nil || caughtUp[m.ID] && p.index >= c.st.Joined && !c.lost(p)
		if here && !c.lead.left[m.ID] && c.st.rank(m.ID) < 0 && c.farewell(m.ID) == "" {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// leaving are members of the view that want to leave and can: they vote no more, and others hold all that they hold.
func (p *plan) leaving() (ids []uint64) {
	for _, id := range p.ids {
		if p.c.farewell(id) == "" || p.c.votes(id) {
			continue
		}
		stay := slices.DeleteFunc(slices.Clone(p.ids), func(o uint64) bool { return o == id || slices.Contains(ids, o) })
		_, lost := p.have.Survive(moves(p.ids, stay), p.c.placePeers(stay), p.c.st.ranges)
		if len(lost) == 0 && len(stay) > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// regrouped says why a view begins with a Commit.
func (c *Core) regrouped(arrived, left []uint64) string {
	var what string
	for _, ids := range [][]uint64{arrived, left} {
		for _, id := range ids {
			m, _ := c.st.find(id)
			if what != "" {
				what += ", "
			}
			if why := c.farewell(id); why != "" {
				what += fmt.Sprintf("%s left: %s", c.st.name(id), why)
			} else {
				what += fmt.Sprintf("peer %s joined", m.Short())
			}
		}
	}
	return what
}

// fillElement is what a fill sends for one element: the parameter and both moments of AdamW.
const fillElement = 12 // bytes

// fill chooses what is sent in the next attempt: at least one range, beyond that as much as the pace allows.
func (p *plan) fill() {
	left := p.c.pace.budget
	for _, f := range place.Missing(p.have, p.want) {
		left -= fillElement * p.c.st.ranges[f.Range].Size
		if left < 0 && len(p.fills) > 0 || len(p.fills) == maxFills {
			return
		}
		p.fills = append(p.fills, f)
	}
}

// maxFills keeps an entry small.
const maxFills = 1 << 12
