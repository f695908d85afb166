package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall/js"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	"github.com/libp2p/go-libp2p/p2p/security/noise/pb"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/multiformats/go-multihash"
)

const (
	// wtChunk is how many bytes a stream hands to the browser at a time. The browser takes the next ones when it has sent them.
	wtChunk = 128 << 10

	wtOpenWait     = 5 * time.Millisecond // until a stream is asked for again, at first
	wtOpenMostWait = 20 * time.Millisecond
)

// webTransport is libp2p's WebTransport over the browser's. It can't listen.
//
// The browser checks the certificate against the hashes in the address. A Noise handshake on the session's first stream
// proves who the other end is, and that the hashes are its own. From then on only QUIC encrypts, which is not done here.
type webTransport struct {
	self      peer.ID
	security  *noise.Transport
	resources network.ResourceManager
}

var (
	_ transport.Transport    = (*webTransport)(nil)
	_ transport.SkipResolver = (*webTransport)(nil)
)

// hasWebTransport says whether it is there, which it is in secure contexts only, and works. Firefox (153) throws away what it
// has received of a stream when the other end says that it won't read on, with which many of libp2p's streams end. Only
// Chromium is known to be right.
func hasWebTransport() bool {
	return !js.Global().Get("WebTransport").IsUndefined() && strings.Contains(userAgent(), "Chrome/")
}

func userAgent() string {
	if navigator := js.Global().Get("navigator"); navigator.Type() == js.TypeObject {
		return navigator.Get("userAgent").String()
	}
	return ""
}

func (t *webTransport) CanDial(a ma.Multiaddr) bool {
	return kindOf(a) == kindWebTransport && len(certHashes(a)) > 0
}

func (t *webTransport) Protocols() []int { return []int{ma.P_WEBTRANSPORT} }
func (t *webTransport) Proxy() bool      { return false }

// SkipResolve is true: the browser resolves names.
func (t *webTransport) SkipResolve(context.Context, ma.Multiaddr) bool { return true }

func (t *webTransport) Listen(a ma.Multiaddr) (transport.Listener, error) {
	return nil, fmt.Errorf("listen on %s: a browser can't: %w", a, errors.ErrUnsupported)
}

func (t *webTransport) Dial(ctx context.Context, a ma.Multiaddr, id peer.ID) (transport.CapableConn, error) {
	scope, err := t.resources.OpenConnection(network.DirOutbound, false, a)
	if err != nil {
		return nil, err
	}
	if err := scope.SetPeer(id); err != nil {
		scope.Done()
		return nil, err
	}
	c, err := t.dial(ctx, a, id, scope)
	if err != nil {
		scope.Done()
		return nil, err
	}
	return c, nil
}

func (t *webTransport) dial(ctx context.Context, a ma.Multiaddr, id peer.ID, scope network.ConnManagementScope) (*wtConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	used := certHashes(a)
	options, err := wtOptions(used)
	if err != nil {
		return nil, err
	}
	c := &wtConn{transport: t, addr: withoutCertHashes(a), id: id, scope: scope}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	url := "https://" + net.JoinHostPort(a[0].Value(), a[1].Value()) + "/.well-known/libp2p-webtransport?type=noise"
	if err := try(func() { c.session = js.Global().Get("WebTransport").New(url, options) }); err != nil {
		return nil, err
	}
	then(c.session.Get("closed"), func(s settled) { // however the session ends, also when it never begins
		if s.err == nil {
			s.err = io.EOF
		}
		c.cancel(s.err)
	})
	if _, err := await(ctx, c.session.Get("ready")); err != nil {
		c.close(0)
		return nil, err
	}
	c.incoming = c.session.Get("incomingBidirectionalStreams").Call("getReader")
	if err := c.handshake(ctx, used); err != nil {
		c.close(0)
		return nil, err
	}
	return c, nil
}

