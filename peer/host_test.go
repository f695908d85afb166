//go:build !js

package peer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"
)

const testProto = "/shoal/test/1"

// patience is how long a test waits for what should be there at once.
const patience = 20 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func newTestHost(t testing.TB, c Config) *Host {
	t.Helper()
	if c.Listen == nil {
		c.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	}
	h, err := New(testContext(t), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// serve handles testProto with f and closes the stream afterwards.
func serve(h *Host, f func(from string, c net.Conn)) {
	h.Handle(testProto, func(from string, c net.Conn) {
		defer c.Close()
		f(from, c)
	})
}

func echo(_ string, c net.Conn) { io.Copy(c, c) }

func open(t testing.TB, from, to *Host) net.Conn {
	t.Helper()
	c, err := from.Open(testContext(t), to.Self(), to.Addrs(), testProto)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// receive waits for a value.
func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// transports are the addresses to listen on, one transport each.
var transports = map[string]string{
	"tcp":          "/ip4/127.0.0.1/tcp/0",
	"quic":         "/ip4/127.0.0.1/udp/0/quic-v1",
	"webtransport": "/ip4/127.0.0.1/udp/0/quic-v1/webtransport",
	"ws":           "/ip4/127.0.0.1/tcp/0/ws",
}

func eachTransport(t *testing.T, f func(t *testing.T, a, b *Host)) {
	for name, addr := range transports {
		t.Run(name, func(t *testing.T) {
			a := newTestHost(t, Config{Listen: []string{addr}})
			b := newTestHost(t, Config{Listen: []string{addr}})
			f(t, a, b)
		})
	}
}

func TestEcho(t *testing.T) {
	eachTransport(t, func(t *testing.T, a, b *Host) {
		from := make(chan string, 1)
		serve(b, func(p string, c net.Conn) {
			from <- p
			echo(p, c)
		})
		c := open(t, a, b)
		sent := make([]byte, 3<<20+1)
		rand.Read(sent)
		writeErr := make(chan error, 1)
		go func() {
			_, err := c.Write(sent)
			writeErr <- errors.Join(err, c.(interface{ CloseWrite() error }).CloseWrite())
		}()
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("got %d of %d bytes, %v", len(got), len(sent), err)
		}
		if err := receive(t, writeErr); err != nil {
			t.Error(err)
		}
		if p := receive(t, from); p != a.Self() {
			t.Errorf("handler saw peer %s, want %s", p, a.Self())
		}
		if !strings.HasSuffix(c.RemoteAddr().String(), "/p2p/"+b.Self()) || c.LocalAddr().Network() != "libp2p" {
			t.Errorf("addresses %v, %v", c.LocalAddr(), c.RemoteAddr())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestDeadlines(t *testing.T) {
	eachTransport(t, func(t *testing.T, a, b *Host) {
		stop := make(chan struct{})
		serve(b, func(string, net.Conn) { <-stop })
		defer close(stop)
		c := open(t, a, b)
		defer c.Close()

		c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read: %v", err)
		}
		// Nobody reads there, so that a Write comes to a stop when the window is used up.
		c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		var err error
		for chunk := make([]byte, 1<<20); err == nil; {
			_, err = c.Write(chunk)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write: %v", err)
		}
	})
}

// A deadline that has passed must not spoil the stream.
func TestDeadlineIsNotTheEnd(t *testing.T) {
	eachTransport(t, func(t *testing.T, a, b *Host) {
		serve(b, echo)
		c := open(t, a, b)
		defer c.Close()
		c.SetReadDeadline(time.Now().Add(-time.Second))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("Read: %v", err)
		}
		c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 5)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
			t.Fatalf("got %q, %v", got, err)
		}
	})
}

// What was written before Close arrives, though the reader is slow to begin, and though the host closes too.
func TestCloseDelivers(t *testing.T) {
	eachTransport(t, func(t *testing.T, a, b *Host) {
		sent := make([]byte, 200<<10) // less than the first window, so that Write doesn't wait for the reader
		rand.Read(sent)
		begin := make(chan struct{})
		got := make(chan []byte, 1)
		serve(b, func(_ string, c net.Conn) {
			<-begin
			all, err := io.ReadAll(c)
			if err != nil {
				t.Error(err)
			}
			got <- all
		})
		c := open(t, a, b)
		if _, err := c.Write(sent); err != nil {
			t.Fatal(err)
		}
		c.Close()
		closed := make(chan error, 1)
		go func() { closed <- a.Close() }()
		close(begin)
		if all := receive(t, got); !bytes.Equal(all, sent) {
			t.Errorf("got %d bytes of %d", len(all), len(sent))
		}
		if err := receive(t, closed); err != nil {
			t.Error(err)
		}
	})
}

// Close ends one's own Read and Write, and the other end's.
func TestCloseEndsAll(t *testing.T) {
	eachTransport(t, func(t *testing.T, a, b *Host) {
		result := make(chan error, 2)
		serve(b, func(_ string, c net.Conn) {
			_, err := c.Read(make([]byte, 1))
			result <- err
			for chunk := make([]byte, 64<<10); err == nil || err == io.EOF; {
				_, err = c.Write(chunk)
			}
			result <- err
		})
		c := open(t, a, b)
		own := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			own <- err
		}()
		c.Close()
		if err := receive(t, own); !errors.Is(err, net.ErrClosed) {
			t.Errorf("own Read: %v", err)
		}
		if _, err := c.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("own Write: %v", err)
		}
		if err := c.SetDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("own SetDeadline: %v", err)
		}
		if err := receive(t, result); err != io.EOF {
			t.Errorf("other's Read: %v", err)
		}
		refuse(t, receive(t, result), nil)
	})
}

