package swarm

import (
	"bufio"
	"context"
	"crypto/subtle"
	"fmt"
	"net"
	"time"

	"shoal/swarm/wire"
)

const (
	maxHandshakes    = 64 // at a time, beyond members' streams
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 30 * time.Second // of a member's stream; beats come far more often
)

// joinAnswer is what the log says to a peer that wants in.
type joinAnswer struct {
	snapshot []byte
	refused  string
}

// begin counts a goroutine that the transport has started, unless the node has ended.
func (n *Node) begin() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.tasks.Add(1)
	return true
}

// handleControl serves an incoming control stream until it ends.
func (n *Node) handleControl(peer string, conn net.Conn) {
	defer conn.Close()
	if !n.begin() {
		return
	}
	defer n.tasks.Done()
	defer context.AfterFunc(n.ctx, func() { conn.Close() })()

	member, err := n.shakeHands(peer, conn)
	if err == nil && member != 0 {
		err = n.readMember(member, conn)
	}
	if err != nil && n.ctx.Err() == nil {
		n.cfg.Log.Debug("incoming control stream ended", "peer", peer, "err", err)
	}
}

// shakeHands answers the first message of a stream, and returns the member id if it is a member's.
func (n *Node) shakeHands(peer string, conn net.Conn) (member uint64, err error) {
	select {
	case n.handshakes <- struct{}{}:
		defer func() { <-n.handshakes }()
	default:
		return 0, fmt.Errorf("more than %d handshakes at a time", maxHandshakes)
	}
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return 0, err
	}
	m, err := wire.ReadControl(conn, wire.MaxHandshake)
	if err != nil {
		return 0, err
	}
	switch m.Kind {
	case wire.ControlDescribe:
		return 0, n.lastWord(conn, n.answerDescribe(m))
	case wire.ControlJoin:
		return 0, n.lastWord(conn, n.admit(peer, m))
	case wire.ControlHello:
		if why := n.refuseHello(peer, m); why != "" {
			return 0, n.lastWord(conn, refusal(why))
		}
		return m.From, n.reply(conn, &wire.Control{Kind: wire.ControlAccept})
	}
	return 0, fmt.Errorf("a stream began with a message of kind %d", m.Kind)
}

func (n *Node) reply(conn net.Conn, m *wire.Control) error {
	b, err := wire.AppendControl(nil, m)
	if err != nil {
		return err
	}
	return n.write(conn, b)
}

// lastWord replies and lets the other side close the stream, since closing it here could overtake the reply.
func (n *Node) lastWord(conn net.Conn, m *wire.Control) error {
	if err := n.reply(conn, m); err != nil {
		return err
	}
	conn.Read(make([]byte, 1)) // until it is closed, or its deadline
	return nil
}

func refusal(reason string) *wire.Control {
	return &wire.Control{Kind: wire.ControlRefused, Reason: reason}
}

// refuseInvited says why a peer's invitation isn't one to this run, or "".
func (n *Node) refuseInvited(m *wire.Control) string {
	switch {
	case m.Version != wire.ControlVersion:
		return fmt.Sprintf("it speaks version %d of the control protocol, the run speaks %d: use the same release on all peers", m.Version, wire.ControlVersion)
	case m.Run != n.cfg.RunID:
		return "the link is for another run"
	case subtle.ConstantTimeCompare([]byte(m.Secret), []byte(n.cfg.Secret)) != 1:
		return "the link's secret is wrong"
	}
	return ""
}

func (n *Node) refuseHello(peer string, m *wire.Control) string {
	from, ok := n.known.Load().members[m.From]
	switch {
	case m.Version != wire.ControlVersion:
		return fmt.Sprintf("control protocol version %d, want %d", m.Version, wire.ControlVersion)
	case m.Run != n.cfg.RunID || m.To != n.id:
		return "this is another run or process"
	case !ok || from.Peer != peer: // perhaps not yet: it will try again
		return "not a member"
	}
	return ""
}

func (n *Node) answerDescribe(m *wire.Control) *wire.Control {
	if why := n.refuseInvited(m); why != "" {
		return refusal(why)
	}
	return &wire.Control{Kind: wire.ControlRun, Body: n.known.Load().run}
}

// admit asks the log to let a peer in, or says who can.
func (n *Node) admit(peer string, m *wire.Control) *wire.Control {
	if why := n.refuseInvited(m); why != "" {
		return refusal(why)
	}
	if m.Offer == nil {
		return refusal("it offers nothing")
	}
	id, answer := newMemberID(), make(chan joinAnswer, 1)
	var refused string
	var asked bool
	n.call(func() {
		n.joins[id] = answer
		refused, asked = n.core.Admit(Member{ID: id, Peer: peer, Addrs: m.Addrs, Offer: *m.Offer})
	})
	defer n.call(func() { delete(n.joins, id) })
	if refused != "" {
		return refusal(refused)
	}
	timer := time.NewTimer(handshakeTimeout / 2)
	defer timer.Stop()
	if asked {
		select {
		case a := <-answer:
			if a.refused != "" {
				return refusal(a.refused)
			}
			return &wire.Control{Kind: wire.ControlWelcome, To: id, Body: a.snapshot}
		case <-timer.C:
		case <-n.ctx.Done():
		}
	}
	to := n.known.Load().leader
	if to.ID == n.id {
		to = Member{}
	}
	return &wire.Control{Kind: wire.ControlRedirect, Peer: to.Peer, Addrs: to.Addrs}
}

// answerJoin passes on the log's answer. It runs in the loop.
func (n *Node) answerJoin(id uint64, a joinAnswer) {
	if c := n.joins[id]; c != nil {
		c <- a // has room for one, and gets one
		delete(n.joins, id)
	}
}

// readMember takes in a member's messages until its stream ends.
func (n *Node) readMember(id uint64, conn net.Conn) error {
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	r := bufio.NewReader(countingReader{conn, n})
	for {
		if err := conn.SetReadDeadline(time.Now().Add(idleTimeout)); err != nil {
			return err
		}
		m, err := wire.ReadControl(r, wire.MaxControl)
		if err != nil {
			return err
		}
		m.From, m.To = id, n.id
		select {
		case n.inbox <- m:
		case <-n.ctx.Done():
			return nil
		}
	}
}

// countingReader counts bytes of control streams.
type countingReader struct {
	net.Conn
	n *Node
}

func (r countingReader) Read(p []byte) (int, error) {
	k, err := r.Conn.Read(p)
	r.n.received.Add(int64(k))
	return k, err
}
