//go:build !js

package peer

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	"github.com/libp2p/go-libp2p/p2p/transport/websocket"
	webtransport "github.com/libp2p/go-libp2p/p2p/transport/webtransport"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/quic-go/quic-go"
)

// contract is the other end of the tests in contract_js_test.go: libp2p's own transports with nothing above. Each stream
// begins with a line that says what its other end is to do; see contractStream.
type contract struct {
	id     peer.ID
	ws, wt ma.Multiaddr
}

// startContract ends with the test.
func startContract(t *testing.T) contract {
	t.Helper()
	key, id, _, up := roomyUpgrader(t)
	ws, err := websocket.New(up, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	reuse, err := quicreuse.NewConnManager(quic.StatelessResetKey{}, quic.TokenGeneratorKey{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reuse.Close() })
	wt, err := webtransport.New(key, nil, reuse, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wt.(io.Closer).Close() })
	return contract{id: id,
		ws: acceptContract(t, ws, "/ip4/127.0.0.1/tcp/0/ws"),
		wt: acceptContract(t, wt, "/ip4/127.0.0.1/udp/0/quic-v1/webtransport")}
}

func acceptContract(t *testing.T, tr transport.Transport, at string) ma.Multiaddr {
	t.Helper()
	l, err := tr.Listen(ma.StringCast(at))
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			work.Go(func() {
				for {
					s, err := c.AcceptStream()
					if err != nil {
						c.Close()
						return
					}
					work.Go(func() { contractStream(c, s) })
				}
			})
		}
	})
	t.Cleanup(work.Wait)
	t.Cleanup(func() { l.Close() })
	return l.Multiaddr()
}

// contractStream does what the first line says.
func contractStream(c transport.CapableConn, s network.MuxedStream) {
	defer s.Close()
	r := bufio.NewReader(s)
	line, err := r.ReadString('\n')
	if err != nil {
		s.Reset()
		return
	}
	var n int
	var word string
	fmt.Sscan(line, &word, &n)
	switch word {
	case "echo": // until EOF
		io.Copy(s, r)
	case "sum": // of all that comes
		h := sha256.New()
		count, err := io.Copy(h, r)
		fmt.Fprintf(s, "%d %x %v", count, h.Sum(nil), err)
	case "send": // n bytes, and their sum at the end
		h := sha256.New()
		chunk := make([]byte, 1<<20)
		rand.Read(chunk)
		for w := io.MultiWriter(s, h); n > 0 && err == nil; n -= len(chunk) {
			chunk = chunk[:min(n, len(chunk))]
			_, err = w.Write(chunk)
		}
		s.Write(h.Sum(nil))
	case "reset": // with a code, after one byte
		r.ReadByte()
		s.ResetWithError(network.StreamErrorCode(n))
	case "why": // says "!", waits for the stream's end, and says in a stream of its own how it was
		io.WriteString(s, "!")
		_, err := io.Copy(io.Discard, r)
		report(c, fmt.Sprint(err))
	case "mute": // for n milliseconds, then "sum"
		time.Sleep(time.Duration(n) * time.Millisecond)
		h := sha256.New()
		count, err := io.Copy(h, r)
		fmt.Fprintf(s, "%d %x %v", count, h.Sum(nil), err)
	case "open": // n streams, all at once, each with its number, which come back
		var all sync.WaitGroup
		failed := make(chan error, n)
		for i := range n {
			all.Go(func() {
				if err := roundTrip(c, fmt.Sprintf("stream %d", i)); err != nil {
					failed <- err
				}
			})
		}
		all.Wait()
		close(failed)
		for err := range failed {
			fmt.Fprintln(s, err)
		}
	case "end": // of the connection
		c.Close()
	}
}

func report(c transport.CapableConn, text string) {
	s, err := c.OpenStream(context.Background())
	if err != nil {
		return
	}
	io.WriteString(s, text)
	s.Close()
}

// roundTrip sends a text through a stream of its own and wants it back.
func roundTrip(c transport.CapableConn, text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := c.OpenStream(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	s.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(s, text); err != nil {
		return err
	}
	if err := s.CloseWrite(); err != nil {
		return err
	}
	back, err := io.ReadAll(s)
	if err == nil && string(back) != text {
		err = fmt.Errorf("%q came back as %q", text, strings.ToValidUTF8(string(back), "?"))
	}
	return err
}
