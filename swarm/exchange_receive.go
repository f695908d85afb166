package swarm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"shoal/swarm/codec"
	"shoal/swarm/wire"
)

const (
	helloTimeout = 10 * time.Second
	sumWidth     = 4       // bytes of an element that is given
	maxTag       = 1 << 20 // units of a model, or ranges
	// maxFaults is how many broken frames of one member an attempt survives, each by a new stream.
	maxFaults = 8
)

// errReplaced is why a reader ends whose stream is of no use any more.
var errReplaced = errors.New("another stream takes its place")

// incoming reads one class of data from one member.
type incoming struct {
	x        *exchange
	l        *link
	class    wire.Class
	conn     net.Conn
	r        *bufio.Reader
	replaced bool // guarded by the exchange's lock
}

// handle serves an incoming stream until it ends.
func (x *exchange) handle(peer string, conn net.Conn) {
	defer conn.Close()
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return
	}
	x.tasks.Add(1)
	x.incoming[conn] = true
	x.mu.Unlock()
	defer x.tasks.Done()

	err := x.receive(peer, conn)

	x.mu.Lock()
	delete(x.incoming, conn)
	closed := x.closed
	x.mu.Unlock()
	switch {
	case closed || errors.Is(err, errReplaced):
	case broken(err):
		x.cfg.Log.Warn("reset a data stream with a broken frame", "peer", peer, "error", err)
	default:
		x.cfg.Log.Debug("incoming data stream ended", "peer", peer, "error", err)
	}
}

func (x *exchange) receive(peer string, conn net.Conn) error {
	if err := conn.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return err
	}
	hello, err := wire.ReadHello(conn)
	if err != nil {
		return err
	}
	in := &incoming{x: x, class: hello.Class, conn: conn, r: bufio.NewReader(conn)}
	if in.l, err = x.admit(peer, hello); err != nil {
		x.cfg.Log.Debug("refused a data stream", "peer", peer, "error", err)
		return err
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	if err := x.replace(in); err != nil {
		return err
	}
	err = in.readAll()
	x.release(in, err)
	return err
}

// admit says which member a stream comes from, or why it is refused: then its sender tries again, which is right for
// one of whose admission this member hasn't heard yet.
func (x *exchange) admit(peer string, h wire.Hello) (*link, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.links[h.From]
	switch {
	case h.Run != x.cfg.Run:
		return nil, fmt.Errorf("it is for run %q, this is %q", h.Run, x.cfg.Run)
	case h.To != x.cfg.Self:
		return nil, fmt.Errorf("it is for member %d, this is member %d", h.To, x.cfg.Self)
	case h.Generation != x.generation:
		return nil, fmt.Errorf("it is for generation %d of the log, this member is in %d", h.Generation, x.generation)
	case l == nil || l.to.Peer != peer:
		return nil, fmt.Errorf("it comes from %d, which is no member under this peer id", h.From)
	}
	return l, nil
}

// replace makes in the stream in force for its member and class, once the reader of the one before has ended: so that a
// part is never taken from two streams at once.
func (x *exchange) replace(in *incoming) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	slot := &in.l.reading[in.class-wire.Params]
	for *slot != nil && !in.over() {
		old := *slot
		old.replaced = true
		x.change.Broadcast()
		x.mu.Unlock()
		old.conn.Close()
		x.mu.Lock()
		for *slot == old {
			x.change.Wait()
		}
	}
	if in.over() {
		return ErrClosed
	}
	*slot = in
	return nil
}

// over says whether nothing more may be read. The lock is held.
func (in *incoming) over() bool { return in.x.closed || in.l.gone }

// broken says whether a stream ended because what its sender wrote makes no sense.
func broken(err error) bool { return errors.Is(err, wire.ErrFrame) || errors.Is(err, wire.ErrChecksum) }

// release undoes replace. A stream that ended by a broken frame is held against its sender.
func (x *exchange) release(in *incoming, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	in.l.reading[in.class-wire.Params] = nil
	x.change.Broadcast()
	a := x.now
	if a == nil || !broken(err) {
		return
	}
	rank := a.rank(in.l)
	if rank < 0 {
		return
	}
	if a.faults[rank]++; a.faults[rank] > maxFaults {
		x.fail(a, fmt.Errorf("%s keeps sending broken frames: %w", a.name(rank), err))
	}
}

