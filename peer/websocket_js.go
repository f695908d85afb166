package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall/js"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

const (
	wsMessage = 64 << 10 // bytes that are sent at a time

	// wsAhead is how many bytes may wait in the browser until the network takes them. More delay a heartbeat, fewer leave
	// the network idle until wsPoll is over.
	wsAhead = 1 << 20
	wsPoll  = 2 * time.Millisecond // between two looks at it: a WebSocket doesn't say when there is room again

	// wsUnread is how many bytes may have come that nobody has read: a WebSocket doesn't know how to wait. The muxer reads
	// at once, and what it keeps is bounded by its windows; so only a peer that breaks the rules gets there.
	wsUnread = 64 << 20

	wsNormal = 1000 // the code of a WebSocket that is closed for no special reason
)

// webSocket is libp2p's WebSocket transport over the browser's WebSockets. It can't listen.
type webSocket struct {
	upgrader  transport.Upgrader
	resources network.ResourceManager
}

var (
	_ transport.Transport    = (*webSocket)(nil)
	_ transport.SkipResolver = (*webSocket)(nil)
)

// CanDial says no where the browser would: a page that came by https may not use ws://, except to its own machine.
func (t *webSocket) CanDial(a ma.Multiaddr) bool {
	if kindOf(a) != kindWS {
		return false
	}
	url, err := wsURL(a)
	return err == nil && (strings.HasPrefix(url, "wss:") || !securePage() || manet.IsIPLoopback(a))
}

func (t *webSocket) Protocols() []int { return []int{ma.P_WS, ma.P_WSS} }
func (t *webSocket) Proxy() bool      { return false }

// SkipResolve is true: the browser resolves names, and must see them for TLS.
func (t *webSocket) SkipResolve(context.Context, ma.Multiaddr) bool { return true }

func (t *webSocket) Listen(a ma.Multiaddr) (transport.Listener, error) {
	return nil, fmt.Errorf("listen on %s: a browser can't: %w", a, errors.ErrUnsupported)
}

func (t *webSocket) Dial(ctx context.Context, a ma.Multiaddr, id peer.ID) (transport.CapableConn, error) {
	scope, err := t.resources.OpenConnection(network.DirOutbound, false, a)
	if err != nil {
		return nil, err
	}
	c, err := dialWebSocket(ctx, a)
	if err != nil {
		scope.Done()
		return nil, err
	}
	return t.upgrader.Upgrade(ctx, t, c, network.DirOutbound, id, scope) // which ends c and scope if it fails
}

// securePage says whether the page, whose worker this is, came by https.
func securePage() bool {
	location := js.Global().Get("location")
	return location.Truthy() && strings.HasPrefix(location.Get("origin").String(), "https:")
}

// wsURL is where a WebSocket to an address of kindWS is opened.
func wsURL(a ma.Multiaddr) (string, error) {
	host, port, scheme := a[0].Value(), "", "ws"
	for _, c := range a[1:] {
		switch c.Protocol().Code {
		case ma.P_TCP:
			port = c.Value()
		case ma.P_TLS, ma.P_WSS:
			scheme = "wss"
		case ma.P_SNI:
			host = c.Value()
		}
	}
	switch a[0].Protocol().Code {
	case ma.P_IP4, ma.P_IP6, ma.P_DNS, ma.P_DNS4, ma.P_DNS6:
		return scheme + "://" + net.JoinHostPort(host, port) + "/", nil
	}
	return "", fmt.Errorf("no WebSocket to %s", a)
}

// wsConn is a WebSocket as a connection, on which libp2p's upgrader builds. Its messages are one stream of bytes.
type wsConn struct {
	addr      ma.Multiaddr
	ws        js.Value
	listeners []int // in calls

	reading sync.Mutex
	deadlines
	writing sync.Mutex
	out     js.Value // Uint8Array of wsMessage bytes; under writing

	mu      sync.Mutex
	unread  []js.Value    // Uint8Arrays; the first one may be read in part
	taken   int           // bytes of the first one that were read
	bytes   int           // in unread, altogether
	arrived chan struct{} // holds one element when there is something new
	opened  chan struct{}
	ended   chan struct{}
	why     error // valid once ended is closed; io.EOF if the other end has closed
}

var _ manet.Conn = (*wsConn)(nil)

