package fsdp

import "sync"

// byteList keeps byte slices for reuse by length, so that a step makes no garbage once the first one is over. The zero
// value is ready; it is safe for several goroutines.
type byteList struct {
	mu   sync.Mutex
	free map[int][][]byte
}

// take returns n bytes with undefined contents.
func (l *byteList) take(n int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if free := l.free[n]; len(free) > 0 {
		l.free[n] = free[:len(free)-1]
		return free[len(free)-1]
	}
	return make([]byte, n)
}

// give hands b back.
func (l *byteList) give(b []byte) {
	if len(b) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free == nil {
		l.free = map[int][][]byte{}
	}
	l.free[len(b)] = append(l.free[len(b)], b)
}

// clear forgets all: the sizes that were needed are not needed any more.
func (l *byteList) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.free)
}
