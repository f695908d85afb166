package swarm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"shoal/swarm/codec"
	"shoal/swarm/wire"
)

// goroutines is how many there are in a bubble that is at rest, give or take those of the runtime.
func goroutines() int {
	synctest.Wait()
	return runtime.NumGoroutine()
}

// A death ends the attempt while gathers, gradients, forwards and fills are on their way; the others go on in a view
// without the dead one, over the streams that they have.
func TestExchangeDeathEndsAttempt(t *testing.T) {
	for _, packing := range []codec.Packing{codec.Off, codec.On} {
		synctest.Test(t, func(t *testing.T) {
			m := newMesh(t, 3, meshConfig{packing: packing})
			unit := layout{[]int{0, 20_000, 40_000, 60_000}} // more than streams buffer
			m.attempts([]layout{unit}, 1)
			runs := make([]*attemptRun, 3)
			m.each(func(r int, x *exchange) (err error) {
				if x.advance(2, true); r < 2 { // rank 2 gives and takes nothing
					runs[r], err = m.begin(r, 2, []layout{unit})
				}
				return err
			})
			m.post(0, runs[0])
			m.post(1, runs[1])
			results := make(chan error, 16)
			pending := 0
			for r := range 2 {
				for _, wait := range runs[r].waits {
					pending++
					go func() { results <- wait() }()
				}
			}
			synctest.Wait()
			for r := range 2 {
				if fence, ids := m.x[r].waiting(-1); fence != 2 || !slices.Equal(ids, []uint64{102}) {
					t.Errorf("rank %d waits in attempt %d for %v, want 102", r, fence, ids)
				}
			}
			m.net.Host(peerName(2)).Close()
			m.x[2].close()
			m.x[2] = nil
			streams := m.net.Streams()
			for _, x := range m.x[:2] {
				x.advance(3, false)
				x.remove(102)
			}
			failed := 0
			for range pending {
				if err := <-results; errors.Is(err, ErrAttempt) {
					failed++
				} else if err != nil {
					t.Error(err)
				}
			}
			if failed != pending || pending != 2*4 {
				t.Errorf("%d of %d waits failed, want all 8", failed, pending)
			}
			for _, a := range runs[:2] {
				if err := context.Cause(a.ctx); !errors.Is(err, ErrAttempt) {
					t.Errorf("the attempt's context: %v", err)
				}
			}
			m.view, m.members, m.x = m.view[:2], m.members[:2], m.x[:2]
			m.attempts([]layout{{[]int{0, 20_000, 40_000}}}, 3, 4)
			if got := m.net.Streams(); got != streams {
				t.Errorf("%d streams, before that %d: the survivors' are to stay", got, streams)
			}
		})
	}
}

// A newcomer's streams are open before it is in a view, and what it sends for its first attempt waits for the others.
func TestExchangeJoinerComesEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 2, meshConfig{packing: codec.Off})
		unit := layout{[]int{0, 1000, 2000}}
		m.attempts([]layout{unit}, 1)
		both := make([]*attemptRun, 3)
		m.each(func(r int, x *exchange) (err error) {
			x.advance(2, true)
			both[r], err = m.begin(r, 2, []layout{unit})
			return err
		})
		// All learn of the newcomer in the middle of attempt 2; it hears first that attempt 3 has begun.
		m.members, m.view, m.x = append(m.members, exchangeMember{ID: 102, Peer: peerName(2)}), append(m.view, 102), append(m.x, nil)
		m.start(2, meshConfig{packing: codec.Off})
		for _, x := range m.x[:2] {
			x.add(m.members[2])
			x.add(m.members[2])
		}
		next := layout{[]int{0, 1000, 2000, 3000}}
		m.x[2].advance(3, true)
		early, err := m.begin(2, 3, []layout{next})
		if err != nil {
			t.Fatal(err)
		}
		m.post(2, early)
		synctest.Wait()
		if l := m.x[0].links[102]; l.reading[0] == nil || l.reading[1] == nil || l.reading[2] == nil {
			t.Error("the newcomer's streams are not open")
		}
		before := m.x[0].stats().RawReceived
		m.view = m.view[:2]
		m.post(0, both[0])
		m.post(1, both[1])
		for r := range 2 {
			if err := both[r].wait(); err != nil {
				t.Error(err)
			}
		}
		if got := m.x[0].stats().RawReceived - before; got != 4*4*1000 {
			t.Errorf("%d bytes were taken in attempt 2, want those of rank 1", got)
		}
		m.view = append(m.view, 102)
		runs := []*attemptRun{nil, nil, early}
		for r := range 2 {
			m.x[r].advance(3, true)
			if runs[r], err = m.begin(r, 3, []layout{next}); err != nil {
				t.Fatal(err)
			}
			m.post(r, runs[r])
		}
		m.finish(runs...)
	})
}

