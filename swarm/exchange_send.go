package swarm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"shoal/swarm/codec"
	"shoal/swarm/wire"
)

const (
	// sentChunk is the most tensor bytes in a frame that is sent. A frame that fits into a core's cache is copied, summed and
	// encrypted there; larger ones, which may be received, cost a tenth more of the processor's time.
	sentChunk = 256 << 10

	dialTimeout = 10 * time.Second
	minBackoff  = 20 * time.Millisecond // between two tries to open a stream; doubles
	maxBackoff  = time.Second
	unreachable = 15 * time.Second // without a way to a member for which there is data: the attempt fails
)

// buffers hold one frame each, or what is in it.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// buffer is an empty one from buffers with room for n bytes: most parts of small models need far less than a whole chunk.
func buffer(n int) *[]byte {
	const least = 4 << 10
	b := buffers.Get().(*[]byte)
	if cap(*b) < n {
		size := least
		for size < n {
			size *= 2
		}
		*b = make([]byte, 0, max(n, min(size, frameSize(wire.MaxChunk))))
	}
	return b
}

// frameSize is how long a frame of n tensor bytes can get.
func frameSize(n int) int { return wire.HeaderSize + codec.MaxPacked(n, sumWidth) }

// outgoing sends one class of data to one member: a queue, a goroutine and, while there is something to send, a stream.
type outgoing struct {
	x      *exchange
	l      *link
	class  wire.Class
	speed  *codec.Link
	choose *codec.Chooser
	wake   sync.Cond // something below, or the link's end, concerns the sender

	carried int64         // bytes that the stream's connection had sent when that was looked at last
	busy    time.Duration // how long it had been at that

	// Guarded by the exchange's lock.
	queue  []*piece // not acknowledged, in the order of posting
	next   int      // queue[:next] are being or have been written to conn
	conn   net.Conn // nil while there is none
	broken bool     // conn is of no use any more
	moved  bool     // something was acknowledged on conn
}

func (x *exchange) newOutgoing(l *link, class wire.Class, speed *codec.Link) *outgoing {
	o := &outgoing{x: x, l: l, class: class, speed: speed, choose: codec.NewChooser(x.cfg.Packing, speed)}
	o.wake.L = &x.mu
	return o
}

// put queues a piece. The lock is held.
func (o *outgoing) put(p *piece) {
	o.queue = append(o.queue, p)
	o.wake.Broadcast()
}

// over says whether there is nothing to send any more, ever. The lock is held.
func (o *outgoing) over() bool { return o.x.closed || o.l.gone }