// wtOptions are those of a session whose server's certificate has one of the hashes.
func wtOptions(hashes [][]byte) (js.Value, error) {
	list := js.Global().Get("Array").New()
	for _, h := range hashes {
		decoded, err := multihash.Decode(h)
		if err != nil || decoded.Code != multihash.SHA2_256 {
			return js.Value{}, errors.New("the address has a certificate's hash that is not SHA-256")
		}
		value := uint8Array().New(len(decoded.Digest))
		js.CopyBytesToJS(value, decoded.Digest)
		list.Call("push", map[string]any{"algorithm": "sha-256", "value": value})
	}
	options := js.Global().Get("Object").New()
	options.Set("serverCertificateHashes", list)
	return options, nil
}

// handshake proves who is at the other end, and that the certificates which the browser takes are its own.
func (c *wtConn) handshake(ctx context.Context, used [][]byte) error {
	s, err := c.OpenStream(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	var own ownHashes
	n, err := c.transport.security.WithSessionOptions(noise.EarlyData(&own, nil))
	if err != nil {
		return err
	}
	secured, err := n.SecureOutbound(ctx, wtNetConn{s.(*wtStream)}, c.id)
	if err != nil {
		return err
	}
	defer secured.Close()
	for _, h := range used {
		if !slices.ContainsFunc(own.list, func(o []byte) bool { return bytes.Equal(o, h) }) {
			return errors.New("the certificate in the address is not one of this peer's")
		}
	}
	c.key = secured.RemotePublicKey()
	return nil
}

// ownHashes gets what the other end says in its handshake: the multihashes of its certificates.
type ownHashes struct{ list [][]byte }

func (o *ownHashes) Send(context.Context, net.Conn, peer.ID) *pb.NoiseExtensions { return nil }

func (o *ownHashes) Received(_ context.Context, _ net.Conn, said *pb.NoiseExtensions) error {
	o.list = said.GetWebtransportCerthashes()
	return nil
}

// wtConn is a session.
type wtConn struct {
	transport *webTransport
	addr      ma.Multiaddr
	id        peer.ID
	key       crypto.PubKey
	scope     network.ConnManagementScope
	session   js.Value
	incoming  js.Value // reader of streams
	accepting sync.Mutex
	once      sync.Once

	ctx    context.Context // ends with the session; its cause says why
	cancel context.CancelCauseFunc
}

var _ transport.CapableConn = (*wtConn)(nil)

func (c *wtConn) Close() error { return c.CloseWithError(0) }

func (c *wtConn) CloseWithError(code network.ConnErrorCode) error {
	c.close(code)
	c.once.Do(c.scope.Done)
	return nil
}

func (c *wtConn) close(code network.ConnErrorCode) {
	c.cancel(net.ErrClosed)
	try(func() { c.session.Call("close", map[string]any{"closeCode": uint32(code)}) }) // it throws if it never began
}

func (c *wtConn) IsClosed() bool { return c.ctx.Err() != nil }

// failed is the error of whoever uses the session after its end.
func (c *wtConn) failed() error {
	why := context.Cause(c.ctx)
	if why == io.EOF {
		why = errors.New("the other end has closed it")
	}
	return fmt.Errorf("connection has ended: %w", why)
}

// OpenStream waits while the other end allows no more streams.
func (c *wtConn) OpenStream(ctx context.Context) (network.MuxedStream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(c.failed()) })()
	for wait := wtOpenWait; ctx.Err() == nil; wait = min(2*wait, wtOpenMostWait) {
		s, err := c.open(ctx)
		if err == nil {
			return s, nil
		}
		pause(ctx, wait) // Chromium doesn't wait itself, and doesn't say that this is why it fails
	}
	return nil, context.Cause(ctx)
}

func (c *wtConn) open(ctx context.Context) (*wtStream, error) {
	var promise js.Value
	if err := try(func() { promise = c.session.Call("createBidirectionalStream") }); err != nil {
		return nil, err
	}
	opened := make(chan settled, 1)
	forget := then(promise, func(s settled) { opened <- s })
	select {
	case s := <-opened:
		if s.err != nil {
			return nil, s.err
		}
		return newWTStream(c, s.value), nil
	case <-ctx.Done():
	}
	go func() { // ends with the session at the latest: the stream may come yet, and the other end shouldn't wait for more
		defer forget()
		select {
		case s := <-opened:
			if s.err == nil {
				newWTStream(c, s.value).Reset()
			}
		case <-c.ctx.Done():
		}
	}()
	return nil, context.Cause(ctx)
}

