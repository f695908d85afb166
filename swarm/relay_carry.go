package swarm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"shoal/swarm/wire"
)

const (
	carryDial  = time.Second // for the second half of the way
	maxRelays  = 128         // streams that one member carries for others
	carryBytes = 64 << 10    // under way in each direction of one
)

// handleRelay serves a relay stream: as the one in the middle, who carries it, or as its target.
func (n *Node) handleRelay(peer string, conn net.Conn) {
	defer conn.Close()
	if !n.begin() {
		return
	}
	defer n.tasks.Done()
	defer context.AfterFunc(n.ctx, func() { conn.Close() })()

	err := n.relay(peer, conn)
	if err != nil && n.ctx.Err() == nil {
		n.cfg.Log.Debug("relay stream ended", "peer", peer, "err", err)
	}
}

func (n *Node) relay(peer string, conn net.Conn) error {
	m, done, err := n.firstMessage(peer, conn)
	if err != nil {
		return err
	}
	done()
	switch m.Kind {
	case wire.ControlRelay:
		return n.carry(peer, conn, m)
	case wire.ControlCarried:
		return n.carried(peer, conn, m)
	}
	return fmt.Errorf("a relay stream began with a message of kind %d", m.Kind)
}

// carry carries a stream from peer to the member that m names, for members of the run only, until either side or either
// membership ends.
func (n *Node) carry(peer string, conn net.Conn, m *wire.Control) error {
	now := n.known.Load()
	to, ok := now.members[m.To]
	toMe := *m
	toMe.To = n.id
	switch why := n.refuseMember(now, peer, &toMe); {
	case why != "":
		return n.lastWord(conn, refusal(why))
	case !ok || to.ID == n.id || to.ID == m.From || !relayed(m.Protocol):
		return n.lastWord(conn, refusal("there is nobody to carry this to"))
	}
	select {
	case n.relays <- struct{}{}:
		defer func() { <-n.relays }()
	default:
		return n.lastWord(conn, refusal("it carries too much already"))
	}
	onward, err := n.carryOn(peer, to, m.Protocol)
	if err != nil {
		no := refusal("it can't reach the target either")
		no.Have = errors.Is(err, ErrRefused)
		return errors.Join(err, n.lastWord(conn, no))
	}
	defer onward.Close()
	if !n.keep(m.From, conn) {
		return nil
	}
	defer n.drop(m.From, conn)
	if !n.keep(to.ID, onward) {
		return nil
	}
	defer n.drop(to.ID, onward)
	if err := n.reply(conn, &wire.Control{Kind: wire.ControlAccept}); err != nil {
		return err
	}
	defer context.AfterFunc(n.ctx, func() { onward.Close() })()
	return n.copyBoth(conn, onward)
}

func relayed(protocol string) bool {
	return protocol == wire.ControlProtocol || protocol == wire.DataProtocol
}

// carryOn opens the second half of the way and tells the target whose stream it is.
func (n *Node) carryOn(origin string, to Member, protocol string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(n.ctx, carryDial)
	defer cancel()
	m := n.toMember(wire.ControlCarried, to.ID)
	m.Peer, m.Protocol = origin, protocol
	conn, answer, err := n.openRelay(ctx, to, m)
	if err != nil {
		return nil, err
	}
	if answer.Kind != wire.ControlAccept {
		conn.Close()
		return nil, refusedRelay(to.Peer, answer)
	}
	return conn, nil
}

// copyBoth copies between two streams until one of them ends, and then ends both.
func (n *Node) copyBoth(a, b net.Conn) error {
	for _, c := range []net.Conn{a, b} {
		if err := c.SetDeadline(time.Time{}); err != nil {
			return err
		}
	}
	var errs [2]error
	var both sync.WaitGroup
	for i, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, errs[i] = io.CopyBuffer(struct{ io.Writer }{way[1]}, struct{ io.Reader }{way[0]}, make([]byte, carryBytes))
			a.Close()
			b.Close()
		})
	}
	both.Wait()
	return errors.Join(errs[:]...)
}

// carried serves a stream that another member carries, as if it came from the peer that it names: members of a run are
// trusted.
func (n *Node) carried(peer string, conn net.Conn, m *wire.Control) error {
	if why := n.refuseMember(n.known.Load(), peer, m); why != "" {
		return n.lastWord(conn, refusal(why))
	}
	if !relayed(m.Protocol) {
		return n.lastWord(conn, refusal("no such protocol"))
	}
	if !n.keep(m.From, conn) { // whoever carries it must stay a member
		return nil
	}
	defer n.drop(m.From, conn)
	if err := n.reply(conn, &wire.Control{Kind: wire.ControlAccept}); err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if m.Protocol == wire.DataProtocol {
		n.exchange.handle(m.Peer, conn)
	} else {
		n.handleControl(m.Peer, carriedHere{conn})
	}
	return nil
}
