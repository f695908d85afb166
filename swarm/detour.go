package swarm

import (
	"context"
	"errors"
	"net"
	"time"

	"shoal/swarm/wire"
)

// doubt has a member look for a better way when its stream may be broken without a word, as where a cable was pulled:
// nothing is reset then, and nothing arrives.
func (l *controlLink) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seeking || l.conn == nil || l.ending {
		return
	}
	l.seeking = true
	conn := l.conn
	l.n.tasks.Go(func() { l.seek(conn) })
}

// seek replaces the stream conn by a better one if there is one. A carried stream is just opened again.
func (l *controlLink) seek(conn net.Conn) {
	var better net.Conn
	var err error
	_, carried := conn.(*carriedConn)
	if !carried {
		better, err = l.detour(l.n.ctx)
	}
	l.mu.Lock()
	l.seeking = false
	replace := err == nil && l.conn == conn
	if replace {
		l.silent, l.instead = true, better
	}
	l.mu.Unlock()
	switch {
	case replace:
		if !carried {
			l.n.cfg.Log.Info("the path to a peer is silent, and another member reaches it", "peer", l.to.Peer)
			l.n.cfg.Transport.Drop(l.to.Peer)
		}
		conn.Close()
	case better != nil:
		better.Close()
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
	direct := l.n.race(ctx, func() (net.Conn, error) {
		conn, err := l.n.cfg.Transport.Open(ctx, l.to.Peer, l.to.Addrs, wire.ControlProtocol)
		if err != nil {
			return nil, err
		}
		return l.greet(ctx, conn)
	})
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

// carriedHere is a stream that a third member has carried to this one.
type carriedHere struct{ net.Conn }

// avoided takes in that a member has its control messages carried here: it doesn't reach this one, which had better see
// whether it still reaches that member.
func (n *Node) avoided(id uint64) {
	n.call(func() {
		if l := n.links[id]; l != nil && l.up.Load() {
			l.doubt()
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
