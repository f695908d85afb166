//go:build !js

package peer

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
)

// countingConn counts the writes to a socket.
type countingConn struct {
	net.Conn
	writes *int
}

func (c countingConn) Write(p []byte) (int, error) {
	*c.writes++
	return c.Conn.Write(p)
}

// tcpPair is a connection over loopback.
func tcpPair(t testing.TB) (client, server net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return client, server
}

func tlsTransport(t testing.TB, coalesce bool) (sec.SecureTransport, peer.ID) {
	id, err := openIdentity("")
	if err != nil {
		t.Fatal(err)
	}
	self, err := peer.IDFromPrivateKey(id.key)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := newCoalescingTLS(libp2ptls.ID, id.key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if coalesce {
		return tr, self
	}
	return tr.Transport, self
}

// securePair puts TLS on a connection over loopback. writes counts the client's.
func securePair(t testing.TB, clientCoalesces, serverCoalesces bool, writes *int) (client, server sec.SecureConn) {
	rawClient, rawServer := tcpPair(t)
	clientTLS, _ := tlsTransport(t, clientCoalesces)
	serverTLS, serverID := tlsTransport(t, serverCoalesces)
	ctx := testContext(t)
	var wg sync.WaitGroup
	var serverErr error
	wg.Go(func() { server, serverErr = serverTLS.SecureInbound(ctx, rawServer, "") })
	client, err := clientTLS.SecureOutbound(ctx, countingConn{rawClient, writes}, serverID)
	wg.Wait()
	if err != nil || serverErr != nil {
		t.Fatal(err, serverErr)
	}
	return client, server
}

// Either side may coalesce: the bytes on the wire are TLS's own.
func TestCoalesceIsTLS(t *testing.T) {
	sent := make([]byte, 1<<20)
	rand.Read(sent)
	for _, c := range []bool{false, true} {
		for _, s := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v to %v", c, s), func(t *testing.T) {
				var writes int
				client, server := securePair(t, c, s, &writes)
				got := make([]byte, len(sent))
				var wg sync.WaitGroup
				wg.Go(func() {
					if _, err := io.ReadFull(server, got); err != nil {
						t.Error(err)
					}
				})
				before := writes
				if n, err := client.Write(sent); n != len(sent) || err != nil {
					t.Errorf("wrote %d, %v", n, err)
				}
				if n := writes - before; (n == 1) != c {
					t.Errorf("%d calls", n)
				}
				wg.Wait()
				if !bytes.Equal(got, sent) {
					t.Error("other bytes arrived")
				}
				client.Close()
				if _, err := server.Read(got); err != io.EOF {
					t.Errorf("after Close: %v", err)
				}
			})
		}
	}
}

// Close ends a Write that nobody reads, and doesn't wait for it.
func TestCoalesceClose(t *testing.T) {
	var writes int
	client, _ := securePair(t, true, true, &writes)
	result := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		_, err := client.Write(make([]byte, 1))
		close(started)
		for err == nil {
			_, err = client.Write(make([]byte, 1<<20))
		}
		result <- err
	}()
	<-started
	begin := time.Now()
	client.Close()
	receive(t, result)
	if d := time.Since(begin); d > 6*time.Second {
		t.Errorf("took %v", d)
	}
}

// BenchmarkTLS compares one Write per message with and without.
func BenchmarkTLS(b *testing.B) {
	for _, coalesce := range []bool{false, true} {
		for _, size := range []int{64 << 10, 128 << 10, 256 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("coalesce=%v/%dKiB", coalesce, size>>10), func(b *testing.B) {
				var writes int
				client, server := securePair(b, coalesce, coalesce, &writes)
				buf, chunk := make([]byte, size), make([]byte, size)
				b.SetBytes(int64(size))
				var wg sync.WaitGroup
				wg.Go(func() {
					for err := error(nil); err == nil; {
						_, err = io.ReadFull(server, buf)
					}
				})
				for b.Loop() {
					if _, err := client.Write(chunk); err != nil {
						b.Fatal(err)
					}
				}
				client.Close()
				wg.Wait()
			})
		}
	}
}
