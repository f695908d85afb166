// Package wirebench measures a connection between two peers: round trips, throughput and what it costs, and which packing
// pays on it. One end serves, the other one measures.
package wirebench

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"shoal/internal/sysinfo"
)

// Protocol is the id of the streams.
const Protocol = "/shoal/bench/1"

// message is how many bytes a bulk transfer writes, and packing takes, at a time: as many as a frame may have.
const message = 1 << 20

// What a request asks for, in its first byte. The next 7 are 0, and the last 8 a number, little-endian.
const (
	askEcho = 1 // the request itself
	askTake = 2 // so many bytes follow; answered by the request, once they are there
	askGive = 3 // so many bytes
	askCPU  = 4 // the request with the process's processor time in nanoseconds as its number
	askEnd  = 5 // the request itself; then nothing more is measured

	requestSize = 16
	maxBulk     = 1 << 40 // bytes of one transfer
)

type request [requestSize]byte

func newRequest(ask byte, n uint64) (r request) {
	r[0] = ask
	binary.LittleEndian.PutUint64(r[8:], n)
	return r
}

func (r *request) number() uint64 { return binary.LittleEndian.Uint64(r[8:]) }

// Server is the end that answers. The zero Server is not usable, see NewServer.
type Server struct {
	once sync.Once
	done chan struct{}
}

// NewServer makes a Server.
func NewServer() *Server { return &Server{done: make(chan struct{})} }

// Done is closed when somebody has measured and says that this was all.
func (s *Server) Done() <-chan struct{} { return s.done }

// Serve answers the requests of a stream until it ends, and closes it.
func (s *Server) Serve(c net.Conn) error {
	defer c.Close()
	bulk := make([]byte, message)
	for {
		var r request
		if _, err := io.ReadFull(c, r[:]); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		if err := s.answer(c, r, bulk); err != nil {
			return err
		}
		if r[0] == askEnd {
			c.Close() // first, so that the answer gets through before the process may end
			s.once.Do(func() { close(s.done) })
			return nil
		}
	}
}

func (s *Server) answer(c net.Conn, r request, bulk []byte) error {
	n := r.number()
	switch ask := r[0]; {
	case ask == askEcho, ask == askEnd:
	case ask == askTake && n <= maxBulk:
		if err := receive(c, int64(n), bulk); err != nil {
			return err
		}
	case ask == askGive && n <= maxBulk:
		return send(c, int64(n), bulk)
	case ask == askCPU:
		r = newRequest(askCPU, uint64(sysinfo.CPU()))
	default:
		return fmt.Errorf("wirebench: request %d with %d makes no sense; are both ends of the same version?", ask, n)
	}
	_, err := c.Write(r[:])
	return err
}

// send writes n bytes, bulk by bulk.
func send(c io.Writer, n int64, bulk []byte) error {
	for ; n > 0; n -= int64(len(bulk)) {
		if _, err := c.Write(bulk[:min(n, int64(len(bulk)))]); err != nil {
			return err
		}
	}
	return nil
}

// receive reads n bytes and throws them away.
func receive(c io.Reader, n int64, bulk []byte) error {
	for ; n > 0; n -= int64(len(bulk)) {
		if _, err := io.ReadFull(c, bulk[:min(n, int64(len(bulk)))]); err != nil {
			return err
		}
	}
	return nil
}