// A member that is not in the attempt's view can't give anything to it.
func TestExchangeOutsideTheView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3, meshConfig{without: 2})
		sink := newSumSink(func(int) int { return 4 })
		if _, err := m.x[0].begin(t.Context(), 3, m.view[:2], sink); err != nil {
			t.Fatal(err)
		}
		s := m.byHand(peerName(2), wire.Hello{Run: "run", From: 102, To: 100, Class: wire.Gradients})
		writeFrame(t, s, wire.Header{Kind: wire.KindGradient, Fence: 3, Part: 16, Raw: 16, Microbatches: 1})
		writeFrame(t, s, wire.Header{Kind: wire.KindForward, Fence: 3, Part: 16, Raw: 16, Microbatches: 1})
		synctest.Wait()
		if len(sink.got) != 0 || m.x[0].now.err != nil {
			t.Errorf("the sink got %v, the attempt: %v", sink.got, m.x[0].now.err)
		}
		s.Close()
	})
}

// What a removed member sends, on streams old or new, reaches nobody.
func TestExchangeRemovedMemberIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3, meshConfig{without: 2})
		x := m.x[0]
		sink := newSumSink(func(int) int { return 4 })
		if _, err := x.begin(t.Context(), 3, m.view, sink); err != nil {
			t.Fatal(err)
		}
		hello := wire.Hello{Run: "run", From: 101, To: 100, Class: wire.Gradients}
		h := wire.Header{Kind: wire.KindGradient, Fence: 4, Part: 16, Raw: 16, Microbatches: 1}
		old := m.byHand(peerName(1), hello)
		writeFrame(t, old, h) // waits for attempt 4
		synctest.Wait()
		x.advance(4, false)
		x.remove(101)
		if _, err := x.begin(t.Context(), 4, []uint64{100, 102}, sink); err != nil {
			t.Fatal(err)
		}
		if _, err := old.Read(make([]byte, 1)); err == nil {
			t.Error("the removed member's stream is still open")
		}
		again := m.byHand(peerName(1), hello)
		if _, err := again.Read(make([]byte, 1)); err == nil {
			t.Error("a removed member's new stream was not reset")
		}
		if len(sink.got) != 0 {
			t.Errorf("the sink got %v", sink.got)
		}
		// Under a new member id, the same peer is welcome.
		x.add(exchangeMember{ID: 103, Peer: peerName(1)})
		x.advance(5, true)
		if _, err := x.begin(t.Context(), 5, []uint64{100, 102, 103}, sink); err != nil {
			t.Fatal(err)
		}
		hello.From, h.Fence = 103, 5
		s := m.byHand(peerName(1), hello)
		writeFrame(t, s, h)
		if _, err := wire.ReadHeader(s); err != nil || sink.done[given{Gradient, 0, 2}] != 1 {
			t.Errorf("%v, done %v", err, sink.done)
		}
		s.Close()
	})
}

// In another generation of the log, streams of the old one end, and new ones are opened by themselves.
func TestExchangeGenerations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 2, meshConfig{})
		units := []layout{{[]int{0, 1000, 2000}}}
		m.attempts(units, 1)
		m.x[0].setGeneration(1)
		a, err := m.begin(0, 2, units)
		if err != nil {
			t.Fatal(err)
		}
		b, err := m.begin(1, 2, units)
		if err != nil {
			t.Fatal(err)
		}
		m.post(0, a)
		m.post(1, b)
		synctest.Wait()
		if got := m.x[1].stats().RawReceived; got != 4*4*1000 {
			t.Errorf("%d bytes were taken, want those of attempt 1", got)
		}
		m.x[1].setGeneration(1)
		m.finish(a, b)
	})
}

// When everybody was done with an attempt, what was given has arrived, though its acknowledgement hasn't.
func TestExchangeCompleteAttempt(t *testing.T) {
	for _, complete := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m := newMesh(t, 2, meshConfig{without: 1})
			if _, err := m.x[0].begin(t.Context(), 3, m.view, nothing{}); err != nil {
				t.Fatal(err)
			}
			_, given := m.x[0].allGather(t.Context(), 0, 4, make([]byte, 8), nil, [][]byte{nil, nil})
			m.x[0].advance(4, complete)
			if err := given(); (err == nil) != complete || err != nil && !errors.Is(err, ErrAttempt) {
				t.Errorf("complete %v: %v", complete, err)
			}
			ended, err := m.x[0].begin(t.Context(), 3+boolInt(complete), m.view, nothing{}) // the log is ahead of its caller
			if complete {
				if err != nil || ended.Err() != nil {
					t.Errorf("the current attempt: %v", err)
				}
			} else if err == nil {
				t.Error("an attempt was begun twice")
			}
		})
	}
}

func boolInt(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// An attempt that the log has ended before its caller begins it is over at once.
func TestExchangeBeginsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 2, meshConfig{without: 1})
		x := m.x[0]
		x.advance(7, false)
		x.remove(101)
		ctx, err := x.begin(t.Context(), 5, m.view, nothing{})
		if err != nil || !errors.Is(context.Cause(ctx), ErrAttempt) {
			t.Errorf("%v, context: %v", err, context.Cause(ctx))
		}
		if err := gathered(x.allGather(t.Context(), 0, 4, make([]byte, 8), nil, [][]byte{nil, nil})); !errors.Is(err, ErrAttempt) {
			t.Error(err)
		}
	})
}

