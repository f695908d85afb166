package swarm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shoal/swarm/codec"
	"shoal/swarm/wire"
)

var errInjected = errors.New("injected fault")

// faults wraps the first so many streams that each member opens to each other.
func faults(first int, wrap func(stream int, c net.Conn) net.Conn) func(int, Transport) Transport {
	return func(_ int, t Transport) Transport {
		var mu sync.Mutex
		opened := map[string]int{}
		return faultyTransport{t, func(peer string, c net.Conn) net.Conn {
			mu.Lock()
			defer mu.Unlock()
			opened[peer]++
			if opened[peer] > first {
				return c
			}
			return wrap(opened[peer], c)
		}}
	}
}

func TestExchangeBrokenStreams(t *testing.T) {
	for seed := range uint64(4) {
		for _, packing := range []codec.Packing{codec.Off, codec.On} {
			t.Run(fmt.Sprintf("seed %d, packing %v", seed, packing), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					// Each of the first 6 streams of a pair breaks somewhere in its first 256 KiB.
					wrap := faults(6, func(stream int, c net.Conn) net.Conn {
						left := rand.New(rand.NewPCG(seed, uint64(stream))).IntN(1 << 18)
						return &faultyConn{Conn: c, onWrite: func(p []byte) ([]byte, error) {
							if left -= len(p); left < 0 {
								return p[:max(0, left+len(p))], errInjected
							}
							return p, nil
						}}
					})
					m := newMesh(t, 3, meshConfig{packing: packing, wrap: wrap})
					m.attempts(layouts(3, seed, 80_000, 10, 30_000), 1, 2)
				})
			})
		}
	}
}

// The parts arrive, their acknowledgements don't: all is sent once more and dropped.
func TestExchangeLostAcknowledgements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrap := faults(4, func(_ int, c net.Conn) net.Conn {
			return &faultyConn{Conn: c, onRead: func([]byte) error { return errInjected }}
		})
		m := newMesh(t, 2, meshConfig{wrap: wrap})
		m.attempts([]layout{{[]int{0, 300_000, 600_000}}}, 1, 2)
		s := m.x[0].stats()
		if want := uint64(2 * 4 * 4 * 300_000); s.RawReceived != want || s.BytesReceived < want+1_200_000 {
			t.Errorf("%+v, want %d tensor bytes taken and more received", s, want)
		}
	})
}

// A member that is not there yet, or cut off for a while, delays the attempt and nothing else.
func TestExchangeLateAndCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 2, meshConfig{without: 1})
		units := []layout{{[]int{0, 50_000, 100_000}}}
		early, err := m.begin(0, 1, units)
		if err != nil {
			t.Fatal(err)
		}
		m.post(0, early)
		<-time.After(3 * time.Second)
		m.start(1, meshConfig{})
		late, err := m.begin(1, 1, units)
		if err != nil {
			t.Fatal(err)
		}
		m.net.Cut(peerName(0), peerName(1))
		m.post(1, late)
		<-time.After(3 * time.Second)
		m.net.Heal(peerName(0), peerName(1))
		m.finish(early, late)
		m.attempts(units, 2)
	})
}

// A damaged frame costs its stream and is sent again.
func TestExchangeDamagedFrame(t *testing.T) {
	for name, at := range map[string]int{"header": 20, "payload": wire.HeaderSize + 1000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wrap := faults(2, func(_ int, c net.Conn) net.Conn {
					return &faultyConn{Conn: c, onWrite: func(p []byte) ([]byte, error) {
						if len(p) > at {
							p = append([]byte(nil), p...)
							p[at] ^= 4
						}
						return p, nil
					}}
				})
				m := newMesh(t, 3, meshConfig{wrap: wrap})
				m.attempts([]layout{{[]int{0, 5000, 10000, 15000}}}, 1, 2)
			})
		})
	}
}

// A member whose every frame is damaged ends the attempt of those who wait for it.
func TestExchangeDamageWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrap := func(r int, tr Transport) Transport {
			if r != 1 {
				return tr
			}
			return faults(1<<30, func(_ int, c net.Conn) net.Conn {
				return &faultyConn{Conn: c, onWrite: func(p []byte) ([]byte, error) {
					if len(p) > wire.HeaderSize {
						p = append([]byte(nil), p...)
						p[len(p)-1] ^= 1
					}
					return p, nil
				}}
			})(r, tr)
		}
		m := newMesh(t, 2, meshConfig{wrap: wrap})
		a, err := m.begin(0, 1, []layout{{[]int{0, 500, 1000}}})
		if err != nil {
			t.Fatal(err)
		}
		m.post(0, a)
		b, err := m.begin(1, 1, []layout{{[]int{0, 500, 1000}}})
		if err != nil {
			t.Fatal(err)
		}
		m.post(1, b)
		if err := a.wait(); !errors.Is(err, wire.ErrChecksum) || !strings.Contains(err.Error(), "member 101 (rank 1, peer peer-1)") {
			t.Errorf("%v, want an error about checksums that names member 101", err)
		}
	})
}

