package dataserve

import "sync"

// lacking are the chunks that somebody waits for and nobody has. Its methods may be called from any goroutine.
type lacking struct {
	mu     sync.Mutex
	tell   func(why error)
	chunks map[int]bool
}

// Persist has the Fetcher wait for chunks that nobody gives, rather than give up, as long as somebody wants them: others may
// come who have them. tell is called with the reason when it begins to wait, and with nil when there is nothing more to wait
// for. It must not call the Fetcher.
func (f *Fetcher) Persist(tell func(why error)) {
	f.lack.mu.Lock()
	defer f.lack.mu.Unlock()
	f.lack.tell, f.lack.chunks = tell, map[int]bool{}
}

func (l *lacking) waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tell != nil
}

// miss notes that nobody gives chunk i, and says whether to wait for it.
func (l *lacking) miss(i int, why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tell == nil {
		return false
	}
	if len(l.chunks) == 0 {
		l.tell(why)
	}
	l.chunks[i] = true
	return true
}

// got notes that chunk i is waited for no more.
func (l *lacking) got(i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.chunks[i] {
		if delete(l.chunks, i); len(l.chunks) == 0 {
			l.tell(nil)
		}
	}
}
