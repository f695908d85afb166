package peer

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	ma "github.com/multiformats/go-multiaddr"
)

// What libp2p asks of a transport (its p2p/transport/testsuite, which wants both ends in one process), and what the hosts
// here ask beyond: deadlines, codes of resets, ends of connections that are noticed, and nothing left behind. The other end
// is that of contract_test.go.

type browserTransport struct {
	transport.Transport
	addr ma.Multiaddr
	id   peer.ID
}

// contracts are the transports that this browser has, by name.
func contracts(t *testing.T) map[string]browserTransport {
	t.Helper()
	text := os.Getenv("SHOAL_CONTRACT") // peer id, address of WebSocket, address of WebTransport
	if text == "" {
		t.Skip("there is no other end: browser_test.go runs this")
	}
	words := strings.Fields(text)
	id, err := peer.Decode(words[0])
	if err != nil {
		t.Fatal(err)
	}
	_, self, security, up := roomyUpgrader(t)
	none := &network.NullResourceManager{}
	out := map[string]browserTransport{"ws": {&webSocket{up, none}, ma.StringCast(words[1]), id}}
	if hasWebTransport() {
		out["webtransport"] = browserTransport{&webTransport{self, security, none}, ma.StringCast(words[2]), id}
	}
	return out
}

// eachContract runs f for each transport, and wants nothing to be left afterwards.
func eachContract(t *testing.T, f func(t *testing.T, tr browserTransport)) {
	all := contracts(t)
	for name, tr := range all {
		t.Run(name, func(t *testing.T) {
			leaveNothing(t)
			f(t, tr)
		})
	}
}

// leaveNothing waits, at the end of a test, until nothing is left that was not there before.
func leaveNothing(t *testing.T) {
	t.Helper()
	routines, pending := goroutines(), calls.pending()
	t.Cleanup(func() {
		settle(t, "goroutines", routines, goroutines)
		settle(t, "functions that JavaScript may call", pending, calls.pending)
	})
}

// goroutines are those of Go code: the runtime has one for calls from JavaScript.
func goroutines() int {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	return bytes.Count(buf, []byte("\n\ngoroutine ")) - bytes.Count(buf, []byte("runtime.handleEvent("))
}

// settle waits until count is not above want.
func settle(t *testing.T, what string, want int, count func() int) {
	t.Helper()
	end := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for count() > want {
		select {
		case <-tick.C:
		case <-end:
			buf := make([]byte, 1<<20)
			t.Fatalf("%d %s, want %d\n%.4000s", count(), what, want, buf[:runtime.Stack(buf, true)])
		}
	}
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// dial makes a connection.
func (tr browserTransport) dial(t *testing.T) transport.CapableConn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := tr.Dial(ctx, tr.addr, tr.id)
	if err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(3*patience, func() { c.Close() }) // so that AcceptStream returns
	t.Cleanup(func() { guard.Stop() })
	return c
}

// ask opens a stream and says what the other end is to do with it.
func ask(t *testing.T, c transport.CapableConn, line string) network.MuxedStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := c.OpenStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(s, line+"\n"); err != nil {
		t.Fatal(err)
	}
	return s
}

func readAll(t *testing.T, s io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(s)
	if err != nil {
		t.Errorf("after %d bytes: %v", len(b), err)
	}
	return string(b)
}

func TestContractDial(t *testing.T) {
	eachContract(t, func(t *testing.T, tr browserTransport) {
		if tr.CanDial(ma.StringCast("/ip4/1.2.3.4")) || tr.CanDial(ma.StringCast("/ip4/1.2.3.4/tcp/1")) || !tr.CanDial(tr.addr) {
			t.Error("CanDial")
		}
		if _, err := tr.Listen(tr.addr); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Listen: %v", err)
		}
		ended, end := context.WithCancel(context.Background())
		end()
		if _, err := tr.Dial(ended, tr.addr, tr.id); !errors.Is(err, context.Canceled) {
			t.Errorf("dial with an ended context: %v", err)
		}
		c := tr.dial(t)
		if c.RemotePeer() != tr.id || !tr.id.MatchesPublicKey(c.RemotePublicKey()) || c.IsClosed() || c.Scope() == nil || c.Transport() == nil {
			t.Errorf("connection: %v %v", c.RemotePeer(), c.IsClosed())
		}
		if err := c.Close(); err != nil || !c.IsClosed() {
			t.Errorf("Close: %v", err)
		}
		c.Close() // a second time
		if _, err := c.OpenStream(context.Background()); err == nil {
			t.Error("a stream on a closed connection")
		}
		if _, err := c.AcceptStream(); err == nil {
			t.Error("accepted a stream on a closed connection")
		}
	})
}