// byHand opens a data stream to rank 0 as rank 1 and says hello.
func (m *mesh) byHand(peer string, h wire.Hello) net.Conn {
	m.t.Helper()
	c, err := m.net.Host(peer).Open(m.t.Context(), peerName(0), nil, wire.DataProtocol)
	if err != nil {
		m.t.Fatal(err)
	}
	b, err := wire.AppendHello(nil, h)
	if err != nil {
		m.t.Fatal(err)
	}
	if _, err := c.Write(b); err != nil {
		m.t.Fatal(err)
	}
	return c
}

func TestExchangeRefusesStrangers(t *testing.T) {
	good := wire.Hello{Run: "run", From: 101, To: 100, Class: wire.Params}
	for name, c := range map[string]struct {
		peer string
		edit func(h *wire.Hello)
	}{
		"another run":             {peerName(1), func(h *wire.Hello) { h.Run = "other" }},
		"for a former process":    {peerName(1), func(h *wire.Hello) { h.To = 99 }},
		"from a former process":   {peerName(1), func(h *wire.Hello) { h.From = 55 }},
		"of another generation":   {peerName(1), func(h *wire.Hello) { h.Generation = 1 }},
		"from no member":          {"stranger", func(h *wire.Hello) { h.From = 55 }},
		"under another's id":      {"stranger", func(*wire.Hello) {}},
		"under the receiver's id": {peerName(0), func(h *wire.Hello) { h.From = 100 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMesh(t, 2, meshConfig{})
				h := good
				c.edit(&h)
				if _, err := m.byHand(c.peer, h).Read(make([]byte, 1)); err == nil {
					t.Error("the stream was not reset")
				}
				m.attempts([]layout{{[]int{0, 10, 20}}}, 1)
			})
		})
	}
	t.Run("silence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := newMesh(t, 1, meshConfig{})
			c, err := m.net.Host("silent").Open(t.Context(), peerName(0), nil, wire.DataProtocol)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if _, err := c.Read(make([]byte, 1)); err == nil || time.Since(start) != helloTimeout {
				t.Errorf("%v after %v, want a reset after %v", err, time.Since(start), helloTimeout)
			}
		})
	})
}

// TestExchangeProtocolFaults plays rank 1 by hand, in frames that are whole but make no sense for attempt 3, in which
// rank 0 expects 8 bytes of parameters under tag 1 and owns 4 elements of each unit.
func TestExchangeProtocolFaults(t *testing.T) {
	params := func(part, offset, raw int) wire.Header {
		return wire.Header{Kind: wire.KindParams, Tag: 1, Fence: 3, Part: uint64(part), Offset: uint64(offset), Raw: uint32(raw)}
	}
	gradient := func(unit, part, offset, raw, microbatches int) wire.Header {
		return wire.Header{Kind: wire.KindGradient, Tag: uint32(unit), Fence: 3, Part: uint64(part), Offset: uint64(offset), Raw: uint32(raw), Microbatches: uint32(microbatches)}
	}
	forward := func(part, offset, raw, microbatches int) wire.Header {
		h := gradient(1, part, offset, raw, microbatches)
		h.Kind = wire.KindForward
		return h
	}
	state := func(part, offset, raw int) wire.Header {
		h := gradient(1, part, offset, raw, 1)
		h.Kind = wire.KindState
		return h
	}
	packed := func(h wire.Header) wire.Header { h.Codec = wire.CodecPlanes; return h }
	for name, c := range map[string]struct {
		frames []wire.Header
		says   string
	}{
		"part of another size":   {[]wire.Header{params(12, 0, 8)}, "gives 12 bytes, 8 were expected"},
		"huge part":              {[]wire.Header{params(1<<30, 0, 8)}, "gives 1073741824 bytes"},
		"gap":                    {[]wire.Header{params(8, 4, 4)}, "a chunk at 4 of 4 bytes, after 0 bytes"},
		"overlap":                {[]wire.Header{params(8, 0, 4), params(8, 2, 6)}, "a chunk at 2 of 6 bytes, after 4 bytes"},
		"not packed":             {[]wire.Header{packed(params(8, 0, 8))}, "corrupt packed bytes"},
		"gradient not packed":    {[]wire.Header{packed(gradient(1, 16, 0, 16, 1))}, "corrupt packed bytes"},
		"half an element":        {[]wire.Header{gradient(1, 16, 0, 6, 1)}, "not whole elements"},
		"unit beyond all models": {[]wire.Header{gradient(maxTag, 16, 0, 16, 1)}, "not whole elements of a tag below 1048576"},
		"state too long":         {[]wire.Header{state(16, 0, 16), state(20, 16, 4)}, "20 bytes of 1 microbatches, before that 16"},
		"forwards that differ":   {[]wire.Header{forward(16, 0, 8, 1), forward(16, 8, 8, 2)}, "reduced gradient 1: 16 bytes of 2"},
		"other microbatches":     {[]wire.Header{gradient(1, 16, 0, 8, 1), gradient(1, 16, 8, 8, 2)}, "16 bytes of 2 microbatches, before that 16 bytes of 1"},
		"other size":             {[]wire.Header{gradient(1, 16, 0, 8, 1), gradient(1, 12, 8, 4, 1)}, "12 bytes of 1 microbatches, before that 16"},
		"gradient too long":      {[]wire.Header{gradient(1, 20, 0, 20, 1)}, "Add of 20 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMesh(t, 2, meshConfig{without: 1})
				x := m.x[0]
				attempt, err := x.begin(t.Context(), 3, m.view, newSumSink(func(int) int { return 4 }))
				if err != nil {
					t.Fatal(err)
				}
				wait, _ := x.allGather(t.Context(), 1, 4, nil, nil, [][]byte{nil, make([]byte, 8)})
				hello := wire.Hello{Run: "run", From: 101, To: 100, Class: c.frames[0].Kind.Class()}
				s := m.byHand(peerName(1), hello)
				for _, h := range c.frames {
					writeFrame(t, s, h)
				}
				<-attempt.Done() // whoever waits for gradients is not in a collective
				err = wait()
				if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "member 101 (rank 1, peer peer-1)") {
					t.Errorf("%v, want an error that says %q and names member 101", err, c.says)
				}
				s.Close()
			})
		})
	}
}

