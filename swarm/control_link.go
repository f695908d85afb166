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
	controlDial      = 3 * time.Second
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

	mu     sync.Mutex
	queue  [][]byte // encoded
	bytes  int
	ending bool          // send what is queued, then end
	linger time.Duration // but leave the stream open for so long: closing it may overtake what was sent
	wake   chan struct{} // one token: queue or ending has changed
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

// run keeps a stream open until the node ends or finish is called.
func (l *controlLink) run() {
	pause := redialFirst
	for {
		was := false
		err := l.session(func() { was, pause = true, redialFirst })
		if err == nil || l.n.ctx.Err() != nil {
			return
		}
		l.n.cfg.Log.Debug("control stream ended", "peer", l.to.Peer, "err", err)
		if _, ending := l.take(); ending { // what was queued is lost; nothing more will come
			return
		}
		l.n.call(func() {
			l.n.core.Unreachable(l.to.ID)
			if was {
				l.n.core.LinkDown(l.to.ID)
			}
		})
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-l.n.ctx.Done():
		}
		timer.Stop()
		pause = min(2*pause, redialLast)
	}
}

// session opens a stream and sends on it until it breaks. It returns nil when the sender is to end.
func (l *controlLink) session(opened func()) error {
	conn, err := l.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	opened()
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

// dial opens a stream and introduces this member. A refusal says nothing of a member that was admitted a moment ago and
// doesn't listen yet; so only the end of a stream tells the core that a link is down, and else silence decides.
func (l *controlLink) dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(l.n.ctx, controlDial)
	defer cancel()
	conn, err := l.n.cfg.Transport.Open(ctx, l.to.Peer, l.to.Addrs, wire.ControlProtocol)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(l.n.ctx, func() { conn.Close() })
	hello := &wire.Control{Kind: wire.ControlHello, Version: wire.ControlVersion, Run: l.n.cfg.RunID, From: l.n.id, To: l.to.ID}
	answer, err := ask(conn, hello)
	if err == nil && answer.Kind != wire.ControlAccept {
		err = fmt.Errorf("refused: %s", answer.Reason)
	}
	if err != nil {
		stop()
		conn.Close()
		return nil, err
	}
	return conn, nil
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

// matchLinks keeps one link for each other member. It runs in the loop.
func (n *Node) matchLinks() {
	members := n.known.Load().members
	for id, m := range members {
		if id != n.id && n.links[id] == nil {
			n.links[id] = n.newControlLink(m)
		}
	}
	for id, l := range n.links {
		if _, ok := members[id]; !ok {
			l.finish(lingerRemoved) // it is told so
			delete(n.links, id)
		}
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