// Nobody else is taken for the peer, and who doesn't answer costs no more than the context allows.
func TestContractDialFails(t *testing.T) {
	eachContract(t, func(t *testing.T, tr browserTransport) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		other, err := peer.Decode(somePeer)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Dial(ctx, tr.addr, other); err == nil {
			t.Error("dialled another peer")
		}
		nobody := ma.StringCast(strings.Replace(tr.addr.String(), "/"+tr.addr[1].Value()+"/", "/1/", 1))
		begin := time.Now()
		short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		if _, err := tr.Dial(short, nobody, tr.id); err == nil {
			t.Error("dialled nobody")
		}
		if d := time.Since(begin); d > patience/2 {
			t.Errorf("it took %v", d)
		}
		if hashes := certHashes(tr.addr); len(hashes) > 0 { // those of another certificate
			wrong := strings.Replace(tr.addr.String(), tr.addr[len(tr.addr)-1].Value(), "uEiAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 1)
			wrong = strings.Replace(wrong, tr.addr[len(tr.addr)-2].Value(), "uEiAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 1)
			if _, err := tr.Dial(ctx, ma.StringCast(wrong), tr.id); err == nil {
				t.Error("took any certificate")
			}
			// One hash is right, so that the browser is content; the other one isn't the peer's.
			wrong = strings.Replace(tr.addr.String(), tr.addr[len(tr.addr)-1].Value(), "uEiAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 1)
			if _, err := tr.Dial(ctx, ma.StringCast(wrong), tr.id); err == nil || !strings.Contains(err.Error(), "not one of this peer's") {
				t.Errorf("a certificate that the peer doesn't name: %v", err)
			}
		}
	})
}

func TestContractStreams(t *testing.T) {
	eachContract(t, func(t *testing.T, tr browserTransport) {
		for _, shape := range []struct{ conns, streams, messages int }{{1, 1, 1}, {1, 1, 100}, {1, 100, 20}, {10, 10, 10}} {
			t.Run(fmt.Sprintf("%d-%d-%d", shape.conns, shape.streams, shape.messages), func(t *testing.T) {
				var wg sync.WaitGroup
				for range shape.conns {
					c := tr.dial(t)
					defer c.Close()
					for range shape.streams {
						wg.Go(func() { messages(t, c, shape.messages) })
					}
				}
				wg.Wait()
			})
		}
	})
}

// messages sends messages of 2 KiB through a stream and wants them back.
func messages(t *testing.T, c transport.CapableConn, n int) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	s, err := c.OpenStream(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	s.SetDeadline(time.Now().Add(2 * patience))
	sent := make([]byte, 2048*n)
	rand.Read(sent)
	wrote := make(chan error, 1)
	go func() {
		_, err := io.WriteString(s, "echo\n")
		for i := 0; i < n && err == nil; i++ {
			_, err = s.Write(sent[2048*i : 2048*(i+1)])
		}
		wrote <- errors.Join(err, s.CloseWrite())
	}()
	got, err := io.ReadAll(s)
	if err := errors.Join(err, <-wrote); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("got %d of %d bytes: %v", len(got), len(sent), err)
	}
}

// A thousand streams that the other end opens at once, right after connecting, lose nothing either.
func TestContractAccept(t *testing.T) {
	eachContract(t, func(t *testing.T, tr browserTransport) {
		c := tr.dial(t)
		defer c.Close()
		const n = 1000
		s := ask(t, c, fmt.Sprint("open ", n))
		defer s.Close()
		var echoes sync.WaitGroup
		for range n {
			in, err := c.AcceptStream()
			if err != nil {
				t.Fatal(err)
			}
			echoes.Go(func() {
				defer in.Close()
				in.SetDeadline(time.Now().Add(patience))
				if _, err := io.Copy(in, in); err != nil {
					t.Error(err)
				}
				in.CloseWrite()
			})
		}
		echoes.Wait()
		if failed := readAll(t, s); failed != "" {
			t.Errorf("the other end says: %.1000s", failed)
		}
	})
}

// A thousand streams that are opened at once, right after connecting, lose nothing.
func TestContractOpen(t *testing.T) {
	eachContract(t, func(t *testing.T, tr browserTransport) {
		c := tr.dial(t)
		defer c.Close()
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				text := fmt.Sprintf("stream %d", i)
				s := ask(t, c, "echo")
				defer s.Close()
				io.WriteString(s, text)
				s.CloseWrite()
				if got := readAll(t, s); got != text {
					t.Errorf("%q came back as %q", text, got)
				}
			})
		}
		all.Wait()
	})
}