func writeFrame(t *testing.T, c net.Conn, h wire.Header) {
	t.Helper()
	frame := make([]byte, wire.HeaderSize+int(h.Raw))
	if h.Kind == wire.KindAck {
		frame = frame[:wire.HeaderSize]
	}
	if err := wire.Seal(frame, h); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(frame); err != nil {
		t.Fatal(err)
	}
}

// A second stream of the same class takes the place of the first, and what came by the first counts.
func TestExchangeStreamReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 2, meshConfig{without: 1})
		x := m.x[0]
		sink := newSumSink(func(int) int { return 4 })
		if _, err := x.begin(t.Context(), 3, m.view, sink); err != nil {
			t.Fatal(err)
		}
		h := wire.Header{Kind: wire.KindGradient, Tag: 0, Fence: 3, Part: 16, Raw: 8, Microbatches: 5}
		second := h
		second.Offset = 8
		hello := wire.Hello{Run: "run", From: 101, To: 100, Class: wire.Gradients}
		a := m.byHand(peerName(1), hello)
		writeFrame(t, a, h)
		ahead := h
		ahead.Fence = 4
		writeFrame(t, a, ahead) // its reader waits for attempt 4
		synctest.Wait()
		b := m.byHand(peerName(1), hello)
		if _, err := a.Read(make([]byte, 1)); err == nil {
			t.Error("the first stream is still open")
		}
		for _, h := range []wire.Header{h, second, h, second} {
			writeFrame(t, b, h)
		}
		for range 2 { // for the part, and again for its duplicate
			ack, err := wire.ReadHeader(b)
			if err != nil || ack.Kind != wire.KindAck || ack.Of != wire.KindGradient || ack.Fence != 3 || ack.Part != 16 {
				t.Errorf("%+v, %v; want an acknowledgement", ack, err)
			}
		}
		if got := sink.done[given{Gradient, 0, 1}]; got != 5 {
			t.Errorf("%d microbatches, want 5", got)
		}
		writeFrame(t, b, wire.Header{Kind: wire.KindParams, Fence: 3, Part: 8, Raw: 8})
		if _, err := wire.ReadHeader(b); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("parameters on the stream for gradients: %v, want a reset", err)
		}
	})
}

func TestExchangeSinkFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 2, meshConfig{})
		units := []layout{{[]int{0, 10, 20}}}
		a, err := m.begin(0, 1, units)
		if err != nil {
			t.Fatal(err)
		}
		b, err := m.begin(1, 1, units)
		if err != nil {
			t.Fatal(err)
		}
		a.sink.fail = func(unit int) error { return errInjected }
		m.post(1, b)
		synctest.Wait()
		m.post(0, a)
		if err := a.wait(); !errors.Is(err, errInjected) || !strings.Contains(err.Error(), "member 101") {
			t.Errorf("%v, want the sink's error and whose gradient it was", err)
		}
		m.attempts(units, 2) // the next attempt is not concerned
	})
}

// unreachableTransport refuses all streams.
type unreachableTransport struct{ Transport }

func (unreachableTransport) Open(context.Context, string, []string, string) (net.Conn, error) {
	return nil, errInjected
}

// TestExchangeUnreachable: a member to whom no stream can be opened ends the attempt, by name, and not before others
// would have been taken for lost.
func TestExchangeUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 2, meshConfig{wrap: func(rank int, tr Transport) Transport {
			if rank == 0 {
				return unreachableTransport{tr}
			}
			return tr
		}})
		if _, err := m.x[0].begin(t.Context(), 1, m.view, nothing{}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, given := m.x[0].allGather(t.Context(), 1, 4, make([]byte, 8), nil, [][]byte{nil, nil})
		err := given()
		if !errors.Is(err, errInjected) || !strings.Contains(err.Error(), "member 101") {
			t.Errorf("it ended with %v, want an error that names member 101", err)
		}
		if d := time.Since(start); d < unreachable || d > 2*unreachable {
			t.Errorf("it ended after %v, want a little more than %v", d, unreachable)
		}
	})
}