func (c *wtConn) AcceptStream() (network.MuxedStream, error) {
	c.accepting.Lock()
	defer c.accepting.Unlock()
	if c.ctx.Err() != nil {
		return nil, c.failed()
	}
	next, err := await(c.ctx, c.incoming.Call("read"))
	switch {
	case c.ctx.Err() != nil:
		return nil, c.failed()
	case err != nil:
		return nil, err
	case next.Get("done").Bool():
		return nil, io.EOF
	}
	return newWTStream(c, next.Get("value")), nil
}

func (c *wtConn) As(any) bool                    { return false }
func (c *wtConn) LocalPeer() peer.ID             { return c.transport.self }
func (c *wtConn) RemotePeer() peer.ID            { return c.id }
func (c *wtConn) RemotePublicKey() crypto.PubKey { return c.key }
func (c *wtConn) LocalMultiaddr() ma.Multiaddr   { return anyWebTransport }
func (c *wtConn) RemoteMultiaddr() ma.Multiaddr  { return c.addr }
func (c *wtConn) Scope() network.ConnScope       { return c.scope }
func (c *wtConn) Transport() transport.Transport { return c.transport }

func (c *wtConn) ConnState() network.ConnectionState {
	return network.ConnectionState{Transport: "webtransport"}
}

// anyWebTransport stands for the own end, which the browser doesn't tell.
var anyWebTransport = ma.StringCast("/ip4/0.0.0.0/udp/0/quic-v1/webtransport")

// wtStream is a stream of a session.
type wtStream struct {
	conn           *wtConn
	reader, writer js.Value

	reading sync.Mutex
	chunk   js.Value     // Uint8Array, read in part; under reading
	left    int          // bytes of it that were not read
	next    chan settled // of a read that is under way, or nil
	deadlines
	noRead ending // ends with what Read is to return from now on

	writing sync.Mutex
	noWrite ending
}

var _ network.MuxedStream = (*wtStream)(nil)

// ending is closed once, for a reason.
type ending struct {
	mu   sync.Mutex
	done chan struct{}
	why  error // valid once done is closed
}

// end is true for the one who ends it.
func (e *ending) end(why error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if over(e.done) {
		return false
	}
	e.why = why
	close(e.done)
	return true
}

func newWTStream(c *wtConn, s js.Value) *wtStream {
	out := &wtStream{conn: c, reader: s.Get("readable").Call("getReader"), writer: s.Get("writable").Call("getWriter")}
	out.noRead.done, out.noWrite.done = make(chan struct{}), make(chan struct{})
	then(out.writer.Get("closed"), func(s settled) { // settles at the latest with the session
		if s.err != nil {
			out.noWrite.end(c.streamError(s))
		}
	})
	return out
}

// streamError is what a read or a write fails with, if the browser says s.
func (c *wtConn) streamError(s settled) error {
	if c.ctx.Err() != nil {
		return c.failed()
	}
	reset := &network.StreamError{Remote: true, TransportError: s.err}
	if s.value.Type() != js.TypeObject {
		return reset
	}
	if s.value.Get("source").Equal(js.ValueOf("session")) {
		return fmt.Errorf("connection has ended: %w", s.err)
	}
	if code := s.value.Get("streamErrorCode"); code.Type() == js.TypeNumber {
		reset.ErrorCode = network.StreamErrorCode(code.Float())
	}
	return reset
}

func (s *wtStream) Read(p []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	for s.left == 0 {
		switch {
		case over(s.noRead.done):
			return 0, s.noRead.why
		case over(s.readDeadline.done()):
			return 0, os.ErrDeadlineExceeded
		}
		if s.next == nil {
			next := make(chan settled, 1)
			then(s.reader.Call("read"), func(r settled) { next <- r })
			s.next = next
		}
		select {
		case r := <-s.next:
			s.next = nil
			switch {
			case r.err != nil:
				s.noRead.end(s.conn.streamError(r))
			case r.value.Get("done").Bool():
				s.noRead.end(io.EOF)
			default:
				s.chunk = r.value.Get("value")
				s.left = s.chunk.Get("length").Int()
			}
		case <-s.noRead.done:
		case <-s.readDeadline.done():
		case <-s.conn.ctx.Done():
			s.noRead.end(s.conn.failed())
		}
	}
	if over(s.noRead.done) && s.noRead.why != io.EOF {
		return 0, s.noRead.why
	}
	length := s.chunk.Get("length").Int()
	n := js.CopyBytesToGo(p, s.chunk.Call("subarray", length-s.left))
	if s.left -= n; s.left == 0 {
		s.chunk = js.Value{}
	}
	return n, nil
}