func TestContractReset(t *testing.T) {
	eachContract(t, func(t *testing.T, tr browserTransport) {
		c := tr.dial(t)
		defer c.Close()
		// By the other end.
		s := ask(t, c, "reset 7")
		io.WriteString(s, "x")
		var streamErr *network.StreamError
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, network.ErrReset) || !errors.As(err, &streamErr) || !streamErr.Remote {
			t.Errorf("Read after a reset: %v", err)
		}
		if _, muxed := c.(*wtConn); !muxed && streamErr.ErrorCode != 7 { // libp2p sends no codes over WebTransport
			t.Errorf("code %d", streamErr.ErrorCode)
		}
		var err error
		for err == nil { // until the news is here
			_, err = s.Write([]byte("x"))
		}
		if !errors.Is(err, network.ErrReset) {
			t.Errorf("Write after a reset: %v", err)
		}
		s.Close()

		// By this end, while somebody reads.
		s = ask(t, c, "why")
		if _, err := io.ReadFull(s, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		mine := make(chan error, 1)
		go func() {
			_, err := s.Read(make([]byte, 1))
			mine <- err
		}()
		s.ResetWithError(9)
		if err := <-mine; !errors.Is(err, network.ErrReset) {
			t.Errorf("own Read: %v", err)
		}
		if _, err := s.Write([]byte("x")); !errors.Is(err, network.ErrReset) {
			t.Errorf("own Write: %v", err)
		}
		in, err := c.AcceptStream()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if why := readAll(t, in); !strings.Contains(why, "reset") {
			t.Errorf("the other end's Read: %s", why)
		} else if _, muxed := c.(*wtConn); !muxed && !strings.Contains(why, "0x9") {
			t.Errorf("no code in %q", why)
		}
	})
}

// Each direction is closed by itself.
func TestContractClose(t *testing.T) {
	eachContract(t, func(t *testing.T, tr browserTransport) {
		c := tr.dial(t)
		defer c.Close()
		s := ask(t, c, "sum")
		s.CloseWrite()
		if _, err := s.Write([]byte("x")); err == nil {
			t.Error("wrote after CloseWrite")
		}
		if got := readAll(t, s); !strings.HasPrefix(got, "0 ") {
			t.Errorf("got %q", got)
		}
		s.Close()

		s = ask(t, c, "echo")
		read := make(chan error, 1)
		go func() {
			_, err := s.Read(make([]byte, 1))
			read <- err
		}()
		s.CloseRead()
		if err := <-read; err == nil || err == io.EOF {
			t.Errorf("Read while CloseRead: %v", err)
		}
		s.Close()
	})
}

