package swarm

import (
	"context"
	"errors"
	"net"
	"time"

	"shoal/swarm/wire"
)

const (
	seekPause     = 500 * time.Millisecond // a stream's least age, and the least time after the last try, before a better way is sought
	straightDial  = time.Second            // for the direct way, where there is another one
	straightEvery = 50                     // ticks between two looks at what is carried
)

// look has members look for better ways: where nothing is heard, and now and then where a stream is carried. It runs in the
// loop, once a tick.
func (n *Node) look() {
	n.ticks++
	for id, l := range n.links {
		l.look(n.core.Quiet(id), n.ticks%straightEvery == 0 && !l.up.Load())
	}
}

// look seeks a better way than the stream there is, if it is quiet or there is another occasion. Quiet: it may be broken
// without a word, as where a cable was pulled: nothing is reset then, and nothing arrives.
func (l *controlLink) look(quiet, occasion bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !quiet && !occasion && !l.due || l.seeking || l.conn == nil || l.ending || time.Since(l.since) < seekPause {
		return
	}
	l.seeking, l.due = true, false
	conn := l.conn
	l.n.tasks.Go(func() { l.seek(conn, quiet) })
}

// seek replaces the stream conn by a better one if there is one.
func (l *controlLink) seek(conn net.Conn, quiet bool) {
	_, carried := conn.(*carriedConn)
	way := l.detour
	if carried {
		way = l.straight
	}
	better, err := way(l.n.ctx)

	l.mu.Lock()
	l.seeking, l.since = false, time.Now()
	replace := l.conn == conn && (err == nil || carried && quiet) // of several carriers another one may do
	if replace {
		l.silent, l.instead = true, better
	}
	l.mu.Unlock()
	if carried && err != nil { // what there may be of direct streams for data is dead, too
		l.n.cfg.Transport.Drop(l.to.Peer)
	}
	switch {
	case !replace && better != nil:
		better.Close()
	case replace && carried:
		l.n.exchange.straighten(l.to.ID)
		conn.Close()
	case replace:
		l.n.cfg.Log.Info("the path to a peer is silent, and another member reaches it", "peer", l.to.Peer)
		l.n.cfg.Transport.Drop(l.to.Peer)
		conn.Close()
	}
}

// replacement takes what replaces the last stream, nil if there is nothing.
func (l *controlLink) replacement() net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	conn := l.instead
	l.instead = nil
	return conn
}

// wasSilent says whether the last stream was given up here: that says nothing of the member.
func (l *controlLink) wasSilent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	silent := l.silent
	l.silent = false
	return silent
}

// detour is a stream that another member carries, if the target answers that way and not directly: it lives, and the path
// to it is broken.
func (l *controlLink) detour(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	direct := l.n.race(ctx, func() (net.Conn, error) { return l.straight(ctx) })
	conn, err := l.n.openCarried(ctx, l.target(), wire.ControlProtocol)
	if err == nil {
		conn, err = l.greet(ctx, conn)
	}
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(controlHead)
	defer timer.Stop()
	select {
	case r := <-direct:
		if r.err == nil {
			r.conn.Close()
			conn.Close()
			return nil, errors.New("the direct path is as good")
		}
	case <-timer.C:
	}
	return conn, nil
}

// straight is a stream that nobody carries.
func (l *controlLink) straight(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, straightDial)
	defer cancel()
	conn, err := l.n.cfg.Transport.Open(ctx, l.to.Peer, l.to.Addrs, wire.ControlProtocol)
	if err != nil {
		return nil, err
	}
	return l.greet(ctx, conn)
}

// carriedHere is a stream that a third member has carried to this one.
type carriedHere struct{ net.Conn }

// met takes in that a member has opened a control stream, or has it carried here. If one's own stream to that member is
// carried, the next tick looks whether it still should be; if that member's is, whether there is a direct path at all.
func (n *Node) met(id uint64, carried bool) {
	n.call(func() {
		if l := n.links[id]; l != nil && (carried || !l.up.Load()) {
			l.mu.Lock()
			l.due = true
			l.mu.Unlock()
		}
	})
}

// reaches says whether there is a control stream to a member that nobody carries.
func (n *Node) reaches(id uint64) (direct bool) {
	n.call(func() {
		l := n.links[id]
		direct = l != nil && l.up.Load()
	})
	return direct
}
