package wirebench

import (
	"fmt"
	"io"
	"net"
	"time"
)

// Stream is the end of a stream that measures; at the other one is a Server. One goroutine at a time may use it.
type Stream struct {
	c    net.Conn
	bulk []byte
}

// NewStream makes a Stream of an open connection, which stays its caller's to close.
func NewStream(c net.Conn) *Stream { return &Stream{c: c, bulk: make([]byte, message)} }

// Echo says how long a small message takes there and back.
func (s *Stream) Echo() (time.Duration, error) {
	start := time.Now()
	_, err := s.ask(askEcho, 0)
	return time.Since(start), err
}

// Put says how long n bytes take there, until the other end says that it has all of them.
func (s *Stream) Put(n int64) (time.Duration, error) {
	start := time.Now()
	r := newRequest(askTake, uint64(n))
	if _, err := s.c.Write(r[:]); err != nil {
		return 0, err
	}
	if err := send(s.c, n, s.bulk); err != nil {
		return 0, err
	}
	_, err := s.answer(askTake)
	return time.Since(start), err
}

// Get says how long n bytes take from there, the request for them included.
func (s *Stream) Get(n int64) (time.Duration, error) {
	start := time.Now()
	r := newRequest(askGive, uint64(n))
	if _, err := s.c.Write(r[:]); err != nil {
		return 0, err
	}
	err := receive(s.c, n, s.bulk)
	return time.Since(start), err
}

// CPU is the processor time that the other end's process has used; 0 where its system can't be asked.
func (s *Stream) CPU() (time.Duration, error) {
	r, err := s.ask(askCPU, 0)
	return time.Duration(r.number()), err
}

// End tells the Server that this was all.
func (s *Stream) End() error {
	_, err := s.ask(askEnd, 0)
	return err
}

func (s *Stream) ask(what byte, n uint64) (request, error) {
	r := newRequest(what, n)
	if _, err := s.c.Write(r[:]); err != nil {
		return r, err
	}
	return s.answer(what)
}

func (s *Stream) answer(what byte) (r request, err error) {
	if _, err := io.ReadFull(s.c, r[:]); err != nil {
		return r, fmt.Errorf("wirebench: waiting for an answer: %w", err)
	}
	if r[0] != what {
		return r, fmt.Errorf("wirebench: answer %d to request %d; are both ends of the same version?", r[0], what)
	}
	return r, nil
}

// Fill says how many bytes f, which moves so many, takes about d for: at least 1 MiB.
func Fill(d time.Duration, f func(n int64) (time.Duration, error)) (int64, error) {
	for n := int64(message); ; {
		took, err := f(n)
		if err != nil || took > d/2 || n > maxBulk/8 {
			return n, err
		}
		n *= max(2, min(8, int64(d/max(took, 1))))
	}
}
