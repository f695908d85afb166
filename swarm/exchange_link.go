package swarm

import (
	"context"
	"net"

	"shoal/swarm/codec"
	"shoal/swarm/wire"
)

// link is what there is per other member, as long as it is one.
type link struct {
	to    exchangeMember
	ctx   context.Context // ends with the link
	stop  context.CancelFunc
	out   [wire.Classes]*outgoing
	count linkCounters

	// Guarded by the exchange's lock.
	gone    bool
	reading [wire.Classes]*incoming // the stream in force of each class
	noticed uint64                  // count.received, when the node's loop last looked
}

// add makes a link to a member, who may then send and be sent to; again, it does nothing. Streams are opened when there
// is something to send.
func (x *exchange) add(m exchangeMember) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed || m.ID == x.cfg.Self || x.links[m.ID] != nil {
		return
	}
	l := &link{to: m}
	l.ctx, l.stop = context.WithCancel(x.ctx)
	speed := &codec.Link{}
	for i := range l.out {
		l.out[i] = x.newOutgoing(l, wire.Params+wire.Class(i), speed)
		x.tasks.Go(l.out[i].run)
	}
	x.links[m.ID] = l
}

// remove ends the link to a member: its streams are reset, later ones are refused, and what it still has to send never
// reaches a sink. It doesn't wait.
func (x *exchange) remove(id uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.links[id]
	if l == nil || x.closed {
		return
	}
	delete(x.links, id)
	x.past.add(l.count.read())
	x.closeLater(x.cutOff(l))
}

// cutOff has a link's goroutines end, and returns its streams, which are to be closed. The lock is held.
func (x *exchange) cutOff(l *link) (open []net.Conn) {
	l.gone = true
	l.stop()
	l.clear()
	for _, o := range l.out {
		o.wake.Broadcast()
	}
	x.change.Broadcast()
	return l.open()
}

// open lists the streams of a link. The exchange's lock is held.
func (l *link) open() (open []net.Conn) {
	for i := range l.out {
		if c := l.out[i].conn; c != nil {
			open = append(open, c)
		}
		if in := l.reading[i]; in != nil {
			open = append(open, in.conn)
		}
	}
	return open
}

// clear forgets everything that was to be sent. The exchange's lock is held.
func (l *link) clear() {
	for _, o := range l.out {
		o.queue, o.next = nil, 0
	}
}

// closeLater closes streams where nobody is held up by it. The lock is held.
func (x *exchange) closeLater(open []net.Conn) {
	if len(open) == 0 {
		return
	}
	x.tasks.Go(func() {
		for _, conn := range open {
			conn.Close()
		}
	})
}

// setGeneration tells which generation the log is in. Streams of another one are reset: a member that goes on with the old
// log may use the same fences for other attempts.
func (x *exchange) setGeneration(g uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if g == x.generation || x.closed {
		return
	}
	x.generation = g
	for _, l := range x.links {
		for i, o := range l.out {
			o.broken = true
			o.wake.Broadcast()
			if in := l.reading[i]; in != nil {
				in.replaced = true
			}
		}
		x.closeLater(l.open())
	}
	x.change.Broadcast()
}

// straighten resets the data streams to a member that others carry: they are opened again, directly if that works.
func (x *exchange) straighten(id uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.links[id]
	if l == nil || x.closed {
		return
	}
	var carried []net.Conn
	for _, o := range l.out {
		if c, ok := o.conn.(*carriedConn); ok {
			carried = append(carried, c)
		}
	}
	x.closeLater(carried)
}

// heard lists the members from whom data has arrived since it was last called.
func (x *exchange) heard() (ids []uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, l := range x.links {
		if got := l.count.received.Load(); got != l.noticed {
			l.noticed = got
			ids = append(ids, id)
		}
	}
	return ids
}