func TestHostCloseEndsStreams(t *testing.T) {
	eachTransport(t, func(t *testing.T, a, b *Host) {
		started, theirs := make(chan struct{}), make(chan error, 1)
		b.Handle(testProto, func(_ string, c net.Conn) {
			close(started)
			_, err := c.Read(make([]byte, 1))
			theirs <- err
		})
		gone := make(chan string, 1)
		b.OnDisconnect(func(p string) { gone <- p })
		c := open(t, a, b)
		mine := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			mine <- err
		}()
		receive(t, started)
		if !b.Connected(a.Self()) || !a.Connected(b.Self()) {
			t.Error("not connected")
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := a.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		refuse(t, receive(t, mine), nil)
		refuse(t, receive(t, theirs), nil)
		if p := receive(t, gone); p != a.Self() {
			t.Errorf("OnDisconnect(%s), want %s", p, a.Self())
		}
		if b.Connected(a.Self()) {
			t.Error("still connected")
		}
		_, err := a.Open(testContext(t), b.Self(), b.Addrs(), testProto)
		refuse(t, err, ErrClosed)
	})
}

// A process that is killed says no goodbye; its connection resets at once all the same.
func TestKilledPeer(t *testing.T) {
	c := exec.CommandContext(testContext(t), os.Args[0])
	c.Env = append(os.Environ(), roleEnv+"=listen")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	link, err := ParseLink(line)
	if err != nil {
		t.Fatal(err)
	}
	h := newTestHost(t, Config{})
	gone := make(chan string, 1)
	h.OnDisconnect(func(p string) { gone <- p })
	s, err := h.Open(testContext(t), link.Peer, link.Addrs, testProto)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c.Process.Kill()
	begin := time.Now()
	_, err = s.Read(make([]byte, 1))
	refuse(t, err, nil)
	if p := receive(t, gone); p != link.Peer {
		t.Errorf("OnDisconnect(%s), want %s", p, link.Peer)
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("noticed after %v", d)
	}
	c.Wait()
	_, err = h.Open(testContext(t), link.Peer, link.Addrs, testProto)
	refuse(t, err, ErrUnreachable)
}

func TestProtocolUnknown(t *testing.T) {
	a, b := newTestHost(t, Config{}), newTestHost(t, Config{})
	_, err := a.Open(testContext(t), b.Self(), b.Addrs(), "/shoal/test/2")
	refuse(t, err, ErrProtocol, "/shoal/test/2")

	serve(b, echo)
	open(t, a, b).Close()
	b.Handle(testProto, nil)
	_, err = a.Open(testContext(t), b.Self(), b.Addrs(), testProto)
	refuse(t, err, ErrProtocol)
}

