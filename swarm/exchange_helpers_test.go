package swarm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"shoal/swarm/codec"
	"shoal/swarm/internal/memnet"
)

var _ Transport = (*memnet.Host)(nil)

// mesh is n exchanges over one memnet.
type mesh struct {
	t       testing.TB
	net     *memnet.Network
	members []exchangeMember
	view    []uint64    // member ids by rank
	kinds   []Kind      // that are given in an attempt
	x       []*exchange // nil where a test plays the member itself
}

// meshConfig says how a mesh differs from a plain one.
type meshConfig struct {
	packing codec.Packing
	wrap    func(rank int, t Transport) Transport
	without int    // number of ranks, from the last, that the test plays itself
	kinds   []Kind // that are given in an attempt; nil: all
}

func peerName(rank int) string { return fmt.Sprintf("peer-%d", rank) }

func newMesh(t testing.TB, n int, c meshConfig) *mesh {
	t.Helper()
	m := &mesh{t: t, net: memnet.New(), x: make([]*exchange, n), kinds: c.kinds}
	if m.kinds == nil {
		m.kinds = kinds
	}
	for r := range n {
		m.members = append(m.members, exchangeMember{ID: uint64(100 + r), Peer: peerName(r)})
		m.view = append(m.view, uint64(100+r))
	}
	for r := range n - c.without {
		m.start(r, c)
	}
	t.Cleanup(m.close)
	return m
}

func (m *mesh) start(r int, c meshConfig) {
	m.t.Helper()
	var tr Transport = m.net.Host(peerName(r))
	if c.wrap != nil {
		tr = c.wrap(r, tr)
	}
	x, err := newExchange(exchangeConfig{Transport: tr, Run: "run", Self: m.members[r].ID, Packing: c.packing})
	if err != nil {
		m.t.Fatal(err)
	}
	for _, o := range m.members {
		x.add(o)
	}
	m.x[r] = x
}

func (m *mesh) close() {
	for _, x := range m.x {
		if x != nil {
			x.close()
			x.close()
		}
	}
	m.net.Wait()
}

// each calls f for each exchange, in goroutines, and waits.
func (m *mesh) each(f func(r int, x *exchange) error) {
	m.t.Helper()
	var g sync.WaitGroup
	for r, x := range m.x {
		if x == nil {
			continue
		}
		g.Go(func() {
			if err := f(r, x); err != nil {
				m.t.Errorf("rank %d: %v", r, err)
			}
		})
	}
	g.Wait()
}

// layout is one unit: rank r owns elements [cut[r], cut[r+1]).
type layout struct{ cut []int }

func (l layout) size(r int) int { return l.cut[r+1] - l.cut[r] }
func (l layout) total() int     { return l.cut[len(l.cut)-1] }

// layouts cuts units of the given sizes at random places, often leaving parts empty.
func layouts(n int, seed uint64, sizes ...int) []layout {
	r := rand.New(rand.NewPCG(seed, 1))
	var units []layout
	for _, size := range sizes {
		cut := make([]int, n+1)
		cut[n] = size
		left := 0
		for i := 1; i < n; i++ {
			if r.IntN(3) > 0 {
				left += r.IntN(size - left + 1)
			}
			cut[i] = left
		}
		units = append(units, layout{cut})
	}
	return units
}

// value is element i of what the member of rank source has for unit, numbers with some structure. By unit they need both
// their halves, the lower one or the upper one.
func value(fence uint64, unit, source, i int) int32 {
	small := int32(fence)*31 + int32(unit)*17 + int32(source)*7 - int32(i%1000)
	return small * [3]int32{1<<16 + 1, 1, 1 << 16}[unit%3]
}

func int32s(n int, f func(i int) int32) []byte {
	b := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(f(i)))
	}
	return b
}

// given names what a source gives.
type given struct {
	kind        Kind
	tag, source int
}