func (s *wtStream) Write(p []byte) (n int, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	for n < len(p) {
		if err := s.room(); err != nil {
			return n, err
		}
		chunk := uint8Array().New(min(len(p)-n, wtChunk)) // the browser keeps it
		js.CopyBytesToJS(chunk, p[n:])
		ignore(s.writer.Call("write", chunk)) // the writer's closed promise says when it fails
		n += chunk.Length()
	}
	return n, nil
}

// room waits until the browser takes another chunk.
func (s *wtStream) room() error {
	for {
		switch {
		case over(s.noWrite.done):
			return s.noWrite.why
		case over(s.writeDeadline.done()):
			return os.ErrDeadlineExceeded
		}
		if size := s.writer.Get("desiredSize"); size.Type() == js.TypeNumber && size.Float() > 0 {
			return nil
		}
		ready := make(chan struct{})
		forget := then(s.writer.Get("ready"), func(settled) { close(ready) })
		select {
		case <-ready:
		case <-s.noWrite.done:
		case <-s.writeDeadline.done():
		case <-s.conn.ctx.Done():
			s.noWrite.end(s.conn.failed())
		}
		forget()
	}
}

var (
	errReadClosed  = errors.New("stream is closed for reading")
	errWriteClosed = errors.New("stream is closed for writing")
)

func (s *wtStream) CloseWrite() error {
	if s.noWrite.end(errWriteClosed) {
		s.call(s.writer, "close")
	}
	return nil
}

func (s *wtStream) CloseRead() error {
	if s.noRead.end(errReadClosed) {
		s.call(s.reader, "cancel")
	}
	return nil
}

func (s *wtStream) Close() error {
	defer s.stopClocks()
	return errors.Join(s.CloseWrite(), s.CloseRead())
}

// stopClocks is for the end: no timer goes on for a stream that nobody uses any more.
func (s *wtStream) stopClocks() {
	s.deadlines.stop()
}

func (s *wtStream) Reset() error { return s.ResetWithError(0) }

func (s *wtStream) ResetWithError(code network.StreamErrorCode) error {
	defer s.stopClocks()
	why := &network.StreamError{ErrorCode: code}
	said := wtError(code)
	s.noWrite.end(why)
	s.noRead.end(why)
	s.abort(said) // also after CloseWrite, when not all has left
	s.call(s.reader, "cancel", said)
	return nil
}

// abort gives up what was written, a moment later: between the end of a session and the failure of the writes that wait in it,
// which are noticed one after the other, Chromium (156) doesn't survive it.
func (s *wtStream) abort(why js.Value) {
	soon(func() {
		if s.conn.ctx.Err() == nil {
			s.call(s.writer, "abort", why)
		}
	})
}

// wtError is what a stream is aborted with, so that the other end gets the code.
func wtError(code network.StreamErrorCode) (out js.Value) {
	constructor := js.Global().Get("WebTransportError")
	init := map[string]any{"source": "stream", "streamErrorCode": uint32(code)}
	if try(func() { out = constructor.New(init) }) != nil { // Chromium
		try(func() { out = constructor.New("", init) }) // as the standard has it; without one the code is 0
	}
	return out
}

// call calls a method that gives a promise; how that ends doesn't matter any more.
func (s *wtStream) call(on js.Value, method string, args ...any) {
	try(func() { ignore(on.Call(method, args...)) })
}

// wtNetConn is a stream for the handshake.
type wtNetConn struct{ *wtStream }

func (c wtNetConn) LocalAddr() net.Addr  { return streamAddr(anyWebTransport.String()) }
func (c wtNetConn) RemoteAddr() net.Addr { return streamAddr(c.conn.addr.String()) }