func (in *incoming) readAll() error {
	var h wire.Header
	for {
		var err error
		if h, err = wire.ReadHeader(in.r); err != nil {
			return err
		}
		in.l.count.received.Add(wire.HeaderSize + uint64(h.Wire))
		if h.Kind.Class() != in.class {
			return fmt.Errorf("%w: kind %d on a stream for %s", wire.ErrFrame, h.Kind, in.class)
		}
		if err := in.frame(&h); err != nil {
			return err
		}
	}
}

// frame takes or drops the payload behind h.
func (in *incoming) frame(h *wire.Header) error {
	a, rank, verdict, err := in.await(h)
	if err != nil {
		return err
	}
	if verdict == take {
		return in.take(a, rank, h)
	}
	if _, err := io.CopyN(io.Discard, in.r, int64(h.Wire)); err != nil {
		return err
	}
	if verdict == dropLast {
		return in.acknowledge(h)
	}
	return nil
}

type verdict int

const (
	take     verdict = iota // and add it
	drop                    // too old, or here already
	dropLast                // here already, and so is its whole part: say so once more
)

// await blocks while h is ahead of this member, see [Note: flow control], and then says what to do with its chunk. Nothing
// of an older attempt, or from a member outside of the attempt's view, is taken.
func (in *incoming) await(h *wire.Header) (a *attempt, rank int, v verdict, err error) {
	x := in.x
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		a := x.now
		switch {
		case in.over():
			return nil, 0, drop, ErrClosed
		case in.replaced:
			return nil, 0, drop, errReplaced
		case h.Fence < x.fence:
			return nil, 0, drop, nil
		case a == nil || h.Fence > a.fence: // wait for begin
		case h.Fence < a.fence || a.err != nil:
			return nil, 0, drop, nil
		default:
			rank := a.rank(in.l)
			if rank < 0 {
				return nil, 0, drop, nil
			}
			got, known, err := a.progress(rank, h)
			if err != nil {
				x.fail(a, fmt.Errorf("%s breaks the protocol: %w", a.name(rank), err))
				return nil, 0, drop, nil
			}
			if known {
				return a, rank, judge(h, got), nil
			}
		}
		x.change.Wait()
	}
}

// judge compares a chunk with how many bytes of its part are here; progress has excluded gaps.
func judge(h *wire.Header, got uint64) verdict {
	switch {
	case h.Offset == got:
		return take
	case h.Last():
		return dropLast
	}
	return drop
}

// progress says how many bytes of h's part are here; known is false while its all-gather has not been posted. An error
// means that the chunk fits nothing that its sender may send. The lock is held.
func (a *attempt) progress(rank int, h *wire.Header) (got uint64, known bool, err error) {
	if h.Kind == wire.KindParams {
		g := a.gathers[h.Tag]
		if g == nil {
			return 0, false, nil
		}
		got = g.got[rank]
		if want := uint64(len(g.parts[rank])); h.Part != want {
			return got, true, fmt.Errorf("all-gather %d: it gives %d bytes, %d were expected", h.Tag, h.Part, want)
		}
	} else {
		s, err := a.summand(rank, h)
		if err != nil {
			return 0, true, err
		}
		got = s.got
	}
	if h.Offset > got || (h.Offset < got && h.Offset+uint64(h.Raw) > got) {
		return got, true, fmt.Errorf("collective %d: a chunk at %d of %d bytes, after %d bytes", h.Tag, h.Offset, h.Raw, got)
	}
	return got, true, nil
}

// summand finds or makes the record of what a source gives under a kind and tag. The lock is held.
func (a *attempt) summand(rank int, h *wire.Header) (*summand, error) {
	if h.Tag >= maxTag || h.Part%sumWidth != 0 || h.Offset%sumWidth != 0 || h.Raw%sumWidth != 0 {
		return nil, fmt.Errorf("%s %d: %d bytes at %d of %d are not whole elements of a tag below %d", Kind(h.Kind), h.Tag, h.Raw, h.Offset, h.Part, maxTag)
	}
	key := sumKey{h.Kind, h.Tag}
	s := a.sums[rank][key]
	if s == nil {
		s = &summand{part: h.Part, count: h.Microbatches}
		a.sums[rank][key] = s
	}
	if s.part != h.Part || s.count != h.Microbatches {
		return nil, fmt.Errorf("%s %d: %d bytes of %d microbatches, before that %d bytes of %d", Kind(h.Kind), h.Tag, h.Part, h.Microbatches, s.part, s.count)
	}
	return s, nil
}

