package swarm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"shoal/swarm/wire"
)

const (
	controlDial      = 5 * time.Second // by way of others, too
	controlTimeout   = 5 * time.Second // of a write, and of the answer to a Hello
	redialFirst      = 100 * time.Millisecond
	redialLast       = time.Second
	lingerRemoved    = 2 * time.Second
	maxQueueBytes    = 16 << 20
	maxQueueMessages = 4096
)

// controlLink sends control messages to one other member, on a stream that it opens and opens again. What can't be
// sent is dropped: the core repeats whatever matters. The loop only puts messages into the queue and never waits.
type controlLink struct {
	n    *Node
	to   Member
	done chan struct{} // closed when the sender has ended
	up   atomic.Bool   // there is a stream, and nobody carries it

	mu      sync.Mutex
	conn    net.Conn // nil while there is none
	queue   [][]byte // encoded
	bytes   int
	since   time.Time     // when conn was opened, or the last look for a better way ended
	seeking bool          // one is under way
	due     bool          // one is to be begun
	silent  bool          // conn was given up because nothing is heard through it
	instead net.Conn      // what takes its place then, if there is something
	ending  bool          // send what is queued, then end
	linger  time.Duration // but leave the stream open for so long: closing it may overtake what was sent
	wake    chan struct{} // one token: queue or ending has changed
}

func (n *Node) newControlLink(to Member) *controlLink {
	l := &controlLink{n: n, to: to, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	n.tasks.Go(func() {
		defer close(l.done)
		l.run()
	})
	return l
}

// push queues a message; false if it was dropped.
func (l *controlLink) push(m *wire.Control) bool {
	b, err := wire.AppendControl(nil, m)
	if err != nil {
		l.n.cfg.Log.Error("control message was not sent", "peer", l.to.Peer, "kind", m.Kind, "err", err)
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending || len(l.queue) >= maxQueueMessages || l.bytes+len(b) > maxQueueBytes {
		return false
	}
	l.queue = append(l.queue, b)
	l.bytes += len(b)
	l.signal()
	return true
}

func (l *controlLink) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// finish has the sender end once the queue is empty.
func (l *controlLink) finish(linger time.Duration) {
	l.mu.Lock()
	l.ending, l.linger = true, linger
	l.signal()
	l.mu.Unlock()
}

// take returns what is queued, and whether the sender is to end after it.
func (l *controlLink) take() (queue [][]byte, ending bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue, l.queue, l.bytes = l.queue, nil, 0
	return queue, l.ending
}

func (l *controlLink) isEnding() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ending
}

// run keeps a stream open until the node ends or finish is called. A stream that was reset is opened again at once: that
// it is refused then is how a process that was killed is found.
func (l *controlLink) run() {
	pause, known := redialFirst, false
	defer func() {
		if conn := l.replacement(); conn != nil {
			conn.Close()
		}
	}()
	for {
		var opened time.Time
		err := l.session(func() { opened, known, pause = time.Now(), true, redialFirst })
		if err == nil || l.n.ctx.Err() != nil {
			return
		}
		l.n.cfg.Log.Debug("control stream ended", "peer", l.to.Peer, "err", err)
		if _, ending := l.take(); ending { // what was queued is lost; nothing more will come
			return
		}
		silent := l.wasSilent()
		l.n.call(func() {
			l.n.core.Unreachable(l.to.ID)
			if !opened.IsZero() && !silent {
				l.n.core.LinkDown(l.to.ID)
			}
			if known && errors.Is(err, ErrRefused) {
				l.n.core.LinkDead(l.to.ID)
			}
		})
		if !opened.IsZero() && time.Since(opened) > redialFirst {
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-l.n.ctx.Done():
		}
		timer.Stop()
		pause = min(2*pause, redialLast)
		if l.isEnding() {
			return
		}
	}
}

// session opens a stream and sends on it until it breaks. It returns nil when the sender is to end.
func (l *controlLink) session(begun func()) error {
	conn := l.replacement()
	if conn == nil {
		var err error
		if conn, err = l.dial(); err != nil {
			return err
		}
	}
	defer conn.Close()
	defer context.AfterFunc(l.n.ctx, func() { conn.Close() })()
	begun()
	l.attach(conn)
	defer l.attach(nil)
	l.n.call(func() { l.n.core.LinkUp(l.to.ID) })

	broken := make(chan struct{}) // the other side says nothing here: any end of reading is the stream's end
	l.n.tasks.Go(func() {
		defer close(broken)
		io.CopyN(io.Discard, conn, 1)
		conn.Close()
	})
	for {
		queue, ending := l.take()
		for _, b := range queue {
			if err := l.n.write(conn, b); err != nil {
				return err
			}
		}
		if ending {
			l.rest(broken)
			return nil
		}
		select {
		case <-l.wake:
		case <-broken:
			return errors.New("reset by the other side")
		case <-l.n.ctx.Done():
			return nil
		}
	}
}

// attach makes conn the current stream, or none.
func (l *controlLink) attach(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, carried := conn.(*carriedConn)
	l.conn, l.since = conn, time.Now()
	l.up.Store(conn != nil && !carried)
}

// rest waits until the other side closes the stream, for as long as finish has said.
func (l *controlLink) rest(broken chan struct{}) {
	l.mu.Lock()
	timer := time.NewTimer(l.linger)
	l.mu.Unlock()
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-broken:
	case <-l.n.ctx.Done():
	}
}