// sumSink adds up what it is given and complains about everything that a Sink need not expect.
type sumSink struct {
	mu   sync.Mutex
	sums map[given][]int32   // source is 0: of all sources
	got  map[given]int       // elements
	done map[given]int       // microbatches
	fail func(tag int) error // if set
	size func(tag int) int   // elements that each source gives
}

func newSumSink(size func(tag int) int) *sumSink {
	return &sumSink{sums: map[given][]int32{}, got: map[given]int{}, done: map[given]int{}, size: size}
}

func (s *sumSink) Add(kind Kind, tag, source, offset int, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail(tag)
	}
	k := given{kind, tag, source}
	if _, ok := s.done[k]; ok {
		return fmt.Errorf("Add after Done")
	}
	if offset != s.got[k] || offset+len(data)/4 > s.size(tag) {
		return fmt.Errorf("Add of %d bytes at element %d, after %d elements of %d", len(data), offset, s.got[k], s.size(tag))
	}
	s.got[k] += len(data) / 4
	all := given{kind, tag, 0}
	if s.sums[all] == nil {
		s.sums[all] = make([]int32, s.size(tag))
	}
	for i := range len(data) / 4 {
		s.sums[all][offset+i] += int32(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return nil
}

func (s *sumSink) Done(kind Kind, tag, source, count int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := given{kind, tag, source}
	if _, ok := s.done[k]; ok {
		return errors.New("Done twice")
	}
	if s.got[k] != s.size(tag) {
		return fmt.Errorf("Done after %d elements of %d", s.got[k], s.size(tag))
	}
	s.done[k] = count
	return nil
}

// attemptRun is one member's part in one attempt: all collectives of all units, posted in the same order everywhere.
type attemptRun struct {
	ctx   context.Context
	fence uint64
	units []layout
	kinds []Kind
	sink  *sumSink
	whole [][]byte // by unit: what was gathered, the own part included
	waits []func() error
}

func (m *mesh) begin(r int, fence uint64, units []layout) (*attemptRun, error) {
	sink := newSumSink(func(unit int) int { return units[unit].size(r) })
	ctx, err := m.x[r].begin(m.t.Context(), fence, m.view, sink)
	return &attemptRun{ctx: ctx, fence: fence, units: units, sink: sink}, err
}

// kinds are all that can be given; the values differ by kind too.
var kinds = []Kind{Gradient, Forward, State}

func (m *mesh) post(r int, a *attemptRun) {
	ctx := m.t.Context()
	n := len(m.view)
	for u, l := range a.units {
		whole := make([]byte, 4*l.total())
		parts := make([][]byte, n)
		for s := range n {
			parts[s] = whole[4*l.cut[s] : 4*l.cut[s+1]]
		}
		mine := int32s(l.size(r), func(i int) int32 { return value(a.fence, u, -1, l.cut[r]+i) })
		copy(parts[r], mine)
		a.whole = append(a.whole, whole)
		a.waits = append(a.waits, gathering(m.x[r].allGather(ctx, uint32(u), 4, mine, nil, parts)))
		a.kinds = m.kinds
		for _, kind := range m.kinds {
			give := make([][]byte, n)
			for s := range n {
				give[s] = int32s(l.size(s), func(i int) int32 { return int32(kind) * value(a.fence, u, r, l.cut[s]+i) })
			}
			a.waits = append(a.waits, m.x[r].give(ctx, kind, uint32(u), give, r+1))
		}
	}
}

func (a *attemptRun) wait() error {
	for _, wait := range a.waits {
		if err := wait(); err != nil {
			return err
		}
	}
	return nil
}

// check compares what arrived at rank r of n; all gradients must have arrived.
func (a *attemptRun) check(r, n int) error {
	a.sink.mu.Lock()
	defer a.sink.mu.Unlock()
	for u, l := range a.units {
		for i := range l.total() {
			if got, want := int32(binary.LittleEndian.Uint32(a.whole[u][4*i:])), value(a.fence, u, -1, i); got != want {
				return fmt.Errorf("fence %d unit %d: gathered element %d is %d, want %d", a.fence, u, i, got, want)
			}
		}
		for _, kind := range a.kinds {
			if err := a.checkGiven(kind, u, r, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkGiven compares what arrived of a kind and unit.
func (a *attemptRun) checkGiven(kind Kind, u, r, n int) error {
	l := a.units[u]
	for s := range n {
		want := s + 1
		if s == r || l.size(r) == 0 {
			want = 0
		}
		if got := a.sink.done[given{kind, u, s}]; got != want {
			return fmt.Errorf("fence %d %s %d: %d microbatches from rank %d, want %d", a.fence, kind, u, got, s, want)
		}
	}
	for i, got := range a.sink.sums[given{kind, u, 0}] {
		var want int32
		for s := range n {
			if s != r {
				want += int32(kind) * value(a.fence, u, s, l.cut[r]+i)
			}
		}
		if got != want {
			return fmt.Errorf("fence %d %s %d: sum of element %d is %d, want %d", a.fence, kind, u, i, got, want)
		}
	}
	return nil
}

// attempts runs whole attempts one after the other on all members and checks them. Between two of them is a barrier,
// as the log's Commit is one.
func (m *mesh) attempts(units []layout, fences ...uint64) {
	m.t.Helper()
	for _, fence := range fences {
		runs := make([]*attemptRun, len(m.x))
		m.each(func(r int, x *exchange) (err error) {
			x.advance(fence, true)
			if runs[r], err = m.begin(r, fence, units); err != nil {
				return err
			}
			m.post(r, runs[r])
			return runs[r].wait()
		})
		m.each(func(r int, _ *exchange) error { return runs[r].check(r, len(m.view)) })
	}
}

// finish waits for attempts that were posted by hand, by rank, and then checks them.
func (m *mesh) finish(runs ...*attemptRun) {
	m.t.Helper()
	m.each(func(r int, _ *exchange) error { return runs[r].wait() })
	m.each(func(r int, _ *exchange) error { return runs[r].check(r, len(m.view)) })
}

// faultyTransport changes the streams that it opens.
type faultyTransport struct {
	Transport
	wrap func(peer string, c net.Conn) net.Conn
}

func (f faultyTransport) Open(ctx context.Context, peer string, addrs []string, protocol string) (net.Conn, error) {
	c, err := f.Transport.Open(ctx, peer, addrs, protocol)
	if err != nil {
		return nil, err
	}
	return f.wrap(peer, c), nil
}

// faultyConn lets a test see and change what is written and read.
type faultyConn struct {
	net.Conn
	onWrite func(p []byte) ([]byte, error) // returns what to write instead; with an error the stream is closed after it
	onRead  func(p []byte) error           // sees what was read; with an error the stream is closed
}

func (c *faultyConn) Write(p []byte) (int, error) {
	if c.onWrite == nil {
		return c.Conn.Write(p)
	}
	q, fault := c.onWrite(p)
	if _, err := c.Conn.Write(q); err != nil {
		return 0, err
	}
	if fault != nil {
		c.Close()
		return 0, fault
	}
	return len(p), nil
}

func (c *faultyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.onRead != nil {
		if fault := c.onRead(p[:n]); fault != nil {
			c.Close()
			return 0, fault
		}
	}
	return n, err
}

// delays makes every write wait for up to most, by seed.
func delays(seed uint64, most time.Duration) func(rank int, t Transport) Transport {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 2))
	return func(_ int, t Transport) Transport {
		return faultyTransport{t, func(_ string, c net.Conn) net.Conn {
			return &faultyConn{Conn: c, onWrite: func(p []byte) ([]byte, error) {
				mu.Lock()
				d := time.Duration(random.Int64N(int64(most)))
				mu.Unlock()
				<-time.After(d)
				return p, nil
			}}
		}}
	}
}

// gathering is one wait for both ends of an all-gather: all parts are here, and all others have the own one.
func gathering(wait, given func() error) func() error {
	return func() error {
		if err := wait(); err != nil {
			return err
		}
		return given()
	}
}

func gathered(wait, given func() error) error { return gathering(wait, given)() }