// run opens a stream whenever there is something to send and sends until it breaks. A member to whom nothing gets
// through, though its control stream lives, ends the attempt here.
func (o *outgoing) run() {
	backoff := minBackoff
	var since time.Time // when the first of the tries failed that have moved nothing
	for {
		idle, ok := o.awaitWork()
		if !ok {
			return
		}
		if idle {
			since = time.Time{}
		}
		moved, err := o.session()
		if o.l.ctx.Err() != nil {
			return
		}
		o.x.cfg.Log.Debug("data stream ended, opening it again", "to", o.l.to.Peer, "class", o.class, "error", err)
		switch {
		case moved:
			backoff, since = minBackoff, time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > unreachable:
			o.fail(err)
		}
		if !o.pause(backoff) {
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// fail ends the attempt because there is no way to the member.
func (o *outgoing) fail(err error) {
	o.x.mu.Lock()
	defer o.x.mu.Unlock()
	if a := o.x.now; a != nil && a.rank(o.l) >= 0 {
		o.x.fail(a, fmt.Errorf("no data gets through to %s: %w", a.name(a.rank(o.l)), err))
	}
}

// awaitWork blocks until the queue holds something, and says whether it was empty; ok is false once the link has ended.
func (o *outgoing) awaitWork() (idle, ok bool) {
	o.x.mu.Lock()
	defer o.x.mu.Unlock()
	for !o.over() && len(o.queue) == 0 {
		idle = true
		o.wake.Wait()
	}
	return idle, !o.over()
}

func (o *outgoing) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-o.l.ctx.Done():
		return false
	}
}

// session opens a stream and sends pieces until something breaks. moved says whether any part arrived.
func (o *outgoing) session() (moved bool, err error) {
	conn, err := o.open()
	if err != nil {
		return false, err
	}
	o.carried, o.busy = 0, 0
	acks := make(chan error, 1)
	go func() { acks <- o.readAcks(conn) }()
	err = o.sendAll(conn)
	conn.Close()
	return o.detach(), errors.Join(err, <-acks)
}

// open dials, says hello and makes the stream the current one.
func (o *outgoing) open() (net.Conn, error) {
	x := o.x
	ctx, cancel := context.WithTimeout(o.l.ctx, dialTimeout)
	defer cancel()
	conn, err := x.cfg.Open(ctx, o.l.to, wire.DataProtocol)
	if err != nil {
		return nil, fmt.Errorf("opening a stream: %w", err)
	}
	generation, ok := o.attach(conn)
	if !ok {
		conn.Close()
		return nil, ErrClosed
	}
	hello, err := wire.AppendHello(nil, wire.Hello{Run: x.cfg.Run, From: x.cfg.Self, To: o.l.to.ID, Generation: generation, Class: o.class})
	if err == nil {
		_, err = conn.Write(hello)
	}
	if err != nil {
		conn.Close()
		o.detach()
		return nil, fmt.Errorf("saying hello: %w", err)
	}
	o.l.count.sent.Add(uint64(len(hello)))
	return conn, nil
}

// attach makes conn the current stream, on which nothing has been sent; ok is false once the link has ended.
func (o *outgoing) attach(conn net.Conn) (generation uint64, ok bool) {
	o.x.mu.Lock()
	defer o.x.mu.Unlock()
	if o.over() {
		return 0, false
	}
	o.conn, o.broken, o.moved, o.next = conn, false, false, 0
	for _, p := range o.queue {
		p.written = false
	}
	return o.x.generation, true
}

func (o *outgoing) detach() (moved bool) {
	o.x.mu.Lock()
	defer o.x.mu.Unlock()
	o.conn = nil
	return o.moved
}

// sendAll sends pieces as they are queued, until the stream breaks or the link ends.
func (o *outgoing) sendAll(conn net.Conn) error {
	for {
		p := o.take()
		if p == nil {
			return nil
		}
		if err := o.send(conn, p); err != nil {
			return err
		}
	}
}

// take blocks until there is a piece to send; nil means that there is nothing more to do with this stream.
func (o *outgoing) take() *piece {
	o.x.mu.Lock()
	defer o.x.mu.Unlock()
	for {
		switch {
		case o.over() || o.broken:
			return nil
		case o.next < len(o.queue):
			o.next++
			return o.queue[o.next-1]
		}
		o.wake.Wait()
	}
}

// send writes p chunk by chunk, and stops without an error where the attempt ends.
func (o *outgoing) send(conn net.Conn, p *piece) error {
	buf := buffer(frameSize(min(len(p.data), sentChunk)))
	defer buffers.Put(buf)
	for at := 0; at < len(p.data); at += sentChunk {
		frame, n, err := o.encode(*buf, p, at)
		if frame == nil || err != nil {
			return err
		}
		start := time.Now()
		if _, err := conn.Write(frame); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
		o.measure(conn, len(frame), time.Since(start))
		o.l.count.sent.Add(uint64(len(frame)))
		o.l.count.class[o.class-wire.Params].Add(uint64(len(frame)))
		o.x.count.sent[frame[0]][frame[1]].Add(int64(len(frame))) // the header begins with kind and codec
		o.l.count.payloadSent.Add(n, len(frame)-wire.HeaderSize)
	}
	return nil
}

// carrier is a stream that knows what the connection below it has sent, and for how long it was at that: see peer.Host.
type carrier interface {
	Carried() (bytes int64, busy time.Duration)
}

// measure takes note of the link's speed, after n bytes were written to conn in took.
func (o *outgoing) measure(conn net.Conn, n int, took time.Duration) {
	if c, ok := conn.(carrier); ok {
		if bytes, busy := c.Carried(); bytes > 0 {
			if o.carried > 0 && bytes > o.carried {
				o.speed.Wrote(int(bytes-o.carried), busy-o.busy)
			}
			o.carried, o.busy = bytes, busy
			return
		}
	}
	if o.class == wire.Gradients { // the receiver never lets these wait, so the time is the link's
		o.speed.Wrote(n, took)
	}
}

// encode makes the frame for p's chunk at offset at, in buf if it has room, and counts the tensor bytes in it before
// packing. No frame means that the attempt has ended.
func (o *outgoing) encode(buf []byte, p *piece, at int) (frame []byte, n int, err error) {
	if !o.x.enter(p.attempt) {
		return nil, 0, nil
	}
	raw := p.data[at:min(at+sentChunk, len(p.data))]
	h := p.head
	h.Offset, h.Raw = uint64(at), uint32(len(raw))
	frame, h.Codec, err = o.payload(buf[:wire.HeaderSize], p, at, raw)
	if err == nil {
		err = wire.Seal(frame, h)
	}
	o.x.mu.Lock()
	defer o.x.mu.Unlock()
	p.written = err == nil && at+len(raw) == len(p.data)
	o.x.leave(p.attempt)
	if err != nil { // the caller gave what can't be sent: trying again would not help
		o.x.fail(p.attempt, err)
		return nil, 0, nil
	}
	return frame, int(h.Bytes()), nil
}

// payload appends raw to frame, narrowed where that is possible, and packed where that is wanted and makes it shorter.
func (o *outgoing) payload(frame []byte, p *piece, at int, raw []byte) (_ []byte, c wire.Codec, err error) {
	width := p.width
	if width == 4 {
		buf := buffer(len(raw) / 2)
		defer buffers.Put(buf)
		if half, form := codec.Narrow((*buf)[:0], raw); form != codec.Whole {
			raw, width, c = half, 2, wire.Codec(form)<<1
		}
	}
	if !o.choose.Pack(len(raw), width) {
		return append(frame, raw...), c, nil
	}
	var packed []byte
	var took time.Duration
	if p.packed != nil {
		var chunk packedChunk
		chunk, err = p.packed.get(at/sentChunk, raw, width)
		packed, took = chunk.bytes, chunk.took
		frame = append(frame, packed...)
	} else {
		start := time.Now()
		frame, err = codec.Pack(frame, raw, width)
		packed, took = frame[wire.HeaderSize:], time.Since(start)
	}
	if err != nil {
		return frame, c, err
	}
	o.choose.Packed(len(raw), len(packed), took)
	if len(packed) >= len(raw) {
		return append(frame[:wire.HeaderSize], raw...), c, nil
	}
	return frame, c | wire.CodecPlanes, nil
}

// readAcks takes acknowledgements until the stream ends, which it then declares broken.
func (o *outgoing) readAcks(conn net.Conn) error {
	defer func() {
		conn.Close()
		o.x.mu.Lock()
		o.broken = true
		o.wake.Broadcast()
		o.x.mu.Unlock()
	}()
	var h wire.Header
	for {
		var err error
		if h, err = wire.ReadHeader(conn); err != nil {
			return err
		}
		if h.Kind != wire.KindAck {
			return fmt.Errorf("%w: kind %d instead of an acknowledgement", wire.ErrFrame, h.Kind)
		}
		o.l.count.received.Add(wire.HeaderSize)
		o.acknowledge(&h)
	}
}

// acknowledge takes the piece that h names off the queue.
func (o *outgoing) acknowledge(h *wire.Header) {
	o.x.mu.Lock()
	defer o.x.mu.Unlock()
	i := slices.IndexFunc(o.queue, func(p *piece) bool {
		return p.written && p.head.Fence == h.Fence && p.head.Kind == h.Of && p.head.Tag == h.Tag && p.head.Part == h.Part
	})
	if i < 0 {
		return // of an attempt that has ended
	}
	p := o.queue[i]
	o.queue = slices.Delete(o.queue, i, i+1)
	o.next--
	o.moved = true
	p.sum.settle(p.rank)
	if p.sum.left() == 0 {
		o.x.change.Broadcast()
	}
}