// A peer that was dialled once is found again without addresses, and after it came back at another port.
func TestKnownAddresses(t *testing.T) {
	a, b := newTestHost(t, Config{}), newTestHost(t, Config{})
	serve(b, echo)
	open(t, a, b).Close()
	c, err := a.Open(testContext(t), b.Self(), nil, testProto)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestRestartAtAnotherPort(t *testing.T) {
	path := t.TempDir() + "/id"
	a, b := newTestHost(t, Config{}), newTestHost(t, Config{Identity: path})
	gone := make(chan string, 1)
	a.OnDisconnect(func(p string) { gone <- p })
	serve(b, echo)
	open(t, a, b).Close()
	b.Close()
	receive(t, gone)
	again := newTestHost(t, Config{Identity: path})
	serve(again, echo)
	open(t, a, again).Close()
}

func TestWrongPeer(t *testing.T) {
	for name, addr := range transports {
		t.Run(name, func(t *testing.T) {
			a := newTestHost(t, Config{})
			b := newTestHost(t, Config{Listen: []string{addr}})
			other := newTestHost(t, Config{})
			_, err := a.Open(testContext(t), other.Self(), b.Addrs(), testProto)
			refuse(t, err, ErrWrongPeer, tail(other), tail(b))
			refuse(t, err, ErrUnreachable)
		})
	}
}

func TestUnreachable(t *testing.T) {
	a, b := newTestHost(t, Config{}), newTestHost(t, Config{})
	addrs := b.Addrs()
	b.Close()
	_, err := a.Open(testContext(t), b.Self(), addrs, testProto)
	port := addrs[0][strings.LastIndex(addrs[0], "/")+1:]
	refuse(t, err, ErrUnreachable, tail(b), "127.0.0.1:"+port+"/tcp", "refused")

	_, err = a.Open(testContext(t), newTestHost(t, Config{}).Self(), nil, testProto)
	refuse(t, err, ErrUnreachable, "no address")
	_, err = a.Open(testContext(t), a.Self(), a.Addrs(), testProto)
	refuse(t, err, ErrUnreachable, "itself")
	_, err = a.Open(testContext(t), "12D3Koo", nil, testProto)
	refuse(t, err, nil, "12D3Koo")
	_, err = a.Open(testContext(t), b.Self(), []string{"example.org:80"}, testProto)
	refuse(t, err, nil, "example.org:80")
	_, err = a.Open(testContext(t), b.Self(), slices.Repeat(addrs, 1000), testProto)
	refuse(t, err, nil, "1000 addresses")
}

// silent listens and accepts, and never says a word.
func silent(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", l.Addr().(*net.TCPAddr).Port)
}

func TestOpenObeysContext(t *testing.T) {
	a, b := newTestHost(t, Config{}), newTestHost(t, Config{})
	addr := silent(t)

	ctx, cancel := context.WithTimeout(testContext(t), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err := a.Open(ctx, b.Self(), []string{addr}, testProto)
	refuse(t, err, context.DeadlineExceeded, tail(b), "no answer")
	refuse(t, err, ErrUnreachable)

	ctx, cancel = context.WithCancel(testContext(t))
	result := make(chan error, 1)
	go func() {
		_, err := a.Open(ctx, b.Self(), []string{addr}, testProto)
		result <- err
	}()
	cancel()
	refuse(t, receive(t, result), context.Canceled)

	// Close of the host ends a dial too.
	go func() {
		_, err := a.Open(context.Background(), b.Self(), []string{addr}, testProto)
		result <- err
	}()
	a.Close()
	refuse(t, receive(t, result), ErrClosed)
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestPortInUse(t *testing.T) {
	for name, addr := range transports {
		t.Run(name, func(t *testing.T) {
			a := newTestHost(t, Config{Listen: []string{addr}})
			_, err := New(testContext(t), Config{Listen: a.Addrs()})
			refuse(t, err, ErrPortInUse, "127.0.0.1:")
		})
	}
	_, err := New(testContext(t), Config{Listen: []string{"192.0.2.1:4001"}})
	refuse(t, err, nil, "192.0.2.1:4001/tcp")
}

// host:port is TCP, QUIC, WebTransport and WebSocket, all of which work.
func TestShortForm(t *testing.T) {
	b := newTestHost(t, Config{Listen: []string{"127.0.0.1:0"}})
	serve(b, echo)
	var kinds []string
	for _, text := range b.Addrs() {
		addr, err := parseAddr(text)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, kindOf(addr).String())
		a := newTestHost(t, Config{})
		c, err := a.Open(testContext(t), b.Self(), []string{text}, testProto)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.RemoteAddr().String(); got != withoutCertHashes(addr).String()+"/p2p/"+b.Self() {
			t.Errorf("dialled %s, connected to %s", text, got)
		}
		c.Close()
	}
	if !slices.Equal(kinds, []string{"tcp", "quic", "webtransport", "ws"}) {
		t.Errorf("listens on %v", b.Addrs())
	}
	// Given all of them, TCP it is.
	if c := open(t, newTestHost(t, Config{}), b); !strings.Contains(c.RemoteAddr().String(), "/tcp/") {
		t.Errorf("connected to %v", c.RemoteAddr())
	}
}

func TestManyStreamsAtOnce(t *testing.T) {
	a, b := newTestHost(t, Config{}), newTestHost(t, Config{})
	serve(a, echo)
	serve(b, echo)
	var wg sync.WaitGroup
	for i := range 20 {
		from, to := a, b
		if i%2 == 1 {
			from, to = b, a // both dial at the same time
		}
		wg.Go(func() {
			c, err := from.Open(testContext(t), to.Self(), to.Addrs(), testProto)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			msg := []byte(fmt.Sprint("stream ", i))
			c.Write(msg)
			got := make([]byte, len(msg))
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, msg) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	wg.Wait()
}

// One peer can't open streams without end.
func TestStreamCap(t *testing.T) {
	a, b := newTestHost(t, Config{}), newTestHost(t, Config{})
	serve(b, echo)
	for i := range streamsPerPeer + 1 {
		c, err := a.Open(testContext(t), b.Self(), b.Addrs(), testProto)
		if err != nil {
			refuse(t, err, nil, b.Self())
			if i < streamsPerPeer/2 {
				t.Errorf("refused stream %d", i)
			}
			return
		}
		defer c.Close()
	}
	t.Error("no cap")
}

func TestAddrs(t *testing.T) {
	h := newTestHost(t, Config{Listen: []string{":0"}, Announce: []string{"/dns4/example.org/tcp/4001"}})
	addrs := h.Addrs()
	if addrs[0] != "/dns4/example.org/tcp/4001" {
		t.Errorf("announced address isn't first: %v", addrs)
	}
	if len(addrs) > maxLinkAddrs {
		t.Errorf("%d addresses", len(addrs))
	}
	loopback := false
	for _, a := range addrs[1:] {
		if strings.Contains(a, "/0.0.0.0/") || strings.HasPrefix(a, "/ip6/::/") || strings.HasPrefix(a, "/ip6/fe80") {
			t.Errorf("can't be dialled: %s", a)
		}
		isLoopback := strings.Contains(a, "/127.0.0.1/") || strings.Contains(a, "/::1/")
		if loopback && !isLoopback {
			t.Errorf("loopback before %s: %v", a, addrs)
		}
		loopback = isLoopback
	}
	if !loopback && len(addrs) < maxLinkAddrs {
		t.Errorf("no loopback address: %v", addrs)
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]Config{
		"MaxPeers": {MaxPeers: -1},
		"Listen":   {Listen: []string{"nonsense"}},
		"Announce": {Announce: []string{"nonsense"}},
	} {
		_, err := New(testContext(t), c)
		refuse(t, err, nil, name)
	}
	_, err := New(testContext(t), Config{MaxPeers: mostPeers + 1})
	refuse(t, err, nil, "MaxPeers")
}

// tail is the end of a host's id, which messages show.
func tail(h *Host) string { return "…" + h.Self()[len(h.Self())-8:] }

func TestCausesForPeople(t *testing.T) {
	report := &swarm.DialError{}
	for _, e := range []struct{ addr, why string }{
		{"/ip4/127.0.0.1/tcp/4001", "connect: connection refused"},
		{"/ip4/192.0.2.2/udp/4001/quic-v1", "INTERNAL_ERROR (local): write udp4 0.0.0.0:1->192.0.2.2:4001: sendmsg: network is unreachable"},
		{"/ip4/192.0.2.2/tcp/4001", "network is unreachable"},
	} {
		report.DialErrors = append(report.DialErrors, swarm.TransportError{Address: ma.StringCast(e.addr), Cause: errors.New(e.why)})
	}
	if got := causes(report); got != "192.0.2.2:4001/quic, 192.0.2.2:4001/tcp: network is unreachable" {
		t.Errorf("causes are %q", got)
	}
}
