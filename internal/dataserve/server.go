package dataserve

import (
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"shoal/internal/data"
)

const (
	maxStreams    = 256              // that a Server serves at a time
	maxPeerStream = 4                // of one peer
	maxSending    = 16               // chunks that are in memory to be sent
	helloTimeout  = 10 * time.Second // for a hello and its answer
	serveIdle     = time.Minute      // between two requests
	sendTimeout   = 30 * time.Second // for a reply to be taken
)

// Store has some chunks of a data set, or all. Methods may be called by several goroutines.
type Store interface {
	data.ChunkSource
	// Has says whether Chunk will find chunk i without asking others. If it has just gone, Chunk returns ErrMissing.
	Has(i int) bool
}

// ErrMissing is wrapped by the error of a Store that doesn't have a chunk any more.
var ErrMissing = errors.New("the chunk is not here")

// Whole is a Store of a source that has all chunks.
func Whole(src data.ChunkSource) Store { return whole{src} }

type whole struct{ data.ChunkSource }

func (whole) Has(int) bool { return true }

// ServerConfig is what a Server is made from.
type ServerConfig struct {
	Transport   Transport
	Run, Secret string // those who ask must know both
	Manifest    *data.Manifest
	Store       Store
	Log         *slog.Logger
}

// Server gives chunks to other peers.
type Server struct {
	cfg            ServerConfig
	sending        chan []byte // buffers of a chunk
	sent, received atomic.Int64
	ctx            context.Context // ends with Close
	stop           context.CancelFunc
	handlers       sync.WaitGroup // Add only by begin

	mu      sync.Mutex
	closed  bool
	streams map[string]int // being served, by peer
	total   int
}

// Serve begins to answer streams of Protocol.
func Serve(cfg ServerConfig) *Server {
	s := &Server{cfg: cfg, sending: make(chan []byte, maxSending), streams: map[string]int{}}
	for range maxSending {
		s.sending <- nil // made when it is first used
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	cfg.Transport.Handle(Protocol, s.handle)
	return s
}

// Close ends all streams and waits for their handlers. It may be called twice.
func (s *Server) Close() {
	s.cfg.Transport.Handle(Protocol, nil)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.handlers.Wait()
}

// Stats counts what was sent and received so far.
func (s *Server) Stats() Stats { return Stats{s.sent.Load(), s.received.Load()} }

// begin counts a stream, unless there are too many or the server has ended.
func (s *Server) begin(peer string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.total >= maxStreams || s.streams[peer] >= maxPeerStream {
		return false
	}
	s.total++
	s.streams[peer]++
	s.handlers.Add(1)
	return true
}

func (s *Server) end(peer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.streams[peer]--; s.streams[peer] == 0 {
		delete(s.streams, peer)
	}
	s.handlers.Done()
}

func (s *Server) handle(peer string, conn net.Conn) {
	defer conn.Close()
	if !s.begin(peer) {
		return
	}
	defer s.end(peer)
	defer context.AfterFunc(s.ctx, func() { conn.Close() })()
	if err := s.serve(counted{conn, &s.sent, &s.received}); s.ctx.Err() == nil {
		s.cfg.Log.Debug("stream of chunks ended", "peer", peer, "err", err)
	}
}

// serve answers requests until the stream ends, and says why it did.
func (s *Server) serve(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return err
	}
	h, err := readHello(conn)
	if err != nil {
		return err
	}
	if why := s.refuse(h); why != "" {
		if err := s.reply(conn, kindRefused, 0, []byte(why)); err != nil {
			return err
		}
		conn.Read(make([]byte, 1)) // until the other side closes, so that the answer isn't overtaken, or the deadline
		return errors.New("refused: " + why)
	}
	if err := s.reply(conn, kindHave, 0, s.bitmap()); err != nil {
		return err
	}
	for {
		if err := conn.SetReadDeadline(time.Now().Add(serveIdle)); err != nil {
			return err
		}
		q, err := readRequest(conn, len(s.cfg.Manifest.Leaves))
		if err != nil {
			return err
		}
		if err := s.answer(conn, q); err != nil {
			return err
		}
	}
}

// refuse says why a peer gets nothing, or "".
func (s *Server) refuse(h hello) string {
	switch {
	case h.run != s.cfg.Run:
		return "this is another run"
	case subtle.ConstantTimeCompare([]byte(h.secret), []byte(s.cfg.Secret)) != 1:
		return "the secret is wrong"
	}
	return ""
}

func (s *Server) answer(conn net.Conn, q request) error {
	if q.kind == kindHashes {
		var body []byte
		for _, h := range s.cfg.Manifest.Leaves[q.first : q.first+q.count] {
			body = append(body, h[:]...)
		}
		return s.reply(conn, kindHashes, q.first, body)
	}
	var buf []byte
	select {
	case buf = <-s.sending:
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	defer func() { s.sending <- buf }()
	if !s.cfg.Store.Has(q.first) {
		return s.reply(conn, kindHave, q.first, s.bitmap())
	}
	if buf == nil {
		buf = make([]byte, data.ChunkSize)
	}
	n, err := data.CopyChunk(s.ctx, s.cfg.Store, q.first, buf)
	switch {
	case errors.Is(err, ErrMissing):
		return s.reply(conn, kindHave, q.first, s.bitmap())
	case err != nil: // in words without paths: those are this machine's own
		s.cfg.Log.Warn("a chunk of the data can't be given to others", "chunk", q.first, "err", err)
		why := "it can't read its files"
		if errors.Is(err, data.ErrChanged) {
			why = "its files changed since the run began"
		}
		return s.reply(conn, kindRefused, q.first, []byte(why))
	}
	return s.reply(conn, kindChunk, q.first, buf[:n])
}

func (s *Server) reply(conn net.Conn, k kind, first int, body []byte) error {
	if err := conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write(appendReply(nil, k, first, len(body))); err != nil {
		return err
	}
	if len(body) == 0 {
		return nil
	}
	_, err := conn.Write(body)
	return err
}

// bitmap has a bit for each chunk that can be had here, and is empty if all can.
func (s *Server) bitmap() []byte {
	n := len(s.cfg.Manifest.Leaves)
	bits, all := make([]byte, bitmapSize(n)), true
	for i := range n {
		if s.cfg.Store.Has(i) {
			bits[i/8] |= 1 << (i % 8)
		} else {
			all = false
		}
	}
	if all {
		return nil
	}
	return bits
}

// counted counts the bytes of a stream.
type counted struct {
	net.Conn
	sent, received *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	return n, err
}