// take reads the payload behind h, gives its tensor bytes to where they belong, and acknowledges a part that is whole.
func (in *incoming) take(a *attempt, rank int, h *wire.Header) error {
	buf := buffer(int(h.Wire))
	defer buffers.Put(buf)
	payload := (*buf)[:h.Wire]
	if err := wire.ReadPayload(in.r, h, payload); err != nil {
		return err
	}
	in.l.count.payloadReceived.Add(int(h.Bytes()), int(h.Wire))
	in.x.count.received[h.Kind][h.Codec].Add(wire.HeaderSize + int64(h.Wire))
	if !in.x.enter(a) {
		return nil
	}
	err := in.deliver(a, rank, h, payload)
	in.x.mu.Lock()
	in.x.leave(a)
	if err != nil {
		in.x.fail(a, fmt.Errorf("from %s: %w", a.name(rank), err))
	} else if a.err == nil {
		in.advance(a, rank, h)
	}
	goesOn := a.err == nil
	in.x.mu.Unlock()
	if goesOn && h.Last() {
		return in.acknowledge(h)
	}
	return nil
}

// deliver unpacks payload into the part that it belongs to, or gives it to the sink. It runs inside of a.
func (in *incoming) deliver(a *attempt, rank int, h *wire.Header, payload []byte) error {
	if h.Kind == wire.KindParams {
		in.x.mu.Lock()
		g := a.gathers[h.Tag]
		in.x.mu.Unlock()
		return unpack(g.parts[rank][h.Offset:h.Offset+uint64(h.Raw)], payload, h.Codec, g.width)
	}
	data := payload
	if h.Codec != wire.CodecRaw {
		buf := buffer(int(h.Raw))
		defer buffers.Put(buf)
		data = (*buf)[:h.Raw]
		if err := unpack(data, payload, h.Codec, sumWidth); err != nil {
			return err
		}
	}
	kind, tag := Kind(h.Kind), int(h.Tag)
	if err := a.sink.Add(kind, tag, rank, int(h.Offset/sumWidth), data); err != nil {
		return fmt.Errorf("%s %d: %w", kind, tag, err)
	}
	if h.Last() {
		if err := a.sink.Done(kind, tag, rank, int(h.Microbatches)); err != nil {
			return fmt.Errorf("%s %d: %w", kind, tag, err)
		}
	}
	return nil
}

// unpack fills dst with elements of width bytes from payload, whose length was compared with the header.
func unpack(dst, payload []byte, c wire.Codec, width int) error {
	some := dst
	if c.Narrowed() {
		if width != 4 {
			return fmt.Errorf("%w: narrowed elements of %d bytes", wire.ErrFrame, width)
		}
		some, width = dst[:len(dst)/2], 2
	}
	if !c.Packed() {
		copy(some, payload)
	} else if err := codec.Unpack(some, payload, width); err != nil {
		return err
	}
	codec.Widen(dst, codec.Form(c>>1))
	return nil
}

// advance records that h's chunk is here. The lock is held.
func (in *incoming) advance(a *attempt, rank int, h *wire.Header) {
	if h.Kind != wire.KindParams {
		a.sums[rank][sumKey{h.Kind, h.Tag}].got += uint64(h.Raw)
		return
	}
	g := a.gathers[h.Tag]
	g.got[rank] += uint64(h.Raw)
	if h.Last() {
		if g.missing--; g.missing == 0 {
			in.x.change.Broadcast()
		}
	}
}

// acknowledge tells the sender that the whole part of h is here.
func (in *incoming) acknowledge(h *wire.Header) error {
	frame := make([]byte, wire.HeaderSize)
	if err := wire.Seal(frame, wire.Header{Kind: wire.KindAck, Of: h.Kind, Tag: h.Tag, Fence: h.Fence, Part: h.Part}); err != nil {
		return err
	}
	if _, err := in.conn.Write(frame); err != nil {
		return fmt.Errorf("acknowledging: %w", err)
	}
	in.l.count.sent.Add(wire.HeaderSize)
	return nil
}