func TestContractDeadlines(t *testing.T) {
	eachContract(t, func(t *testing.T, tr browserTransport) {
		c := tr.dial(t)
		defer c.Close()
		s := ask(t, c, "echo")
		defer s.Close()
		for _, d := range []time.Duration{-time.Second, 10 * time.Millisecond} {
			s.SetReadDeadline(time.Now().Add(d))
			if _, err := s.Read(make([]byte, 1)); !timedOut(err) {
				t.Errorf("Read: %v", err)
			}
		}
		// One that is moved while somebody waits.
		s.SetReadDeadline(time.Time{})
		late := make(chan error, 1)
		go func() {
			_, err := s.Read(make([]byte, 1))
			late <- err
		}()
		runtime.Gosched()
		s.SetReadDeadline(time.Now())
		if err := <-late; !timedOut(err) {
			t.Errorf("Read: %v", err)
		}
		// It was not the end.
		s.SetReadDeadline(time.Now().Add(patience))
		io.WriteString(s, "hello")
		s.CloseWrite()
		if got := readAll(t, s); got != "hello" {
			t.Errorf("got %q", got)
		}
	})
}

// Writing comes to a stop when nobody reads there, until somebody does; what was counted as written arrives, and no more.
func TestContractBackpressure(t *testing.T) {
	eachContract(t, func(t *testing.T, tr browserTransport) {
		c := tr.dial(t)
		defer c.Close()
		s := ask(t, c, "mute 1500")
		defer s.Close()
		h := sha256.New()
		written := 0
		chunk := make([]byte, 1<<20)
		rand.Read(chunk)
		s.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		var err error
		for err == nil && written < 256<<20 {
			var n int
			n, err = s.Write(chunk)
			h.Write(chunk[:n])
			written += n
		}
		if !timedOut(err) {
			t.Errorf("Write: %v", err)
		}
		t.Logf("%d KiB were taken ahead", written>>10)
		s.SetDeadline(time.Now().Add(patience))
		n, err := s.Write(chunk)
		if err != nil {
			t.Errorf("Write after the deadline: %v", err)
		}
		h.Write(chunk[:n])
		written += n
		s.CloseWrite()
		if got, want := readAll(t, s), fmt.Sprintf("%d %x <nil>", written, h.Sum(nil)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// The end of a connection is noticed at once by all who use it.
func TestContractEnd(t *testing.T) {
	eachContract(t, func(t *testing.T, tr browserTransport) {
		c := tr.dial(t)
		defer c.Close()
		idle := ask(t, c, "echo")
		accepted, read := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := c.AcceptStream()
			accepted <- err
		}()
		go func() {
			_, err := idle.Read(make([]byte, 1))
			read <- err
		}()
		ask(t, c, "end")
		if err := <-accepted; err == nil {
			t.Error("a stream came")
		}
		if err := <-read; err == nil || timedOut(err) {
			t.Errorf("Read: %v", err)
		}
		settle(t, "open connections", 0, func() int {
			if c.IsClosed() {
				return 0
			}
			return 1
		})
		if _, err := c.OpenStream(context.Background()); err == nil {
			t.Error("a stream on a connection that has ended")
		}
	})
}

// A connection may end, by either end, while writes wait for room; resetting their streams then, as everybody does, is harmless.
// (Chromium's tab crashes when a stream is aborted between the end of its session and the failure of its write.)
func TestContractEndWhileWriting(t *testing.T) {
	eachContract(t, func(t *testing.T, tr browserTransport) {
		for _, other := range []bool{false, true} {
			c := tr.dial(t)
			chunk := make([]byte, 1<<20)
			var streams []network.MuxedStream
			for range 4 {
				s := ask(t, c, "mute 3000")
				streams = append(streams, s)
				s.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
				var err error
				for err == nil {
					_, err = s.Write(chunk)
				}
				if !timedOut(err) {
					t.Fatal(err)
				}
				s.SetWriteDeadline(time.Time{})
			}
			resetAll := func() {
				for _, s := range streams {
					s.Reset()
				}
			}
			var writers sync.WaitGroup
			for _, s := range streams {
				writers.Go(func() {
					if _, err := s.Write(chunk); err == nil {
						t.Error("wrote to whom nobody reads")
					}
					resetAll()
				})
			}
			if other {
				ask(t, c, "end")
			} else {
				c.Close()
				resetAll()
			}
			writers.Wait()
			c.Close()
		}
	})
}
