package fsdp

import (
	"fmt"
	"slices"

	"shoal/internal/place"
)

// What a LocalMesh's log says: here is what the leader of a real mesh does.

// peers describes members, by rank.
func (m *LocalMesh) peers(view []int) []place.Peer {
	var list []place.Peer
	for _, i := range view {
		list = append(list, m.members[i].peer)
	}
	return list
}

// append adds an entry to the log, which ends the attempt. view says whether it begins m.view, with m.have. The lock is
// held.
func (m *LocalMesh) append(e Entry, view bool) {
	limit := m.FillRanges
	if limit == 0 {
		limit = 8
	}
	e.Fence, e.Payload = uint64(len(m.log)), m.prev
	missing := place.Missing(m.have, m.want)
	for _, f := range missing[:min(limit, len(missing))] {
		e.Fills = append(e.Fills, Fill{f.Range, f.To})
	}
	x := localEntry{Entry: e}
	if view {
		have := m.have.Clone()
		x.view = slices.Clone(m.view)
		x.View = &View{Fence: e.Fence, Size: len(m.view), Owner: have.Owner, Backups: have.Backups}
	}
	m.log = append(m.log, x)
	clear(m.readies)
	clear(m.shards)
	for _, member := range m.members {
		if member.cancel != nil {
			member.cancel(errEnded)
		}
	}
	m.changed.Broadcast()
}

// newest is the end of the log as one entry, for whoever missed some.
func (m *LocalMesh) newest() localEntry {
	x := m.log[len(m.log)-1]
	x.Kind = EntryView
	for i := len(m.log) - 1; x.View == nil; i-- {
		x.View, x.view = m.log[i].View, m.log[i].view
	}
	if kind := m.log[len(m.log)-1].Kind; kind == EntryDone {
		x.Kind = kind
	}
	view := *x.View
	view.Owner, view.Backups = m.have.Clone().Owner, m.have.Clone().Backups
	x.View = &view
	return x
}

// entry is x as a member sees it.
func (m *LocalMesh) entry(x localEntry, member int) Entry {
	e := x.Entry
	if x.View != nil {
		v := *x.View
		v.Rank = slices.Index(x.view, member)
		v.NoFiles = make([]bool, v.Size)
		for r, id := range x.view {
			v.NoFiles[r] = slices.Contains(m.NoFiles, id)
		}
		e.View = &v
	}
	return e
}

// end ends an attempt for which all are ready.
func (m *LocalMesh) end() {
	var list [][]byte
	for _, i := range m.view {
		list = append(list, m.readies[i])
	}
	last := m.log[len(m.log)-1]
	kind, payload, work, err := m.decide(m.prev, last.Work, list)
	if err != nil {
		m.fail(err)
		return
	}
	m.prev = payload
	entry := Entry{Kind: kind, Work: work}
	if kind != EntryCommit {
		m.append(entry, false)
		return
	}
	var fills []place.Fill
	for _, f := range last.Fills {
		fills = append(fills, place.Fill{Range: f.Range, To: f.To})
	}
	m.have = m.have.Apply(fills)
	view := m.settle()
	if i := slices.IndexFunc(m.view, m.left); i >= 0 {
		m.remove(m.view[i])
		entry.Work, view = slices.Delete(work, i, i+1), true
	}
	if len(m.joining) > 0 {
		m.view = append(slices.Clone(m.view), m.joining...)
		entry.Work, view = append(entry.Work, make([]int64, len(m.joining))...), true
		m.joining = nil
	}
	m.want = place.Want(m.ranges, m.peers(m.view), m.backups, m.want)
	m.append(entry, view)
}

// settle makes what was wanted so once everything is where it is wanted.
func (m *LocalMesh) settle() bool {
	if len(place.Missing(m.have, m.want)) > 0 || m.have.Equal(m.want) {
		return false
	}
	m.have = m.want.Clone()
	return true
}

// left says whether a member that wants to leave holds nothing any more.
func (m *LocalMesh) left(member int) bool {
	if m.members[member].peer.Keep {
		return false
	}
	rank := slices.Index(m.view, member)
	for k := range m.ranges {
		if m.have.Holds(k, rank) {
			return false
		}
	}
	return true
}

// remove takes a member out of the view.
func (m *LocalMesh) remove(member int) {
	var view []int
	ranks := make([]int, len(m.view))
	for r, i := range m.view {
		if ranks[r] = len(view); i == member {
			ranks[r] = -1
		} else {
			view = append(view, i)
		}
	}
	var lost []int
	if m.have, lost = m.have.Survive(ranks, m.peers(view), m.ranges); len(lost) > 0 {
		m.fail(fmt.Errorf("fsdp: nobody holds %d ranges any more, the first is %d", len(lost), lost[0]))
		m.view = nil
		return
	}
	m.view = view
	m.want = place.Want(m.ranges, m.peers(view), m.backups, m.have)
}

// Kill has a member vanish: it says nothing more, and the others go on without it.
func (m *LocalMesh) Kill(member int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members[member].dead = true
	m.expel(member)
}

// Expel has the others go on without a member that is there and will see it.
func (m *LocalMesh) Expel(member int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expel(member)
}

func (m *LocalMesh) expel(member int) {
	i := slices.Index(m.view, member)
	if i < 0 || m.err != nil {
		m.joining = slices.DeleteFunc(m.joining, func(j int) bool { return j == member })
		return
	}
	work := slices.Clone(m.log[len(m.log)-1].Work)
	if len(work) > 0 {
		work = slices.Delete(work, i, i+1)
	}
	if m.remove(member); len(m.view) > 0 {
		m.append(Entry{Kind: EntryView, Work: work}, true)
	}
}

// Join lets a member in with the next Commit; Enter waits for it.
func (m *LocalMesh) Join(member int, weight int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members[member] = &localMember{peer: place.Peer{Weight: weight, Keep: true}, fence: -1}
	m.joining = append(m.joining, member)
}

// Leave has a member give away what it holds; then it is not in the view any more.
func (m *LocalMesh) Leave(member int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members[member].peer.Keep = false
}

// Late ends the attempt for lateness: the step is tried again, with other work.
func (m *LocalMesh) Late(work []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.append(Entry{Kind: EntryLate, Work: work}, false)
}
