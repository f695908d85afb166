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
	helloTimeout  = 10 * time.Second
	gradientWidth = 4       // bytes of an element
	maxUnits      = 1 << 16 // of a model
	// maxFaults is how many broken frames of one member an attempt survives, each by a new stream.
	maxFaults = 8
)

// errReplaced is why a reader ends whose stream its sender has opened anew.
var errReplaced = errors.New("the sender has opened another stream")

// incoming reads one class of data from one member.
type incoming struct {
	x        *exchange
	from     int // rank
	kind     wire.Kind
	conn     net.Conn
	r        *bufio.Reader
	count    *linkCounters
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
	from, err := x.admit(peer, hello)
	if err != nil {
		x.cfg.Log.Warn("refused a data stream", "peer", peer, "error", err)
		return err
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	in := &incoming{x: x, from: from, conn: conn, r: bufio.NewReader(conn), kind: wire.KindParams, count: &x.links[from].count}
	if hello.Class == wire.Gradients {
		in.kind = wire.KindGradient
	}
	if err := x.replace(in, hello.Class); err != nil {
		return err
	}
	err = in.readAll()
	x.release(in, hello.Class, err)
	return err
}

// admit says which rank a stream comes from, or why it is refused.
func (x *exchange) admit(peer string, h wire.Hello) (rank int, err error) {
	if h.Run != x.cfg.Run {
		return 0, fmt.Errorf("it is for run %q, this is %q", h.Run, x.cfg.Run)
	}
	if own := x.cfg.Members[x.cfg.Rank].ID; h.To != own {
		return 0, fmt.Errorf("it is for member %d, this is member %d", h.To, own)
	}
	for r, m := range x.cfg.Members {
		if m.ID == h.From && m.Peer == peer && r != x.cfg.Rank {
			return r, nil
		}
	}
	return 0, fmt.Errorf("it comes from member %d, which is not in the view under this peer id", h.From)
}

// replace makes in the stream in force for its member and class, once the reader of the one before has ended: so that a
// part is never taken from two streams at once.
func (x *exchange) replace(in *incoming, class wire.Class) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	slot := &x.links[in.from].reading[class-wire.Params]
	for *slot != nil && !x.closed {
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
	if x.closed {
		return errExchangeClosed
	}
	*slot = in
	return nil
}

// broken says whether a stream ended because what its sender wrote makes no sense.
func broken(err error) bool { return errors.Is(err, wire.ErrFrame) || errors.Is(err, wire.ErrChecksum) }

// release undoes replace. A stream that ended by a broken frame is held against its sender.
func (x *exchange) release(in *incoming, class wire.Class, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.links[in.from].reading[class-wire.Params] = nil
	x.change.Broadcast()
	if x.now == nil || !broken(err) {
		return
	}
	if x.now.faults[in.from]++; x.now.faults[in.from] > maxFaults {
		x.fail(x.now, fmt.Errorf("%s keeps sending broken frames: %w", x.name(in.from), err))
	}
}

func (in *incoming) readAll() error {
	for {
		h, err := wire.ReadHeader(in.r)
		if err != nil {
			return err
		}
		in.count.received.Add(wire.HeaderSize + uint64(h.Wire))
		if h.Kind != in.kind {
			return fmt.Errorf("%w: kind %d on a stream for kind %d", wire.ErrFrame, h.Kind, in.kind)
		}
		if err := in.frame(&h); err != nil {
			return err
		}
	}
}

// frame takes or drops the payload behind h.
func (in *incoming) frame(h *wire.Header) error {
	a, verdict, err := in.await(h)
	if err != nil {
		return err
	}
	if verdict == take {
		return in.take(a, h)
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

// await blocks while h is ahead of this member, see [Note: flow control], and then says what to do with its chunk.
func (in *incoming) await(h *wire.Header) (*attempt, verdict, error) {
	x := in.x
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		a := x.now
		switch {
		case x.closed:
			return nil, drop, errExchangeClosed
		case in.replaced:
			return nil, drop, errReplaced
		case a == nil || h.Fence > a.fence: // wait for begin
		case h.Fence < a.fence || a.err != nil:
			return nil, drop, nil
		default:
			got, known, err := in.progress(a, h)
			if err != nil {
				x.fail(a, fmt.Errorf("%s breaks the protocol: %w", x.name(in.from), err))
				return nil, drop, nil
			}
			if known {
				return a, judge(h, got), nil
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
func (in *incoming) progress(a *attempt, h *wire.Header) (got uint64, known bool, err error) {
	if in.kind == wire.KindParams {
		g := a.gathers[h.Tag]
		if g == nil {
			return 0, false, nil
		}
		got = g.got[in.from]
		if want := uint64(len(g.parts[in.from])); h.Part != want {
			return got, true, fmt.Errorf("all-gather %d: it gives %d bytes, %d were expected", h.Tag, h.Part, want)
		}
	} else {
		s, err := in.summand(a, h)
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

// summand finds or makes the record of a source's gradient for a unit. The lock is held.
func (in *incoming) summand(a *attempt, h *wire.Header) (*summand, error) {
	if h.Tag >= maxUnits || h.Part%gradientWidth != 0 || h.Offset%gradientWidth != 0 || h.Raw%gradientWidth != 0 {
		return nil, fmt.Errorf("gradient of unit %d: %d bytes at %d of %d are not whole int32s of a unit below %d", h.Tag, h.Raw, h.Offset, h.Part, maxUnits)
	}
	s := a.sums[in.from][h.Tag]
	if s == nil {
		s = &summand{part: h.Part, microbatches: h.Microbatches}
		a.sums[in.from][h.Tag] = s
	}
	if s.part != h.Part || s.microbatches != h.Microbatches {
		return nil, fmt.Errorf("gradient of unit %d: %d bytes of %d microbatches, before that %d bytes of %d", h.Tag, h.Part, h.Microbatches, s.part, s.microbatches)
	}
	return s, nil
}

// take reads the payload behind h, gives its tensor bytes to where they belong, and acknowledges a part that is whole.
func (in *incoming) take(a *attempt, h *wire.Header) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	payload := (*buf)[:h.Wire]
	if err := wire.ReadPayload(in.r, h, payload); err != nil {
		return err
	}
	in.count.payloadReceived.Add(int(h.Bytes()), int(h.Wire))
	if !in.x.enter(a) {
		return nil
	}
	err := in.deliver(a, h, payload)
	in.x.mu.Lock()
	in.x.leave(a)
	if err != nil {
		in.x.fail(a, fmt.Errorf("from %s: %w", in.x.name(in.from), err))
	} else if a.err == nil {
		in.advance(a, h)
	}
	goesOn := a.err == nil
	in.x.mu.Unlock()
	if goesOn && h.Last() {
		return in.acknowledge(h)
	}
	return nil
}

// deliver unpacks payload into the part that it belongs to, or gives it to the sink. It runs inside of a.
func (in *incoming) deliver(a *attempt, h *wire.Header, payload []byte) error {
	if in.kind == wire.KindParams {
		in.x.mu.Lock()
		g := a.gathers[h.Tag]
		in.x.mu.Unlock()
		return unpack(g.parts[in.from][h.Offset:h.Offset+uint64(h.Raw)], payload, h.Codec, g.width)
	}
	data := payload
	if h.Codec != wire.CodecRaw {
		buf := buffers.Get().(*[]byte)
		defer buffers.Put(buf)
		data = (*buf)[:h.Raw]
		if err := unpack(data, payload, h.Codec, gradientWidth); err != nil {
			return err
		}
	}
	unit := int(h.Tag)
	if err := a.sink.Add(unit, in.from, int(h.Offset/gradientWidth), data); err != nil {
		return fmt.Errorf("gradient of unit %d: %w", unit, err)
	}
	if h.Last() {
		if err := a.sink.Done(unit, in.from, int(h.Microbatches)); err != nil {
			return fmt.Errorf("gradient of unit %d: %w", unit, err)
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
func (in *incoming) advance(a *attempt, h *wire.Header) {
	if in.kind == wire.KindGradient {
		a.sums[in.from][h.Tag].got += uint64(h.Raw)
		return
	}
	g := a.gathers[h.Tag]
	g.got[in.from] += uint64(h.Raw)
	if h.Last() {
		if g.missing--; g.missing == 0 {
			in.x.change.Broadcast()
		}
	}
}

// acknowledge tells the sender that the whole part of h is here.
func (in *incoming) acknowledge(h *wire.Header) error {
	frame := make([]byte, wire.HeaderSize)
	if err := wire.Seal(frame, wire.Header{Kind: wire.KindAck, Tag: h.Tag, Fence: h.Fence, Part: h.Part}); err != nil {
		return err
	}
	if _, err := in.conn.Write(frame); err != nil {
		return fmt.Errorf("acknowledging: %w", err)
	}
	in.count.sent.Add(wire.HeaderSize)
	return nil
}
