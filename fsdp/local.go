package fsdp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"shoal/internal/place"
)

// LocalMesh joins members in one process: a Comm for each, and a log, without network or clock. Members may vanish, join
// and leave as on a real mesh. It is what the engine is tested and simulated with. Members have numbers that stay; a
// member's rank is its place in the view.
type LocalMesh struct {
	// FillRanges is the most ranges that are filled in one attempt; 0 means 8. Set it before the first step.
	FillRanges int
	// NoFiles are the members that keep no checkpoints. Set it before anybody enters.
	NoFiles []int

	ranges  []place.Range
	backups int
	decide  func(prev []byte, work []int64, readies [][]byte) (EntryKind, []byte, []int64, error)

	mu      sync.Mutex
	changed sync.Cond
	members map[int]*localMember
	view    []int // members by rank
	joining []int // members that the next Commit lets in
	have    place.Map
	want    place.Map
	log     []localEntry // by fence: what began the attempt
	prev    []byte       // payload of the last decision
	readies map[int][]byte
	shards  map[localKey]*localShard
	err     error
}

// localMember is one that was ever there.
type localMember struct {
	peer   place.Peer
	dead   bool
	fence  int // the attempt that it is in; -1 before the first
	sink   Sink
	cancel context.CancelCauseFunc // of that attempt
}

// localEntry is an entry for all: View.Rank is filled in for each.
type localEntry struct {
	Entry
	view []int // if it begins one
}

type localKey struct {
	fence, member int
	tag           uint32
}

// localShard is what a member gives in an all-gather, and how many have taken it.
type localShard struct {
	data  []byte
	taken int
}

// NewLocalMesh makes a mesh of members 0, 1, ... with these weights, whose attempts decide ends. Each range of l has so many
// backups; a negative number means that every member holds everything. The first fence is 0.
func NewLocalMesh(l *Layout, weights []int64, backups int, decide func(prev []byte, work []int64, readies [][]byte) (EntryKind, []byte, []int64, error)) *LocalMesh {
	m := &LocalMesh{backups: backups, decide: decide, members: map[int]*localMember{}, readies: map[int][]byte{},
		shards: map[localKey]*localShard{}}
	m.changed.L = &m.mu
	if backups < 0 {
		m.backups = place.All
	}
	for _, r := range l.Ranges {
		m.ranges = append(m.ranges, place.Range{Group: r.Unit, Size: int64(r.N)})
	}
	for i, w := range weights {
		m.members[i] = &localMember{peer: place.Peer{Weight: w, Keep: true}, fence: -1}
		m.view = append(m.view, i)
	}
	m.have = place.Start(m.ranges, m.peers(m.view), m.backups)
	m.want = m.have
	m.append(Entry{Kind: EntryView}, true)
	return m
}

// Comm is the end that belongs to a member.
func (m *LocalMesh) Comm(member int) Comm { return &localComm{m, member} }

// Enter waits until a member is in the view, and is the entry with which it begins.
func (m *LocalMesh) Enter(ctx context.Context, member int) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.members[member]
	if err := m.until(ctx, func() bool { return x.dead || slices.Contains(m.view, member) }); err != nil {
		return Entry{}, err
	}
	if x.dead {
		return Entry{}, errDead
	}
	return m.entry(m.newest(), member), nil
}

// Fail ends every wait of every member with err.
func (m *LocalMesh) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail(err)
}

func (m *LocalMesh) fail(err error) {
	if m.err == nil {
		m.err = err
	}
	for _, x := range m.members {
		if x.cancel != nil {
			x.cancel(err)
		}
	}
	m.changed.Broadcast()
}

var (
	errEnded = errors.New("the attempt has ended")
	errDead  = errors.New("this member is dead")
)

// until waits, with the lock held, for cond.
func (m *LocalMesh) until(ctx context.Context, cond func() bool) error {
	stop := context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.changed.Broadcast()
	})
	defer stop()
	for !cond() {
		if m.err != nil {
			return m.err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		m.changed.Wait()
	}
	return nil
}

type localComm struct {
	mesh   *LocalMesh
	member int
}

var _ Comm = (*localComm)(nil)

// SetPhase implements Comm.
func (c *localComm) SetPhase(string, int) {}

// Begin implements Comm.
func (c *localComm) Begin(ctx context.Context, fence uint64, sink Sink) (context.Context, error) {
	m := c.mesh
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.members[c.member]
	ctx, x.cancel = context.WithCancelCause(ctx)
	x.fence, x.sink = int(fence), sink
	if m.ended(x.fence) {
		x.cancel(errEnded)
	}
	m.changed.Broadcast()
	return ctx, m.err
}