func dialWebSocket(ctx context.Context, a ma.Multiaddr) (*wsConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	url, err := wsURL(a)
	if err != nil {
		return nil, err
	}
	c := &wsConn{addr: a, out: uint8Array().New(wsMessage),
		arrived: make(chan struct{}, 1), opened: make(chan struct{}), ended: make(chan struct{})}
	if err := try(func() { c.ws = js.Global().Get("WebSocket").New(url) }); err != nil {
		return nil, err
	}
	c.ws.Set("binaryType", "arraybuffer")
	c.on("open", func(js.Value) { close(c.opened) })
	c.on("message", c.receive)
	c.on("error", func(js.Value) {}) // which says nothing; "close" follows
	c.on("close", func(event js.Value) {
		switch code := event.Get("code").Int(); {
		case !over(c.opened):
			c.end(errors.New("the browser can't connect")) // it doesn't tell why, on purpose
		case code == wsNormal:
			c.end(io.EOF)
		default:
			c.end(fmt.Errorf("the connection has ended (WebSocket code %d)", code))
		}
	})
	select {
	case <-c.opened:
		return c, nil
	case <-c.ended:
		return nil, c.why
	case <-ctx.Done():
		c.Close()
		return nil, context.Cause(ctx)
	}
}

// on has f, which must not block, called for events until the connection has ended.
func (c *wsConn) on(event string, f func(js.Value)) {
	n := calls.add(f)
	c.listeners = append(c.listeners, n)
	c.ws.Set("on"+event, function(n))
}

func (c *wsConn) receive(event js.Value) {
	data := event.Get("data")
	if data.Type() != js.TypeObject {
		c.fail(errors.New("the other end sends text, which nobody does who speaks libp2p"))
		return
	}
	message := uint8Array().New(data)
	n := message.Get("length").Int()
	if n == 0 {
		return
	}
	c.mu.Lock()
	c.unread = append(c.unread, message)
	c.bytes += n
	tooMuch := c.bytes > wsUnread
	c.mu.Unlock()
	if tooMuch {
		c.fail(fmt.Errorf("the other end has sent over %d bytes that nobody has asked for", wsUnread))
		return
	}
	notify(c.arrived)
}

// end takes note that nothing more comes and nothing can be sent. What has come can still be read.
func (c *wsConn) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if over(c.ended) {
		return
	}
	c.why = why
	close(c.ended)
	calls.remove(c.listeners...)
	for _, event := range []string{"open", "message", "error", "close"} {
		c.ws.Set("on"+event, js.Null())
	}
}

// fail ends the connection from here, and throws away what has come.
func (c *wsConn) fail(why error) {
	c.end(why)
	c.mu.Lock()
	c.unread, c.bytes = nil, 0
	c.mu.Unlock()
	try(func() { c.ws.Call("close", wsNormal) })
}

// Close lets what was written leave, and ends the connection without waiting for that.
func (c *wsConn) Close() error {
	c.fail(net.ErrClosed)
	c.deadlines.stop()
	return nil
}

func (c *wsConn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if over(c.readDeadline.done()) {
			return 0, os.ErrDeadlineExceeded
		}
		if n := c.take(p); n > 0 {
			return n, nil
		}
		select {
		case <-c.arrived:
		case <-c.readDeadline.done():
		case <-c.ended:
			if n := c.take(p); n > 0 {
				return n, nil
			}
			return 0, c.why
		}
	}
}

// take copies what has come, as much as there is room for.
func (c *wsConn) take(p []byte) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.unread) > 0 && n < len(p) {
		first := c.unread[0]
		if c.taken > 0 {
			first = first.Call("subarray", c.taken)
		}
		copied := js.CopyBytesToGo(p[n:], first)
		n += copied
		c.taken += copied
		if c.taken == c.unread[0].Get("length").Int() {
			c.unread[0] = js.Value{}
			c.unread, c.taken = c.unread[1:], 0
		}
	}
	c.bytes -= n
	return n
}

func (c *wsConn) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for n < len(p) {
		if err := c.room(); err != nil {
			return n, err
		}
		sent := js.CopyBytesToJS(c.out, p[n:min(len(p), n+wsMessage)])
		if err := try(func() { c.ws.Call("send", c.out.Call("subarray", 0, sent)) }); err != nil {
			return n, err
		}
		n += sent
	}
	return n, nil
}

// room waits until the browser has few enough bytes to send.
func (c *wsConn) room() error {
	for {
		switch {
		case over(c.ended):
			if c.why == io.EOF {
				return errors.New("the other end has closed the connection")
			}
			return c.why
		case over(c.writeDeadline.done()):
			return os.ErrDeadlineExceeded
		case c.ws.Get("bufferedAmount").Int() < wsAhead:
			return nil
		}
		t := time.NewTimer(wsPoll)
		select {
		case <-t.C:
		case <-c.writeDeadline.done():
		case <-c.ended:
		}
		t.Stop()
	}
}

// anyWS stands for the own end, which the browser doesn't tell.
var anyWS = ma.StringCast("/ip4/0.0.0.0/tcp/0/ws")

func (c *wsConn) LocalMultiaddr() ma.Multiaddr  { return anyWS }
func (c *wsConn) RemoteMultiaddr() ma.Multiaddr { return c.addr }
func (c *wsConn) LocalAddr() net.Addr           { return streamAddr(anyWS.String()) }
func (c *wsConn) RemoteAddr() net.Addr          { return streamAddr(c.addr.String()) }

// notify puts an element into c, which has room for one, if there is none.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