// dial opens a stream and introduces this member. A refusal by the other member says nothing about whether it lives: one
// that was admitted a moment ago doesn't listen yet.
func (l *controlLink) dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(l.n.ctx, controlDial)
	defer cancel()
	conn, err := l.n.open(ctx, l.target(), wire.ControlProtocol)
	if err != nil {
		return nil, err
	}
	return l.greet(l.n.ctx, conn)
}

func (l *controlLink) target() exchangeMember { return exchangeMember{l.to.ID, l.to.Peer, l.to.Addrs} }

// greet introduces this member on a stream, which it closes if that fails or ctx ends meanwhile.
func (l *controlLink) greet(ctx context.Context, conn net.Conn) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	hello := l.n.toMember(wire.ControlHello, l.to.ID)
	answer, err := ask(conn, hello)
	if err == nil && answer.Kind != wire.ControlAccept {
		l.refused(hello, answer)
		err = fmt.Errorf("refused: %s", answer.Reason)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// refused takes an answer to a Hello that accepts nothing.
func (l *controlLink) refused(hello, answer *wire.Control) {
	switch {
	case answer.Kind == wire.ControlGone:
		answer.From, answer.To = l.to.ID, l.n.id
		l.n.call(func() { l.n.core.Step(answer) })
	case answer.Kind == wire.ControlRefused && answer.From == l.to.ID && answer.Generation < hello.Generation:
		l.n.offer(l.to)
	}
}

// toMember is what a stream to another member begins with.
func (n *Node) toMember(kind wire.ControlKind, id uint64) *wire.Control {
	now := n.known.Load()
	return &wire.Control{Kind: kind, Version: wire.ControlVersion, Run: n.cfg.RunID, From: n.id, To: id,
		Index: now.applied, Generation: now.generation}
}

// write sends an encoded message.
func (n *Node) write(conn net.Conn, b []byte) error {
	if err := conn.SetWriteDeadline(time.Now().Add(controlTimeout)); err != nil {
		return err
	}
	sent, err := conn.Write(b)
	n.sent.Add(int64(sent))
	return err
}

// meet makes links to new members. It runs in the loop, as part does.
func (n *Node) meet() {
	for id, m := range n.known.Load().members {
		if id != n.id && n.links[id] == nil {
			n.links[id] = n.newControlLink(m)
			n.exchange.add(exchangeMember{m.ID, m.Peer, m.Addrs})
		}
	}
}

// part ends everything that there is of those who aren't members any more.
func (n *Node) part() {
	members := n.known.Load().members
	for id, l := range n.links {
		if _, ok := members[id]; ok {
			continue
		}
		l.finish(lingerRemoved) // it is told so
		delete(n.links, id)
		n.exchange.remove(id)
		n.resetIncoming(id)
	}
}

// resetIncoming resets what a member has opened, without waiting.
func (n *Node) resetIncoming(id uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for conn := range n.conns[id] {
		n.tasks.Go(func() { conn.Close() })
	}
}

// resetStreams has all streams opened again, in another generation of the log. It runs in the loop.
func (n *Node) resetStreams(generation uint64) {
	n.exchange.setGeneration(generation)
	for id, l := range n.links {
		n.resetIncoming(id)
		l.mu.Lock()
		if conn := l.conn; conn != nil {
			n.tasks.Go(func() { conn.Close() })
		}
		l.mu.Unlock()
	}
}

// finishLinks has all senders end. It runs in the loop; awaitLinks waits for them, for a moment, outside of it.
func (n *Node) finishLinks() {
	for _, l := range n.links {
		l.finish(0)
	}
}

func (n *Node) awaitLinks() {
	timer := time.NewTimer(flushWait)
	defer timer.Stop()
	var links []*controlLink
	n.call(func() {
		for _, l := range n.links {
			links = append(links, l)
		}
	})
	for _, l := range links {
		select {
		case <-l.done:
		case <-timer.C:
			return
		}
	}
}
