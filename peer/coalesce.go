package peer

import (
	"bufio"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
)

// [Note: coalesced records]
//
// crypto/tls makes one system call per record of 16 KiB in each direction, a good part of what a fast link costs. Here
// a batchConn sits between TLS and the socket: while a Write of the secure connection runs, it collects the records,
// and they leave in one call; reads go through a buffer of several records. The bytes on the wire are the same, so the
// other side need not know. BenchmarkStream: a seventh less CPU per byte.

const recordBuffer = 128 << 10 // bytes read at a time: 8 records

// coalescingTLS is libp2p's TLS transport on batched connections.
type coalescingTLS struct{ *libp2ptls.Transport }

var _ sec.SecureTransport = coalescingTLS{}

func newCoalescingTLS(id protocol.ID, key crypto.PrivKey, muxers []upgrader.StreamMuxer) (coalescingTLS, error) {
	t, err := libp2ptls.New(id, key, muxers)
	return coalescingTLS{t}, err
}

func (t coalescingTLS) SecureInbound(ctx context.Context, c net.Conn, p peer.ID) (sec.SecureConn, error) {
	b := newBatchConn(c)
	return b.secured(t.Transport.SecureInbound(ctx, b, p))
}

func (t coalescingTLS) SecureOutbound(ctx context.Context, c net.Conn, p peer.ID) (sec.SecureConn, error) {
	b := newBatchConn(c)
	return b.secured(t.Transport.SecureOutbound(ctx, b, p))
}

// batchConn is what TLS takes for the socket.
type batchConn struct {
	net.Conn
	r *bufio.Reader

	handshaking bool          // by one goroutine; it has ended before others use the connection
	asked       time.Time     // when the handshake has written something that it has no answer to
	roundTrip   time.Duration // the least that an answer took; 0: there was none

	mu       sync.Mutex // held while writing to the socket, so that records keep their order
	batching bool       // under mu
	batch    []byte     // under mu

	bytes, busy atomic.Int64 // written to the socket, and nanoseconds that the socket took to take them
}

func newBatchConn(c net.Conn) *batchConn {
	_ = shortQueue(c) // without it messages wait longer, no more
	return &batchConn{Conn: c, r: bufio.NewReaderSize(c, recordBuffer), handshaking: true}
}

func (b *batchConn) secured(c sec.SecureConn, err error) (sec.SecureConn, error) {
	b.handshaking = false
	if err != nil {
		return nil, err
	}
	return &batchedSecureConn{SecureConn: c, raw: b}, nil
}

func (b *batchConn) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.handshaking && !b.asked.IsZero() {
		if took := time.Since(b.asked); b.roundTrip == 0 || took < b.roundTrip {
			b.roundTrip = took
		}
		b.asked = time.Time{}
	}
	return n, err
}

func (b *batchConn) Write(p []byte) (int, error) {
	if b.handshaking {
		b.asked = time.Now()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.batching {
		b.batch = append(b.batch, p...)
		return len(p), nil
	}
	return b.send(p)
}

// send writes to the socket. mu is held.
func (b *batchConn) send(p []byte) (int, error) {
	start := time.Now()
	n, err := b.Conn.Write(p)
	b.bytes.Add(int64(n))
	b.busy.Add(int64(time.Since(start)))
	return n, err
}

func (b *batchConn) hold() {
	b.mu.Lock()
	b.batching = true
	b.mu.Unlock()
}

func (b *batchConn) flush() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.batching = false
	if len(b.batch) == 0 {
		return nil
	}
	_, err := b.send(b.batch)
	b.batch = b.batch[:0]
	return err
}

// batchedSecureConn is the secure connection that the muxer sees.
type batchedSecureConn struct {
	sec.SecureConn
	raw *batchConn

	mu      sync.Mutex // one Write at a time
	writing atomic.Bool
}

func (c *batchedSecureConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing.Store(true)
	defer c.writing.Store(false)
	c.raw.hold()
	n, err := c.SecureConn.Write(p)
	if flushErr := c.raw.flush(); err == nil && flushErr != nil {
		return 0, flushErr
	}
	return n, err
}

// Close interrupts a Write in progress, as TLS does: TLS itself can't see it and would wait for its turn to say goodbye.
func (c *batchedSecureConn) Close() error {
	if c.writing.Load() {
		c.raw.Conn.Close()
	}
	return c.SecureConn.Close()
}
