package dataserve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"shoal/internal/data"
)

// pieceSize is how many bytes must come within Config.Wait.
const pieceSize = 64 << 10

var (
	errLied    = errors.New("what it sent has another hash")
	errRefused = errors.New("it refused this peer")
	errMissing = errors.New("it does not have them") // now
)

// stream is an open stream to a holder, after the hello. It has one user at a time.
type stream struct {
	conn  net.Conn
	since time.Time // when it was last used
}

// ask has h answer a request with want bytes. errMissing means that it can't, now.
func (f *Fetcher) ask(ctx context.Context, h *holder, q request, want int) (body []byte, err error) {
	s, addrs := f.reuse(h)
	if s == nil {
		if s, err = f.open(ctx, h, addrs); err != nil {
			return nil, err
		}
	}
	stop := context.AfterFunc(ctx, func() { s.conn.Close() })
	body, err = f.exchange(h, s.conn, q, want)
	switch {
	case !stop():
		s.conn.Close()
		return nil, context.Cause(ctx)
	case err != nil && !errors.Is(err, errMissing):
		s.conn.Close()
	default:
		f.keep(h, s)
	}
	return body, err
}

// open opens a stream to h and learns what it has.
func (f *Fetcher) open(ctx context.Context, h *holder, addrs []string) (*stream, error) {
	b, err := appendHello(nil, hello{f.cfg.Run, f.cfg.Secret})
	if err != nil {
		return nil, err
	}
	dialling, cancel := context.WithTimeout(ctx, f.cfg.Wait)
	defer cancel()
	conn, err := f.cfg.Transport.Open(dialling, h.ID, addrs, Protocol)
	if err != nil {
		return nil, err
	}
	conn = counted{conn, &f.sent, &f.received}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err = f.greet(h, conn, b)
	if !stop() || err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return &stream{conn: conn}, nil
}

func (f *Fetcher) greet(h *holder, conn net.Conn, hello []byte) error {
	if err := conn.SetDeadline(time.Now().Add(f.cfg.Wait)); err != nil {
		return err
	}
	if _, err := conn.Write(hello); err != nil {
		return err
	}
	_, err := f.hear(h, conn, request{}, 0)
	if errors.Is(err, errMissing) { // which is all that there is to be said
		return nil
	}
	return err
}

// exchange sends a request and reads its answer.
func (f *Fetcher) exchange(h *holder, conn net.Conn, q request, want int) ([]byte, error) {
	if err := conn.SetDeadline(time.Now().Add(f.cfg.Wait)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(appendRequest(nil, q)); err != nil {
		return nil, err
	}
	return f.hear(h, conn, q, want)
}

// hear reads the reply to a request. After a hello, and if h lacks what it was asked for, it learns what h has.
func (f *Fetcher) hear(h *holder, conn net.Conn, q request, want int) ([]byte, error) {
	r, err := readReply(conn, q, want, f.total)
	if err != nil {
		return nil, err
	}
	body, err := f.body(conn, r.length)
	if err != nil {
		return nil, err
	}
	switch r.kind {
	case kindHave:
		f.learn(h, body)
		if q.kind != 0 && (len(body) == 0 || hasBit(body, q.first)) { // perhaps since a moment ago
			return nil, errors.New("it did not give what it says it has")
		}
		return nil, errMissing
	case kindRefused:
		if q.kind == 0 {
			return nil, fmt.Errorf("%w: %q", errRefused, body)
		}
		return nil, fmt.Errorf("it gives nothing: %q", body)
	}
	return body, nil
}

// body reads n bytes, of which some must come all the time, and all within a few times as long.
func (f *Fetcher) body(conn net.Conn, n int) ([]byte, error) {
	end := time.Now().Add(slowest * f.cfg.Wait)
	b := make([]byte, n)
	for at := 0; at < n; {
		piece := b[at:min(n, at+pieceSize)]
		limit := time.Now().Add(f.cfg.Wait)
		if limit.After(end) {
			limit = end
		}
		if err := conn.SetReadDeadline(limit); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(conn, piece); err != nil {
			return nil, noEOF(err)
		}
		at += len(piece)
	}
	return b, nil
}

// slowest is how many times Config.Wait a chunk may take.
const slowest = 4

// chunkFrom asks h for chunk i and checks it.
func (f *Fetcher) chunkFrom(ctx context.Context, h *holder, i int) ([]byte, error) {
	file, offset, n := f.manifest.Place(i)
	b, err := f.ask(ctx, h, request{kindChunk, i, 1}, n)
	if err != nil {
		return nil, err
	}
	if !f.manifest.Verify(i, b) {
		return nil, fmt.Errorf("%w: bytes %d to %d of %s", errLied, offset, offset+int64(n)-1, f.manifest.Files[file].Name)
	}
	return b, nil
}

// hashesFrom asks h for the hashes of all chunks and checks them against the roots.
func (f *Fetcher) hashesFrom(ctx context.Context, h *holder, id data.Identity) (*data.Manifest, error) {
	m := &data.Manifest{Identity: id}
	for len(m.Leaves) < f.total {
		q := request{kindHashes, len(m.Leaves), min(maxHashes, f.total-len(m.Leaves))}
		b, err := f.ask(ctx, h, q, q.count*hashSize)
		if err != nil {
			return nil, err
		}
		for ; len(b) > 0; b = b[hashSize:] {
			m.Leaves = append(m.Leaves, data.Hash(b[:hashSize]))
		}
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", errLied, err)
	}
	return m, nil
}
