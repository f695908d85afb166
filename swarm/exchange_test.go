package swarm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shoal/swarm/codec"
	"shoal/swarm/wire"
)

func TestExchangeCollectives(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 8} {
		for _, packing := range []codec.Packing{codec.Off, codec.On, codec.Auto} {
			t.Run(fmt.Sprintf("%d members, packing %v", n, packing), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newMesh(t, n, meshConfig{packing: packing, wrap: delays(uint64(n), 50*time.Millisecond)})
					for seed := range uint64(2) {
						m.attempts(layouts(n, seed, 2000, 1, 0, 77), 10*seed+1, 10*seed+2)
					}
				})
			})
		}
	}
}

// Parts of several chunks, larger than what streams buffer.
func TestExchangeLargeParts(t *testing.T) {
	for _, packing := range []codec.Packing{codec.Off, codec.On, codec.Auto} {
		t.Run(packing.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMesh(t, 3, meshConfig{packing: packing, kinds: []Kind{State}})
				const chunk = wire.MaxChunk / 4 // elements
				m.attempts([]layout{{[]int{0, 2*chunk + 5, 2*chunk + 5, 3 * chunk}}, {[]int{0, 10, 10 + chunk, 11 + chunk}}}, 1)
			})
		})
	}
}

func TestExchangeCountsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3, meshConfig{packing: codec.Off})
		m.attempts([]layout{{[]int{0, 100, 300, 300}}}, 1)
		synctest.Wait()
		hello, err := wire.AppendHello(nil, wire.Hello{Run: "run"})
		if err != nil {
			t.Fatal(err)
		}
		head, h := uint64(wire.HeaderSize), uint64(len(hello))
		// Rank 0 gives its 400 bytes of parameters to both, and rank 1's 800 bytes of each kind to rank 1, who gives back
		// 800 bytes of parameters and 400 of each kind.
		want := linkStats{RawSent: 400 + 3*800, WireSent: 400 + 3*800, RawReceived: 800 + 3*400, WireReceived: 800 + 3*400}
		want.BytesSent = 3*h + 4*head + 400 + 3*800 + 4*head // and four acknowledgements
		want.BytesReceived = 4*head + 800 + 3*400 + 4*head
		want.ClassSent = [wire.Classes]uint64{head + 400, 2*head + 1600, head + 800}
		if got := m.x[0].links[101].count.read(); got != want {
			t.Errorf("rank 0 with rank 1: %+v, want %+v", got, want)
		}
		var sent, received uint64
		for _, x := range m.x {
			s := x.stats()
			sent += s.RawSent
			received += s.RawReceived
		}
		if sent != received || sent != 4*(2*4*300) {
			t.Errorf("%d tensor bytes sent, %d received, want %d", sent, received, 4*2*4*300)
		}
		before := m.x[0].stats()
		m.x[0].remove(101)
		if after := m.x[0].stats(); after != before {
			t.Errorf("%+v before and %+v after the removal of a member", before, after)
		}
	})
}

// Elements that fit in half of their bytes travel so, whether packed or not; see value for which units do.
func TestExchangeNarrows(t *testing.T) {
	for _, packing := range []codec.Packing{codec.Off, codec.On} {
		synctest.Test(t, func(t *testing.T) {
			m := newMesh(t, 2, meshConfig{packing: packing, kinds: []Kind{Gradient}})
			const chunk = sentChunk / 4 // elements
			unit := layout{[]int{0, chunk + 100, 2*chunk + 200}}
			m.attempts([]layout{unit, unit, unit}, 1)
			s := m.x[0].stats()
			if want := uint64(2 * (4 + 2 + 2) * (chunk + 100)); s.RawSent != want || s.RawReceived != want {
				t.Errorf("packing %v: %d tensor bytes sent, %d received, want %d", packing, s.RawSent, s.RawReceived, want)
			}
			if (packing == codec.On) != (s.WireSent < s.RawSent) {
				t.Errorf("packing %v: %d bytes for %d", packing, s.WireSent, s.RawSent)
			}
		})
	}
}

func TestUnpackNarrowed(t *testing.T) {
	for _, c := range []struct {
		codec wire.Codec
		want  []byte
	}{{wire.CodecLow, []byte{1, 0x80, 0xff, 0xff, 2, 0, 0, 0}}, {wire.CodecHigh, []byte{0, 0, 1, 0x80, 0, 0, 2, 0}}} {
		half := []byte{1, 0x80, 2, 0}
		got := make([]byte, 8)
		if err := unpack(got, half, c.codec, 4); err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("codec %d: %x, %v, want %x", c.codec, got, err, c.want)
		}
		if err := unpack(got, half, c.codec, 2); !errors.Is(err, wire.ErrFrame) {
			t.Errorf("codec %d of elements of 2 bytes: %v, want ErrFrame", c.codec, err)
		}
		if err := unpack(got, half, c.codec|wire.CodecPlanes, 4); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("codec %d with bytes that Pack did not make: %v, want ErrCorrupt", c.codec, err)
		}
	}
}

func TestExchangePackingShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 2, meshConfig{packing: codec.On})
		m.attempts([]layout{{[]int{0, 50000, 100000}}}, 1)
		s := m.x[0].stats()
		if s.RawSent != 4*200000 || s.WireSent >= s.RawSent || s.WireReceived >= s.RawReceived {
			t.Errorf("with packing on: %+v", s)
		}
	})
}

// TestExchangeOneOnlyGives: the last member takes nothing of an all-gather, and gives its part to the others.
func TestExchangeOneOnlyGives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3
		m := newMesh(t, n, meshConfig{})
		takes := []bool{true, true, false}
		var got [n][][]byte
		var waits []func() error
		for r, x := range m.x {
			if _, err := x.begin(t.Context(), 1, m.view, newSumSink(func(int) int { return 0 })); err != nil {
				t.Fatal(err)
			}
			got[r] = make([][]byte, n)
			for s := range n {
				if takes[r] && s != r {
					got[r][s] = make([]byte, 8)
				}
			}
			wait, given := x.allGather(t.Context(), 0, 4, bytes.Repeat([]byte{byte(r + 1)}, 8), takes, got[r])
			waits = append(waits, wait, given)
		}
		for _, wait := range waits {
			if err := wait(); err != nil {
				t.Fatal(err)
			}
		}
		for r := range n - 1 {
			for s := range n {
				if s != r && !bytes.Equal(got[r][s], bytes.Repeat([]byte{byte(s + 1)}, 8)) {
					t.Errorf("rank %d has %v of rank %d", r, got[r][s], s)
				}
			}
		}
		if s := m.x[n-1].stats(); s.RawReceived != 0 {
			t.Errorf("the one that takes nothing received %d bytes of tensors", s.RawReceived)
		}
	})
}

func TestExchangeBeginRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 1, meshConfig{})
		x := m.x[0]
		sink := newSumSink(func(int) int { return 0 })
		wrong := func(what string, err error, says string) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want an error that says %q", what, err, says)
			}
		}
		one := [][]byte{nil}
		wrong("collective before begin", gathered(x.allGather(t.Context(), 1, 4, nil, nil, one)), "before the first attempt")
		begin := func(fence uint64, sink Sink) error {
			_, err := x.begin(t.Context(), fence, m.view, sink)
			return err
		}
		wrong("no sink", begin(5, nil), "sink")
		if err := begin(5, sink); err != nil {
			t.Fatal(err)
		}
		wrong("same fence", begin(5, sink), "attempt 5 can't follow attempt 5")
		wrong("older fence", begin(4, sink), "attempt 4 can't follow attempt 5")
		wrong("parts", gathered(x.allGather(t.Context(), 1, 4, nil, nil, [][]byte{nil, nil})), "2 parts among 1 members")
		wrong("takes", gathered(x.allGather(t.Context(), 1, 4, nil, []bool{true, true}, one)), "2 members, of 1")
		if err := gathered(x.allGather(t.Context(), 1, 4, nil, nil, one)); err != nil {
			t.Error(err)
		}
		wrong("tag twice", gathered(x.allGather(t.Context(), 1, 4, nil, nil, one)), "posted twice")
		for name, wait := range map[string]func() error{
			"kind":         x.give(t.Context(), Kind(wire.KindParams), 1, one, 1),
			"tag":          x.give(t.Context(), State, maxTag, one, 1),
			"microbatches": x.give(t.Context(), Gradient, 1, one, 0),
		} {
			wrong(name, wait(), "microbatches 1 to")
		}
		_, err := x.begin(t.Context(), 6, []uint64{55}, sink)
		wrong("a view without this member", err, "without this member")
		_, err = x.begin(t.Context(), 6, []uint64{100, 55}, sink)
		wrong("a view with a stranger", err, "member 55")
		x.close()
		for _, err := range []error{begin(9, sink), gathered(x.allGather(t.Context(), 2, 4, nil, nil, one)), x.give(t.Context(), Gradient, 2, one, 1)()} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("after close: %v", err)
			}
		}
	})
}

func TestExchangeConfig(t *testing.T) {
	good := exchangeConfig{Transport: faultyTransport{}, Run: "run", Self: 1}
	for says, edit := range map[string]func(c *exchangeConfig){
		"transport":      func(c *exchangeConfig) { c.Transport = nil },
		"has 1000 bytes": func(c *exchangeConfig) { c.Run = strings.Repeat("r", 1000) },
	} {
		c := good
		edit(&c)
		if _, err := newExchange(c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want an error that says %q", err, says)
		}
	}
}