// Whom one waits for: in collectives, and in phase reduce for gradients.
func TestExchangeWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3, meshConfig{})
		units := []layout{{[]int{0, 10, 20, 30}}}
		a, err := m.begin(0, 2, units)
		if err != nil {
			t.Fatal(err)
		}
		b, err := m.begin(1, 2, units)
		if err != nil {
			t.Fatal(err)
		}
		m.post(0, a)
		m.post(1, b)
		want := func(what string, unit int, want ...uint64) {
			t.Helper()
			synctest.Wait()
			if _, ids := m.x[0].waiting(unit); !slices.Equal(ids, want) {
				t.Errorf("%s: it waits for %v, want %v", what, ids, want)
			}
		}
		want("computing", -1)
		want("reducing", 0, 102)
		done := make(chan error)
		go func() { done <- a.wait() }()
		want("gathering", -1, 102)
		c, err := m.begin(2, 2, units)
		if err != nil {
			t.Fatal(err)
		}
		m.post(2, c)
		if err := <-done; err != nil {
			t.Error(err)
		}
		want("after all", 0)
		m.finish(a, b, c)
	})
}

// A thousand aborted attempts leave nothing behind.
func TestExchangeAbortedAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 2, meshConfig{packing: codec.Off})
		m.attempts([]layout{{[]int{0, 100, 200}}}, 1)
		fence := uint64(1)
		part := make([]byte, 70_000) // more than a stream takes at once
		var got [2][2][]byte
		for r := range got {
			for s := range got {
				got[r][s] = make([]byte, len(part))
			}
		}
		post := func(r int, x *exchange) {
			x.allGather(t.Context(), 0, 4, part, nil, got[r][:])
			x.give(t.Context(), State, 0, [][]byte{part, part}, 1)
			x.give(t.Context(), kinds[fence%2], 0, [][]byte{part[:400], part[:400]}, 1)
		}
		abort := func(n int) (heap uint64, running, streams int) {
			for range n {
				fence++
				m.each(func(r int, x *exchange) error {
					x.advance(fence, false)
					_, err := x.begin(t.Context(), fence, m.view, nothing{})
					if err == nil && fence%3 != uint64(r) { // somebody posts nothing
						post(r, x)
					}
					return err
				})
				if fence%5 == 0 {
					synctest.Wait() // it is all on its way
				}
			}
			running = goroutines()
			runtime.GC()
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			return s.HeapAlloc, running, m.net.Streams()
		}
		heap, running, streams := abort(100)
		heap2, running2, streams2 := abort(1000)
		if running2 > running+2 || streams2 > streams || heap2 > heap+heap/4+1<<20 {
			t.Errorf("after 100: %d bytes, %d goroutines, %d streams; after 1,100: %d, %d, %d", heap, running, streams, heap2, running2, streams2)
		}
		m.attempts([]layout{{[]int{0, 100, 200}}}, fence+1)
	})
}

// 200 members come and go and leave nothing behind.
func TestExchangeJoinsAndRemovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 2, meshConfig{packing: codec.Off, kinds: []Kind{State}})
		fence := uint64(0)
		guest := func(i int) {
			id := uint64(1000 + i)
			peer := fmt.Sprintf("guest-%d", i)
			m.members, m.view = append(m.members, exchangeMember{ID: id, Peer: peer}), append(m.view, id)
			g, err := newExchange(exchangeConfig{Transport: m.net.Host(peer), Run: "run", Self: id})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range append(m.x, g) {
				for _, o := range m.members {
					x.add(o)
				}
			}
			m.x = append(m.x, g)
			fence++
			m.attempts([]layout{{[]int{0, 100, 200, 300}}}, fence)
			if i%4 == 0 { // it dies in the middle of an attempt
				fence++
				m.each(func(r int, x *exchange) error {
					x.advance(fence, true)
					a, err := m.begin(r, fence, []layout{{[]int{0, 20_000, 40_000, 60_000}}})
					if err == nil && r < 2 {
						m.post(r, a)
					}
					return err
				})
				synctest.Wait()
			}
			fence++
			for _, x := range m.x[:2] {
				x.advance(fence, false)
				x.remove(id)
			}
			g.close()
			m.net.Host(peer).Close()
			m.x, m.members, m.view = m.x[:2], m.members[:2], m.view[:2]
		}
		var running, streams int
		for i := range 200 {
			guest(i)
			if i == 9 {
				running, streams = goroutines(), m.net.Streams()
			}
		}
		if r, s := goroutines(), m.net.Streams(); r > running+2 || s > streams || len(m.x[0].links) != 1 {
			t.Errorf("%d goroutines and %d streams after 10 guests, %d and %d after 200; %d links", running, streams, r, s, len(m.x[0].links))
		}
	})
}
