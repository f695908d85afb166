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

// keep has an incoming stream reset when a member goes, or the node ends; false if that has happened already. drop must
// follow.
func (n *Node) keep(id uint64, conn net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.known.Load().members[id]; !ok || n.closed {
		return false
	}
	if n.conns[id] == nil {
		n.conns[id] = map[net.Conn]bool{}
	}
	n.conns[id][conn] = true
	return true
}

// drop undoes keep.
func (n *Node) drop(id uint64, conn net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns[id], conn)
	if len(n.conns[id]) == 0 {
		delete(n.conns, id)
	}
}

// handleControl serves an incoming control stream until it ends.
func (n *Node) handleControl(peer string, conn net.Conn) {
	defer conn.Close()
	if !n.begin() {
		return
	}
	defer n.tasks.Done()
	defer context.AfterFunc(n.ctx, func() { conn.Close() })()

	hello, err := n.shakeHands(peer, conn)
	if err == nil && hello != nil {
		err = n.readMember(hello, conn)
	}
	if err != nil && n.ctx.Err() == nil {
		n.cfg.Log.Debug("incoming control stream ended", "peer", peer, "err", err)
	}
}

// shakeHands answers the first message of a stream, and returns it if a member is to go on with others.
func (n *Node) shakeHands(peer string, conn net.Conn) (hello *wire.Control, err error) {
	m, done, err := n.firstMessage(peer, conn)
	if err != nil {
		return nil, err
	}
	defer done()
	switch m.Kind {
	case wire.ControlDescribe:
		return nil, n.lastWord(conn, n.answerDescribe(m))
	case wire.ControlJoin:
		return nil, n.lastWord(conn, n.admit(peer, m))
	case wire.ControlHello:
		answer := n.answerHello(peer, m)
		if answer.Kind != wire.ControlAccept {
			return nil, n.lastWord(conn, answer)
		}
		return m, n.reply(conn, answer)
	case wire.ControlHistory, wire.ControlSnapshot, wire.ControlAdopt:
		return nil, n.lastWord(conn, n.answerMember(peer, m))
	}
	return nil, fmt.Errorf("a stream began with a message of kind %d", m.Kind)
}

// firstMessage reads a stream's first message, of which there are so many at a time until done is called.
func (n *Node) firstMessage(peer string, conn net.Conn) (m *wire.Control, done func(), err error) {
	select {
	case n.handshakes <- struct{}{}:
		done = func() { <-n.handshakes }
	default:
		return nil, nil, fmt.Errorf("more than %d handshakes at a time", maxHandshakes)
	}
	limit := wire.MaxHandshake
	for _, o := range n.known.Load().members {
		if o.Peer == peer { // it may bring a snapshot
			limit = wire.MaxControl
		}
	}
	if err = conn.SetDeadline(time.Now().Add(handshakeTimeout)); err == nil {
		m, err = wire.ReadControl(conn, limit)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return m, done, nil
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

// answerHello accepts a member's stream. Who isn't a member any more is told so, which the log can't tell it
// (PROTOCOL.md 16); who isn't one yet, as far as this member knows, will try again.
func (n *Node) answerHello(peer string, m *wire.Control) *wire.Control {
	now := n.known.Load()
	if why := n.refuseMember(now, peer, m); why != "" {
		if n.addressed(m) && now.removed(m) {
			return &wire.Control{Kind: wire.ControlGone, Index: now.applied, Reason: "the others went on without it"}
		}
		return &wire.Control{Kind: wire.ControlRefused, Reason: why, From: n.id, Generation: now.generation}
	}
	return &wire.Control{Kind: wire.ControlAccept}
}

// removed says whether m is from somebody who was a member: this log knows all that its sender had applied when it wrote
// m, its own admission too.
func (r *roster) removed(m *wire.Control) bool {
	_, ok := r.members[m.From]
	return !ok && (m.Generation < r.generation || m.Generation == r.generation && m.Index <= r.applied)
}

// addressed says whether m is for this process and its run.
func (n *Node) addressed(m *wire.Control) bool {
	return m.Version == wire.ControlVersion && m.Run == n.cfg.RunID && m.To == n.id
}

// refuseMember says why m isn't from a member that is in the same log, or "".
func (n *Node) refuseMember(now *roster, peer string, m *wire.Control) string {
	from, ok := now.members[m.From]
	switch {
	case m.Version != wire.ControlVersion:
		return fmt.Sprintf("control protocol version %d, want %d", m.Version, wire.ControlVersion)
	case !n.addressed(m):
		return "this is another run or process"
	case !ok || from.Peer != peer: // perhaps not yet: it will try again
		return "not a member"
	case m.Generation != now.generation:
		return fmt.Sprintf("the log is in generation %d, not in %d", now.generation, m.Generation)
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

// readMember takes in a member's messages until its stream ends, or it is a member no more, or the log begins anew: a
// member that goes on with the old one is not to be listened to.
func (n *Node) readMember(hello *wire.Control, conn net.Conn) error {
	if !n.keep(hello.From, conn) {
		return nil
	}
	defer n.drop(hello.From, conn)
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	r := bufio.NewReader(countingReader{conn, n})
	_, carried := conn.(carriedHere)
	if !carried {
		n.met(hello.From, false)
	}
	for {
		if err := conn.SetReadDeadline(time.Now().Add(idleTimeout)); err != nil {
			return err
		}
		m, err := wire.ReadControl(r, wire.MaxControl)
		if err != nil {
			return err
		}
		if carried { // and in use
			carried = false
			n.met(hello.From, true)
		}
		if m.Kind < wire.ControlRaft {
			return fmt.Errorf("message of kind %d on a member's stream", m.Kind)
		}
		m.From, m.To, m.Generation = hello.From, n.id, hello.Generation
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
