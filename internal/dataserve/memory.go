package dataserve

import (
	"container/list"
	"sync"
)

// memory keeps the chunks that were used last. Chunks are never changed, so that those who read one don't care when it is
// dropped.
type memory struct {
	limit int              // chunks
	keep  func(i int) bool // chunks that are never dropped

	mu    sync.Mutex
	order *list.List // of cell, the last used in front
	cells map[int]*list.Element
}

type cell struct {
	i int
	b []byte
}

func newMemory(limit int, keep func(i int) bool) *memory {
	return &memory{limit: limit, keep: keep, order: list.New(), cells: map[int]*list.Element{}}
}

// get returns a chunk, nil if it is not there, and counts as use.
func (m *memory) get(i int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.cells[i]
	if e == nil {
		return nil
	}
	m.order.MoveToFront(e)
	return e.Value.(cell).b
}

// peek returns a chunk, nil if it is not there.
func (m *memory) peek(i int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.cells[i]; e != nil {
		return e.Value.(cell).b
	}
	return nil
}

// put adds a chunk and drops the one that was not used for longest.
func (m *memory) put(i int, b []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cells[i] != nil {
		return
	}
	m.cells[i] = m.order.PushFront(cell{i, b})
	for e := m.order.Back(); e != nil && len(m.cells) > m.limit; {
		old := e
		e = e.Prev()
		if c := old.Value.(cell); !m.keep(c.i) && c.i != i {
			m.order.Remove(old)
			delete(m.cells, c.i)
		}
	}
}
