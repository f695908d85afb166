package peer

import (
	"sync"
	"time"
)

// deadline is a time that can be moved while somebody waits for it. The zero value never comes.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	past  chan struct{} // closed once it has come; nil before the first use
	off   bool
}

// done is closed when the deadline has come. A deadline that is moved gets a new channel if the old one is closed.
func (d *deadline) done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.channel()
}

func (d *deadline) channel() chan struct{} {
	if d.past == nil {
		d.past = make(chan struct{})
	}
	return d.past
}

// set moves the deadline; the zero time is never.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop() // one that fires at this moment waits for mu, and finds another timer in its place
		d.timer = nil
	}
	if over(d.channel()) {
		d.past = make(chan struct{})
	}
	if t.IsZero() || d.off {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		close(d.past)
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.timer == timer {
			close(d.past)
			d.timer = nil
		}
	})
	d.timer = timer
}

// stop ends its timer, for ever.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// deadlines are those of a stream, as net.Conn has them.
type deadlines struct{ readDeadline, writeDeadline deadline }

func (d *deadlines) SetDeadline(t time.Time) error {
	d.readDeadline.set(t)
	d.writeDeadline.set(t)
	return nil
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.readDeadline.set(t)
	return nil
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.writeDeadline.set(t)
	return nil
}

// stop ends their timers, for ever.
func (d *deadlines) stop() {
	d.readDeadline.stop()
	d.writeDeadline.stop()
}

// over says whether c is closed.
func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