// ended says whether the log has what ended an attempt. The lock is held.
func (m *LocalMesh) ended(fence int) bool { return len(m.log) > fence+1 }

// attempt is the attempt that the member is in, and its view, if it goes on. The lock is held.
func (c *localComm) attempt() (fence int, view []int, err error) {
	m := c.mesh
	x := m.members[c.member]
	switch {
	case m.err != nil:
		return 0, nil, m.err
	case x.dead:
		return 0, nil, errDead
	case m.ended(x.fence):
		return 0, nil, errEnded
	}
	return x.fence, m.view, nil
}

// AllGather implements Comm.
func (c *localComm) AllGather(ctx context.Context, tag uint32, width int, mine []byte, takes []bool, parts [][]byte) (wait, given func() error) {
	m := c.mesh
	m.mu.Lock()
	defer m.mu.Unlock()
	fence, view, err := c.attempt()
	if err != nil {
		failed := func() error { return err }
		return failed, failed
	}
	takers := 0
	for r, member := range view {
		if member != c.member && (takes == nil || takes[r]) {
			takers++
		}
	}
	s, own := &localShard{data: mine}, localKey{fence, c.member, tag}
	m.shards[own] = s
	m.changed.Broadcast()
	wait = func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		for r, member := range view {
			if member == c.member || len(parts[r]) == 0 {
				continue
			}
			key := localKey{fence, member, tag}
			if err := m.until(ctx, func() bool { return m.ended(fence) || m.shards[key] != nil }); err != nil {
				return err
			}
			if m.ended(fence) {
				return errEnded
			}
			theirs := m.shards[key]
			if len(theirs.data) != len(parts[r]) {
				return fmt.Errorf("fsdp: rank %d sent %d bytes, want %d", r, len(theirs.data), len(parts[r]))
			}
			copy(parts[r], theirs.data)
			theirs.taken++
			m.changed.Broadcast()
		}
		return nil
	}
	given = func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		defer delete(m.shards, own)
		err := m.until(ctx, func() bool { return m.ended(fence) || len(mine) == 0 || s.taken == takers })
		if err == nil && m.ended(fence) {
			err = errEnded
		}
		return err
	}
	return wait, given
}

// localChunk is the number of bytes that a Sink is given at once.
const localChunk = 4000

// Give implements Comm.
func (c *localComm) Give(ctx context.Context, kind Kind, tag uint32, parts [][]byte, count int) func() error {
	m := c.mesh
	m.mu.Lock()
	fence, view, err := c.attempt()
	m.mu.Unlock()
	if err != nil {
		return func() error { return err }
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for r, member := range view {
			if member != c.member && len(parts[r]) > 0 && err == nil {
				err = c.give(ctx, fence, member, kind, tag, parts[r], count)
			}
		}
		done <- err
	}()
	return func() error { return <-done }
}

// give gives one member its part.
func (c *localComm) give(ctx context.Context, fence, member int, kind Kind, tag uint32, part []byte, count int) error {
	m := c.mesh
	m.mu.Lock()
	to := m.members[member]
	rank := slices.Index(m.view, c.member)
	err := m.until(ctx, func() bool { return m.ended(fence) || to.fence == fence })
	sink, ended := to.sink, m.ended(fence)
	m.mu.Unlock()
	switch {
	case err != nil:
		return err
	case ended:
		return errEnded
	}
	for at := 0; at < len(part) && err == nil; at += localChunk {
		if err = ctx.Err(); err == nil {
			err = sink.Add(kind, int(tag), rank, at/4, part[at:min(len(part), at+localChunk)])
		}
	}
	if err == nil {
		err = sink.Done(kind, int(tag), rank, count)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil && !m.ended(fence) && ctx.Err() == nil {
		m.fail(err) // what no mesh should do
	}
	return err
}

// Ready implements Comm.
func (c *localComm) Ready(payload []byte) error {
	m := c.mesh
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, _, err := c.attempt(); err != nil {
		return err
	}
	m.readies[c.member] = payload
	if len(m.readies) == len(m.view) {
		m.end()
	}
	return nil
}

// Next implements Comm. A member that missed entries gets one for all of them.
func (c *localComm) Next(ctx context.Context) (Entry, error) {
	m := c.mesh
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.members[c.member]
	if err := m.until(ctx, func() bool { return x.dead || m.ended(x.fence) }); err != nil {
		return Entry{}, err
	}
	if x.dead {
		return Entry{}, errDead
	}
	if len(m.log) > x.fence+2 {
		return m.entry(m.newest(), c.member), nil
	}
	return m.entry(m.log[x.fence+1], c.member), nil
}
