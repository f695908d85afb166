package fsdp

import (
	"context"
	"fmt"
	"sync"
)

// LocalMesh joins members in one process: a Comm per rank, without network, clock or failures. It is what the engine is
// tested and simulated with.
type LocalMesh struct {
	size   int
	decide func(prev []byte, readies [][]byte) (EntryKind, []byte, error)

	mu      sync.Mutex
	changed sync.Cond
	fences  []uint64 // per rank: the attempt that it is in
	sinks   []Sink
	shards  map[localKey]*localShard
	readies map[int][]byte
	prev    []byte
	log     []Entry // log[i] begins attempt i+1 and follows fence i
	err     error
}

type localKey struct {
	fence uint64
	tag   uint32
	rank  int
}

// localShard is what a member gives in an all-gather, and how many have taken it.
type localShard struct {
	data  []byte
	taken int
}

// NewLocalMesh makes a mesh of size members whose attempts decide ends. The first fence is 0.
func NewLocalMesh(size int, decide func(prev []byte, readies [][]byte) (EntryKind, []byte, error)) *LocalMesh {
	m := &LocalMesh{size: size, decide: decide, fences: make([]uint64, size), sinks: make([]Sink, size),
		shards: map[localKey]*localShard{}, readies: map[int][]byte{}}
	m.changed.L = &m.mu
	return m
}

// Comm is the end that belongs to rank.
func (m *LocalMesh) Comm(rank int) Comm { return &localComm{m, rank} }

// Fail ends every wait of every member with err.
func (m *LocalMesh) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.err = err
	}
	m.changed.Broadcast()
}

type localComm struct {
	mesh *LocalMesh
	rank int
}

var _ Comm = (*localComm)(nil)

func (c *localComm) Rank() int { return c.rank }
func (c *localComm) Size() int { return c.mesh.size }

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

func (c *localComm) Begin(fence uint64, sink Sink) error {
	m := c.mesh
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fences[c.rank], m.sinks[c.rank] = fence, sink
	for k := range m.shards {
		if k.fence < fence {
			delete(m.shards, k)
		}
	}
	m.changed.Broadcast()
	return m.err
}

func (c *localComm) AllGather(ctx context.Context, tag uint32, width int, mine []byte, parts [][]byte) (wait, given func() error) {
	m := c.mesh
	m.mu.Lock()
	defer m.mu.Unlock()
	fence := m.fences[c.rank]
	s := &localShard{data: mine}
	m.shards[localKey{fence, tag, c.rank}] = s
	m.changed.Broadcast()
	wait = func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		for r := range parts {
			if r == c.rank || len(parts[r]) == 0 {
				continue
			}
			key := localKey{fence, tag, r}
			if err := m.until(ctx, func() bool { _, ok := m.shards[key]; return ok }); err != nil {
				return err
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
		return m.until(ctx, func() bool { return len(mine) == 0 || s.taken == m.size-1 })
	}
	return wait, given
}

func (c *localComm) ReduceScatter(ctx context.Context, unit int, parts [][]byte, microbatches int) func() error {
	m := c.mesh
	m.mu.Lock()
	fence := m.fences[c.rank]
	m.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		for r := range parts {
			if r == c.rank || len(parts[r]) == 0 {
				continue
			}
			m.mu.Lock()
			err := m.until(ctx, func() bool { return m.fences[r] >= fence && m.sinks[r] != nil })
			sink := m.sinks[r]
			m.mu.Unlock()
			if err == nil {
				err = sink.Add(unit, c.rank, 0, parts[r])
			}
			if err == nil {
				err = sink.Done(unit, c.rank, microbatches)
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	return func() error { return <-done }
}

func (c *localComm) Ready(payload []byte) error {
	m := c.mesh
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readies[c.rank] = payload
	if len(m.readies) < m.size {
		return nil
	}
	list := make([][]byte, m.size)
	for r := range list {
		list[r] = m.readies[r]
	}
	clear(m.readies)
	kind, b, err := m.decide(m.prev, list)
	if err != nil {
		m.err = err
	} else {
		m.prev = b
		m.log = append(m.log, Entry{Fence: uint64(len(m.log) + 1), Kind: kind, Payload: b})
	}
	m.changed.Broadcast()
	return nil
}

func (c *localComm) Next(ctx context.Context) (Entry, error) {
	m := c.mesh
	m.mu.Lock()
	defer m.mu.Unlock()
	fence := m.fences[c.rank]
	if err := m.until(ctx, func() bool { return uint64(len(m.log)) > fence }); err != nil {
		return Entry{}, err
	}
	return m.log[fence], nil
}
