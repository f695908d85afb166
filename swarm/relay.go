package swarm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"shoal/swarm/wire"
)

const (
	controlHead = 300 * time.Millisecond  // for the direct way to a member, before others are asked to carry the stream
	dataHead    = 2 * time.Second         // the same for data, which is better off direct, to whom control streams reach so
	relayDial   = 1200 * time.Millisecond // for one relay, the rest of the way included
)

// carriedConn is a stream that another member carries, for as long as that is one.
type carriedConn struct {
	net.Conn
	n   *Node
	via uint64
}

// Close implements net.Conn.
func (c *carriedConn) Close() error {
	c.n.drop(c.via, c.Conn)
	return c.Conn.Close()
}

// opened is what came of opening a stream.
type opened struct {
	conn net.Conn
	err  error
}

// final says whether no other way need be tried: a process that is dead for one is dead for all.
func (o opened) final() bool { return o.err == nil || errors.Is(o.err, ErrRefused) }

// open opens a stream to a member. Where that fails, other members are asked one after another to carry it, the leader
// first: each opens a stream to the target and copies both ways (relay_carry.go). When a carried stream breaks, the direct
// way is tried again.
func (n *Node) open(ctx context.Context, to exchangeMember, protocol string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan struct{}) // the direct way has
	direct := n.race(ctx, func() (net.Conn, error) {
		return n.cfg.Transport.Open(ctx, to.Peer, to.Addrs, protocol)
	})
	carried := n.race(ctx, func() (net.Conn, error) {
		head := controlHead
		if protocol == wire.DataProtocol && n.reaches(to.ID) {
			head = dataHead
		}
		timer := time.NewTimer(head)
		defer timer.Stop()
		select {
		case <-failed:
		case <-timer.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return n.openCarried(ctx, to, protocol)
	})
	var err error
	for range 2 {
		select {
		case r := <-direct:
			if r.final() {
				return r.conn, r.err
			}
			err, direct = r.err, nil
			close(failed)
		case r := <-carried:
			if r.final() {
				return r.conn, r.err
			}
			err, carried = cmp.Or(err, r.err), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return nil, err
}

// race opens a stream in the background; once ctx has ended, it closes what nobody has taken.
func (n *Node) race(ctx context.Context, open func() (net.Conn, error)) <-chan opened {
	result := make(chan opened)
	n.tasks.Go(func() {
		conn, err := open()
		select {
		case result <- opened{conn, err}:
		case <-ctx.Done():
			if conn != nil {
				conn.Close()
			}
		}
	})
	return result
}

// openCarried asks those members for a stream to another one whom this one reaches itself.
func (n *Node) openCarried(ctx context.Context, to exchangeMember, protocol string) (conn net.Conn, err error) {
	err = fmt.Errorf("no way to peer %s, and nobody to carry a stream", Short(to.Peer))
	for _, via := range n.carriers(to.ID) {
		if conn, err = n.openVia(ctx, via, to, protocol); err == nil || errors.Is(err, ErrRefused) || ctx.Err() != nil {
			break
		}
		n.cfg.Log.Debug("could not have a stream carried", "to", to.Peer, "by", via.Peer, "err", err)
	}
	return conn, err
}

// carriers are the members to whom there is a stream of one's own, the leader first.
func (n *Node) carriers(but uint64) (list []Member) {
	lead := n.known.Load().leader.ID
	n.call(func() {
		for id, l := range n.links {
			if id != but && l.up.Load() {
				list = append(list, l.to)
			}
		}
	})
	leaderFirst(list, lead)
	return list
}

// openVia has one member carry a stream to another.
func (n *Node) openVia(ctx context.Context, via Member, to exchangeMember, protocol string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, relayDial)
	defer cancel()
	m := n.toMember(wire.ControlRelay, to.ID)
	m.Protocol = protocol
	conn, answer, err := n.openRelay(ctx, via, m)
	if err != nil {
		return nil, err
	}
	if answer.Kind != wire.ControlAccept {
		conn.Close()
		return nil, refusedRelay(via.Peer, answer)
	}
	n.cfg.Log.Info("a stream is carried by another member", "to", to.Peer, "by", via.Peer, "protocol", protocol)
	if !n.keep(via.ID, conn) { // a process that is stopped breaks nothing: the stream must not stay silent with it
		conn.Close()
		return nil, fmt.Errorf("peer %s carries no stream: it is no member any more", Short(via.Peer))
	}
	return &carriedConn{conn, n, via.ID}, nil
}

func refusedRelay(by string, answer *wire.Control) error {
	if answer.Have {
		return fmt.Errorf("%w, says peer %s", ErrRefused, Short(by))
	}
	return fmt.Errorf("peer %s carries no stream: %s", Short(by), answer.Reason)
}

// openRelay opens a relay stream to a member and says m on it.
func (n *Node) openRelay(ctx context.Context, to Member, m *wire.Control) (net.Conn, *wire.Control, error) {
	conn, err := n.cfg.Transport.Open(ctx, to.Peer, to.Addrs, wire.RelayProtocol)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() }) // not a named result: it may run after the return
	answer, err := ask(conn, m)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, answer, nil
}
