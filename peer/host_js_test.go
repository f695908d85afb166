package peer

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall/js"
	"testing"
	"time"

	ma "github.com/multiformats/go-multiaddr"
)

const (
	testProto = "/shoal/test/1"
	patience  = 20 * time.Second
	bulk      = 64 << 20 // bytes
)

// The daemons of browser_test.go.
func daemon(t *testing.T) Link      { return linkOf(t, "SHOAL_DAEMON") }
func other(t *testing.T) Link       { return linkOf(t, "SHOAL_OTHER") }
func restartable(t *testing.T) Link { return linkOf(t, "SHOAL_RESTART") }
func freezable(t *testing.T) Link   { return linkOf(t, "SHOAL_FREEZER") }

func linkOf(t *testing.T, name string) Link {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		t.Skip("there is no daemon: browser_test.go runs this")
	}
	l, err := ParseLink(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// kinds are the addresses of a link by transport, of those that this browser has.
func kinds(t *testing.T, l Link) map[kind][]string {
	out := map[kind][]string{}
	for _, text := range l.Addrs {
		a, err := parseAddr(text)
		if err != nil {
			t.Fatal(err)
		}
		if k := kindOf(a); k == kindWS || k == kindWebTransport && hasWebTransport() {
			out[k] = append(out[k], text)
		}
	}
	return out
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// newTabs are hosts. When they close with the test, they leave nothing behind.
func newTabs(t *testing.T) (a, b *Host) {
	leaveNothing(t)
	return startTab(t), startTab(t)
}

func newTab(t *testing.T) *Host {
	leaveNothing(t)
	return startTab(t)
}

func startTab(t *testing.T) *Host {
	t.Helper()
	h, err := New(testContext(t), Config{Listen: []string{":4001"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *Host) mustOpen(t *testing.T, id string, addrs []string, proto string) *streamConn {
	t.Helper()
	c, err := h.Open(testContext(t), id, addrs, proto)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	return c.(*streamConn)
}

// do has a daemon do something, and is its answer.
func (h *Host) do(t *testing.T, l Link, words ...string) string {
	t.Helper()
	c := h.mustOpen(t, l.Peer, l.Addrs, doProto)
	defer c.Close()
	if _, err := fmt.Fprintln(c, strings.Join(words, " ")); err != nil {
		t.Fatal(err)
	}
	answer := readAll(t, c)
	if strings.HasPrefix(answer, "error: ") {
		t.Errorf("%s: %s", words, answer)
	}
	return answer
}

func echoHandler(_ string, c net.Conn) {
	defer c.Close()
	io.Copy(c, c)
}

// Each transport alone works, and all together.
func TestTabEcho(t *testing.T) {
	l := daemon(t)
	each := kinds(t, l)
	each[kindOther] = l.Addrs
	for k, addrs := range each {
		t.Run(k.String(), func(t *testing.T) {
			h := newTab(t)
			c := h.mustOpen(t, l.Peer, addrs, testProto)
			defer c.Close()
			sent := make([]byte, 1<<20+1)
			rand.Read(sent)
			wrote := make(chan error, 1)
			go func() {
				_, err := c.Write(sent)
				wrote <- errors.Join(err, c.CloseWrite())
			}()
			got, err := io.ReadAll(c)
			if err := errors.Join(err, <-wrote); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("got %d of %d bytes, %v", len(got), len(sent), err)
			}
			// Of all together WebTransport begins first, but on a slow machine WebSocket may still win.
			if at := kindOf(c.s.Conn().RemoteMultiaddr()); at != k && k != kindOther || at == kindWebTransport && !hasWebTransport() {
				t.Errorf("connected by %v", at)
			}
			if !h.Connected(l.Peer) {
				t.Error("not connected")
			}
		})
	}
}

// Chromium's WebTransport is used on a secure page.
func TestTabHasWebTransport(t *testing.T) {
	daemon(t)
	if strings.Contains(userAgent(), "Firefox/") {
		t.Skip("not in Firefox")
	}
	if !hasWebTransport() {
		t.Errorf("no WebTransport in %s", userAgent())
	}
}

// A page that came by http from another machine has no WebTransport.
func TestTabInsecure(t *testing.T) {
	daemon(t)
	if js.Global().Get("isSecureContext").Bool() {
		t.Skip("this page is a secure one")
	}
	if !js.Global().Get("WebTransport").IsUndefined() || !js.Global().Get("SharedArrayBuffer").IsUndefined() {
		t.Error("an insecure page with WebTransport or SharedArrayBuffer")
	}
}

// 64 MiB each way through one stream: all of it, at some speed, and no memory is kept.
func TestTabBulk(t *testing.T) {
	l := daemon(t)
	for k, addrs := range kinds(t, l) {
		t.Run(k.String(), func(t *testing.T) {
			h := newTab(t)
			rounds, before := 1, uint64(0)
			if *long {
				rounds = 10
			}
			for i := range rounds {
				up := h.send(t, l.Peer, addrs, bulk)
				down := h.fetch(t, l.Peer, addrs, bulk)
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				t.Logf("up %.0f MB/s, down %.0f MB/s; %d MiB of memory, %d in use", up, down, m.Sys>>20, m.HeapInuse>>20)
				if i == 1 {
					before = m.Sys
				}
				if i > 1 && m.Sys > before+8<<20 {
					t.Errorf("memory has grown from %d to %d MiB", before>>20, m.Sys>>20)
				}
			}
		})
	}
}

// send sends n random bytes and wants their sum back. It gives MB/s.
func (h *Host) send(t *testing.T, id string, addrs []string, n int) float64 {
	t.Helper()
	c := h.mustOpen(t, id, addrs, sumProto)
	defer c.Close()
	c.SetDeadline(time.Now().Add(3 * patience))
	chunk := make([]byte, 1<<20)
	rand.Read(chunk)
	want := sumOf(chunk, n)
	begin := time.Now()
	for left := n; left > 0; left -= len(chunk) {
		if _, err := c.Write(chunk[:min(left, len(chunk))]); err != nil {
			t.Fatal(err)
		}
	}
	c.CloseWrite()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, want.Sum(nil)) {
		t.Errorf("sum %x, %v", got, err)
	}
	return float64(n) / 1e6 / time.Since(begin).Seconds()
}

func sumOf(chunk []byte, n int) hash.Hash {
	h := sha256.New()
	for ; n > 0; n -= len(chunk) {
		h.Write(chunk[:min(n, len(chunk))])
	}
	return h
}

// fetch reads n bytes and their sum. It gives MB/s, without the time that the sum takes.
func (h *Host) fetch(t *testing.T, id string, addrs []string, n int) float64 {
	t.Helper()
	c := h.mustOpen(t, id, addrs, sendProto)
	defer c.Close()
	c.SetDeadline(time.Now().Add(3 * patience))
	binary.Write(c, binary.LittleEndian, int64(n))
	sum := sha256.New()
	chunk := make([]byte, 1<<20)
	var reading time.Duration
	for left := n; left > 0; {
		begin := time.Now()
		got, err := c.Read(chunk[:min(left, len(chunk))])
		reading += time.Since(begin)
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(chunk[:got])
		left -= got
	}
	want, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(sum.Sum(nil), want) {
		t.Errorf("sum %x, %v, want %x", sum.Sum(nil), err, want)
	}
	return float64(n) / 1e6 / reading.Seconds()
}

// A thousand streams right after connecting, as many at once as a Host may have, lose nothing.
func TestTabStreams(t *testing.T) {
	l := daemon(t)
	for k, addrs := range kinds(t, l) {
		t.Run(k.String(), func(t *testing.T) {
			h := newTab(t)
			room := make(chan struct{}, streamsPerPeer/2)
			var all sync.WaitGroup
			for i := range 1000 {
				all.Go(func() {
					room <- struct{}{}
					defer func() { <-room }()
					c, err := h.Open(testContext(t), l.Peer, addrs, testProto)
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					c.SetDeadline(time.Now().Add(patience))
					text := fmt.Sprint("stream ", i)
					io.WriteString(c, text)
					c.(*streamConn).CloseWrite()
					if got := readAll(t, c); got != text {
						t.Errorf("%q came back as %q", text, got)
					}
				})
			}
			all.Wait()
		})
	}
}

// What was written before Close arrives; reading and writing end on both sides.
func TestTabClose(t *testing.T) {
	l := daemon(t)
	for k, addrs := range kinds(t, l) {
		t.Run(k.String(), func(t *testing.T) {
			h := newTab(t)
			c := h.mustOpen(t, l.Peer, addrs, testProto)
			own := make(chan error, 1)
			go func() {
				_, err := c.Read(make([]byte, 1))
				own <- err
			}()
			c.Close()
			if err := <-own; !errors.Is(err, net.ErrClosed) {
				t.Errorf("own Read: %v", err)
			}
			if _, err := c.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
				t.Errorf("own Write: %v", err)
			}
		})
	}
}

func TestTabErrors(t *testing.T) {
	l := daemon(t)
	h := newTab(t)
	_, err := h.Open(testContext(t), l.Peer, l.Addrs, "/shoal/nobody/1")
	refuse(t, err, ErrProtocol)
	_, err = h.Open(testContext(t), somePeer, l.Addrs, testProto)
	refuse(t, err, ErrWrongPeer)
	refuse(t, err, ErrUnreachable)
	_, err = h.Open(testContext(t), somePeer, []string{"/ip4/127.0.0.1/tcp/1/ws"}, testProto)
	refuse(t, err, ErrUnreachable, "127.0.0.1:1/ws")
	_, err = h.Open(testContext(t), restartable(t).Peer, []string{"/ip4/192.0.2.7/tcp/4001"}, testProto)
	refuse(t, err, ErrUnreachable, "no such transport here")
	short, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = h.Open(short, other(t).Peer, other(t).Addrs, testProto)
	refuse(t, err, context.Canceled)
}

// A daemon that ends is noticed at once, and can be dialled when it is there again.
func TestTabRestart(t *testing.T) {
	l := restartable(t)
	for k, addrs := range kinds(t, l) {
		t.Run(k.String(), func(t *testing.T) {
			h := newTab(t)
			gone := make(chan string, 1)
			h.OnDisconnect(func(p string) {
				if p == l.Peer {
					gone <- p
				}
			})
			c := h.mustOpen(t, l.Peer, addrs, testProto)
			defer c.Close()
			h.do(t, daemon(t), "restart")
			if _, err := c.Read(make([]byte, 1)); err == nil || timedOut(err) {
				t.Errorf("Read: %v", err)
			}
			if got := <-gone; got != l.Peer {
				t.Errorf("%s has gone", got)
			}
			again := h.mustOpen(t, l.Peer, addrs, testProto)
			defer again.Close()
			io.WriteString(again, "back")
			again.CloseWrite()
			if got := readAll(t, again); got != "back" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A way that breaks without a word doesn't hold those who set deadlines; Drop forgets it, and another one is dialled.
func TestTabFrozen(t *testing.T) {
	l := freezable(t)
	h, helper := newTabs(t)
	c := h.mustOpen(t, l.Peer, l.Addrs, testProto)
	defer c.Close()
	helper.do(t, daemon(t), "freeze")
	io.WriteString(c, "hello")
	c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read: %v", err)
	}
	h.Drop(l.Peer)
	if _, err := c.Write([]byte{1}); err == nil {
		t.Error("a stream survives Drop")
	}
	again := h.mustOpen(t, l.Peer, daemon(t).Addrs, testProto)
	defer again.Close()
	io.WriteString(again, "back")
	again.CloseWrite()
	if got := readAll(t, again); got != "back" {
		t.Errorf("got %q", got)
	}
}

// Two tabs reach one another through the daemon that both are connected to, if they are members of a run.
func TestTabCircuit(t *testing.T) {
	l := daemon(t)
	a, b := newTabs(t)
	if len(b.Addrs()) != 0 {
		t.Errorf("addresses before any connection: %v", b.Addrs())
	}
	b.do(t, l, "relaying")
	if len(b.Addrs()) != 1 || !strings.Contains(b.Addrs()[0], "/p2p/"+l.Peer+"/p2p-circuit") {
		t.Fatalf("addresses: %v", b.Addrs())
	}
	b.Handle(testProto, echoHandler)
	b.Handle(sumProto, func(_ string, c net.Conn) {
		defer c.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, c); err == nil {
			c.Write(sum.Sum(nil))
		}
	})
	a.do(t, l, "relaying")
	_, err := a.Open(testContext(t), b.Self(), b.Addrs(), testProto)
	refuse(t, err, ErrUnreachable, "PERMISSION_DENIED")

	a.do(t, l, "member")
	b.do(t, l, "member")
	c := a.mustOpen(t, b.Self(), b.Addrs(), testProto)
	defer c.Close()
	io.WriteString(c, "hello")
	c.CloseWrite()
	if got := readAll(t, c); got != "hello" {
		t.Errorf("got %q", got)
	}
	if !throughCircuit(c.s.Conn()) || c.s.Conn().Stat().Limited {
		t.Errorf("connected by %v", c.RemoteAddr())
	}
	if got := b.do(t, l, "relaying"); !strings.Contains(got, "{Circuits:1 ") {
		t.Errorf("the daemon relays %s", got)
	}
	t.Logf("tab to tab in one worker: %.0f MB/s", a.send(t, b.Self(), b.Addrs(), 8<<20))
}

// When the daemon in between is gone, another one to which both are connected will do, though nobody has told of it.
func TestTabCircuitMoves(t *testing.T) {
	l, second := daemon(t), restartable(t)
	a, b := newTabs(t)
	b.Handle(testProto, echoHandler)
	b.do(t, l, "relaying")
	addrs := b.Addrs()
	for _, h := range []*Host{a, b} {
		h.do(t, l, "member")
		h.mustOpen(t, second.Peer, second.Addrs, testProto).Close()
	}
	c := a.mustOpen(t, b.Self(), addrs, testProto)
	defer c.Close()
	a.Drop(l.Peer)
	b.Drop(l.Peer)
	a.Drop(b.Self())
	again := a.mustOpen(t, b.Self(), addrs, testProto)
	defer again.Close()
	if at := again.RemoteAddr().String(); !strings.Contains(at, second.Peer) {
		t.Errorf("connected by %s", at)
	}
	io.WriteString(again, "hello")
	again.CloseWrite()
	if got := readAll(t, again); got != "hello" {
		t.Errorf("got %q", got)
	}
}

// A daemon that knows a tab by another daemon only has the tab dial it.
func TestTabDialledBack(t *testing.T) {
	l := daemon(t)
	h := newTab(t)
	h.Handle(testProto, echoHandler)
	h.do(t, l, "member")
	h.do(t, l, "member "+other(t).Peer)
	answer := h.do(t, l, "dial", h.Self(), strings.Join(h.Addrs(), " "))
	if !strings.HasPrefix(answer, "hello from ") || strings.Contains(answer, "p2p-circuit") {
		t.Errorf("got %q", answer)
	}
	if !h.Connected(other(t).Peer) {
		t.Error("not connected to the other daemon")
	}
	if len(h.Addrs()) != 2 {
		t.Errorf("addresses: %v", h.Addrs())
	}
}

// The browser is told a name where there is one, and TLS where the address says so.
func TestTabURLs(t *testing.T) {
	for text, want := range map[string]string{
		"/ip4/192.0.2.1/tcp/1/ws":                       "ws://192.0.2.1:1/",
		"/ip6/2001:db8::1/tcp/1/ws":                     "ws://[2001:db8::1]:1/",
		"/dns/example.org/tcp/443/wss":                  "wss://example.org:443/",
		"/dns4/example.org/tcp/443/tls/ws":              "wss://example.org:443/",
		"/ip4/192.0.2.1/tcp/443/tls/sni/example.org/ws": "wss://example.org:443/",
	} {
		got, err := wsURL(ma.StringCast(text))
		if err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}