// A member that is ahead fills the streams and waits; nothing is lost and nothing is taken before its time.
func TestExchangeFutureFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 2, meshConfig{})
		units := []layout{{[]int{0, 50000, 100000}}}
		m.attempts(units, 1)
		ahead, err := m.begin(0, 2, units)
		if err != nil {
			t.Fatal(err)
		}
		m.post(0, ahead)
		synctest.Wait() // rank 0 has sent what the streams take
		before := m.x[1].stats()
		if before.RawReceived != 4*4*50000 {
			t.Errorf("%d tensor bytes taken, want those of attempt 1 alone", before.RawReceived)
		}
		behind, err := m.begin(1, 2, units)
		if err != nil {
			t.Fatal(err)
		}
		m.post(1, behind)
		m.finish(ahead, behind)
	})
}

// What a member that is behind sends is dropped, and it can follow.
func TestExchangeOldFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 2, meshConfig{packing: codec.Off})
		units := []layout{{[]int{0, 50000, 100000}}}
		old, err := m.begin(0, 1, units)
		if err != nil {
			t.Fatal(err)
		}
		now, err := m.begin(1, 7, units)
		if err != nil {
			t.Fatal(err)
		}
		m.post(0, old)
		m.post(1, now)
		synctest.Wait()
		if got := m.x[1].stats(); got.RawReceived != 0 || got.BytesReceived < 2*4*50000 {
			t.Errorf("%+v, want all bytes read and none taken", got)
		}
		waited := make(chan error)
		go func() { waited <- old.wait() }()
		follow, err := m.begin(0, 7, units)
		if err != nil {
			t.Fatal(err)
		}
		if err := <-waited; !errors.Is(err, ErrAttempt) {
			t.Errorf("wait of the attempt that ended: %v", err)
		}
		m.post(0, follow)
		m.finish(follow, now)
	})
}

// Parameters wait for the receiver's post; what is given in the same attempt overtakes them.
func TestExchangePostIsCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 2, meshConfig{})
		units := []layout{{[]int{0, 1000, 2000}}}
		first, err := m.begin(0, 1, units)
		if err != nil {
			t.Fatal(err)
		}
		second, err := m.begin(1, 1, units)
		if err != nil {
			t.Fatal(err)
		}
		m.post(0, first)
		synctest.Wait()
		for i, kind := range kinds {
			if err := first.waits[1+i](); err != nil {
				t.Errorf("giving %s while the all-gather is not posted: %v", kind, err)
			}
		}
		if got := m.x[1].stats().RawReceived; got != 3*4000 {
			t.Errorf("%d tensor bytes taken, want 4000 of each kind that is given", got)
		}
		m.post(1, second)
		m.finish(first, second)
	})
}

// However a wait ends, its memory is the caller's again.
func TestExchangeWaitsEnd(t *testing.T) {
	type setup struct {
		x      *exchange
		cancel context.CancelCauseFunc
	}
	cause := errors.New("enough")
	for name, c := range map[string]struct {
		end  func(s setup) error
		want error
	}{
		"context": {func(s setup) error { s.cancel(cause); return nil }, cause},
		"begin": {func(s setup) error {
			_, err := s.x.begin(context.Background(), 2, []uint64{100, 101}, newSumSink(func(int) int { return 0 }))
			return err
		}, ErrAttempt},
		"close":   {func(s setup) error { s.x.close(); return nil }, ErrClosed},
		"log":     {func(s setup) error { s.x.advance(2, false); return nil }, ErrAttempt},
		"removal": {func(s setup) error { s.x.advance(2, false); s.x.remove(101); return nil }, ErrAttempt},
		"abort":   {func(s setup) error { s.x.abort(cause); return nil }, cause},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMesh(t, 2, meshConfig{without: 1}) // rank 1 never answers
				ctx, cancel := context.WithCancelCause(t.Context())
				x := m.x[0]
				attempt, err := x.begin(t.Context(), 1, m.view, newSumSink(func(int) int { return 8 }))
				if err != nil {
					t.Fatal(err)
				}
				part := make([]byte, 32)
				waits := []func() error{
					gathering(x.allGather(ctx, 1, 4, make([]byte, 32), nil, [][]byte{nil, part})),
				}
				for _, kind := range kinds {
					waits = append(waits, x.give(ctx, kind, 1, [][]byte{nil, part}, 1))
				}
				results := make(chan error, len(waits))
				for _, wait := range waits {
					go func() { results <- wait() }()
				}
				synctest.Wait()
				if err := c.end(setup{x, cancel}); err != nil {
					t.Fatal(err)
				}
				for range waits {
					if err := <-results; !errors.Is(err, c.want) || !errors.Is(err, ErrAttempt) {
						t.Errorf("got %v, want %v, and ErrAttempt", err, c.want)
					}
				}
				<-attempt.Done()
				if err := context.Cause(attempt); !errors.Is(err, c.want) || !errors.Is(err, ErrAttempt) {
					t.Errorf("the attempt's context ended by %v, want %v, and ErrAttempt", err, c.want)
				}
				copy(part, bytes.Repeat([]byte{1}, 32)) // the race detector watches
			})
		})
	}
}
