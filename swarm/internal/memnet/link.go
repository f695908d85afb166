package memnet

import (
	"net"
	"os"
	"sync"
	"time"
)

// bufferSize bounds the bytes under way in each direction of a stream; a write beyond it blocks.
const bufferSize = 64 << 10

// link is one stream: two ends, each of which holds the bytes on their way to it. One lock serves both directions.
type link struct {
	mu     sync.Mutex
	change sync.Cond // something was read, written, closed, or a deadline moved
	closed bool
	mute   bool // nothing gets through any more, a reset neither
	ends   [2]end
	forget func(*link)
}

// end is one side's view of a link; it is a net.Conn.
type end struct {
	l             *link
	peer          *end
	local, remote string
	in            [bufferSize]byte // ring: the bytes at first, first+1, ... , n of them
	first, n      int
	read, write   deadline
	gone          bool // closed at this side, of a link that is mute
}

var _ net.Conn = (*end)(nil)

func newLink(from, to string, forget func(*link)) *link {
	l := &link{forget: forget}
	l.change.L = &l.mu
	l.ends[0] = end{l: l, peer: &l.ends[1], local: from, remote: to}
	l.ends[1] = end{l: l, peer: &l.ends[0], local: to, remote: from}
	return l
}

func (l *link) pair() pair { return pairOf(l.ends[0].local, l.ends[1].local) }

// end is the one at the host called name.
func (l *link) end(name string) *end {
	if l.ends[0].local == name {
		return &l.ends[0]
	}
	return &l.ends[1]
}

func (l *link) silence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mute = true
}

func (l *link) reset() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		for i := range l.ends {
			l.ends[i].read.stop()
			l.ends[i].write.stop()
		}
		l.change.Broadcast()
	}
	l.mu.Unlock()
	l.forget(l)
}

func (e *end) Read(p []byte) (int, error) {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	for {
		switch {
		case e.l.closed || e.gone:
			return 0, ErrReset
		case e.read.expired:
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case e.n > 0 && !e.l.mute:
			return e.take(p), nil
		}
		e.l.change.Wait()
	}
}

// Write blocks until all of p is in the reader's buffer, or fails having put a part of it there.
func (e *end) Write(p []byte) (int, error) {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	done := 0
	for {
		switch {
		case e.l.closed || e.gone:
			return done, ErrReset
		case e.write.expired:
			return done, os.ErrDeadlineExceeded
		case done == len(p):
			return done, nil
		case e.peer.n < bufferSize:
			done += e.peer.put(p[done:])
			continue
		}
		e.l.change.Wait()
	}
}

// take moves bytes from the ring to p. The lock is held.
func (e *end) take(p []byte) int {
	total := 0
	for e.n > 0 && total < len(p) {
		k := copy(p[total:], e.in[e.first:min(e.first+e.n, bufferSize)])
		e.first = (e.first + k) % bufferSize
		e.n -= k
		total += k
	}
	e.l.change.Broadcast()
	return total
}

// put moves bytes from p to the ring. The lock is held.
func (e *end) put(p []byte) int {
	total := 0
	for e.n < bufferSize && total < len(p) {
		at := (e.first + e.n) % bufferSize
		k := copy(e.in[at:min(at+bufferSize-e.n, bufferSize)], p[total:])
		e.n += k
		total += k
	}
	e.l.change.Broadcast()
	return total
}

// Close resets the stream: both sides' reads and writes fail from now on. The other side of a stream that is mute doesn't
// learn of it.
func (e *end) Close() error {
	if !e.closeMute() {
		e.l.reset()
	}
	return nil
}

// closeMute closes this side alone, if the other one can't learn of it and is still open.
func (e *end) closeMute() bool {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	if !e.l.mute || e.peer.gone {
		return false
	}
	e.gone = true
	e.l.change.Broadcast()
	return true
}

func (e *end) LocalAddr() net.Addr  { return addr(e.local) }
func (e *end) RemoteAddr() net.Addr { return addr(e.remote) }

func (e *end) SetDeadline(t time.Time) error {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	e.read.set(e.l, t)
	e.write.set(e.l, t)
	return nil
}

func (e *end) SetReadDeadline(t time.Time) error {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	e.read.set(e.l, t)
	return nil
}

func (e *end) SetWriteDeadline(t time.Time) error {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	e.write.set(e.l, t)
	return nil
}

// deadline is guarded by its link's lock. generation tells a timer that fired too late from the one in force.
type deadline struct {
	timer      *time.Timer
	expired    bool
	generation int
}

func (d *deadline) stop() {
	d.generation++
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

func (d *deadline) set(l *link, t time.Time) {
	d.stop()
	d.expired = false
	defer l.change.Broadcast()
	if t.IsZero() || l.closed {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.expired = true
		return
	}
	mine := d.generation
	d.timer = time.AfterFunc(left, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if d.generation == mine {
			d.expired = true
			l.change.Broadcast()
		}
	})
}

type addr string

func (addr) Network() string  { return "memory" }
func (a addr) String() string { return string(a) }
