package swarm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"shoal/internal/place"
	"shoal/swarm/internal/memnet"
)

// refusing is a memnet host as package shoal would give it to a Node.
type refusing struct{ *memnet.Host }

func (h refusing) Open(ctx context.Context, peer string, addrs []string, protocol string) (net.Conn, error) {
	c, err := h.Host.Open(ctx, peer, addrs, protocol)
	if errors.Is(err, memnet.ErrRefused) {
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return c, err
}

// cluster is several Nodes over one memnet, inside a synctest bubble: its seconds cost nothing.
type cluster struct {
	t       *testing.T
	net     *memnet.Network
	want    int
	backups int
	end     int // the last step
	nodes   []*Node
	hosts   []*memnet.Host
	running sync.WaitGroup
}

func newCluster(t *testing.T, want int) *cluster {
	return &cluster{t: t, net: memnet.New(), want: want, backups: 1, end: 100}
}

// ranges are what the clusters' models are cut into.
var ranges = []place.Range{{Group: 0, Size: 1000}, {Group: 0, Size: 1000}, {Group: 1, Size: 500}, {Group: 1, Size: 700}, {Group: 1, Size: 300}}

func (c *cluster) config(i int) Config {
	cfg := Config{Transport: refusing{c.net.Host(peerName(i))}, RunID: "run", Secret: "secret", Run: []byte("description"), Peers: c.want,
		Ranges: ranges, Backups: c.backups, Exact: true, Decide: c.decide,
		Offer: Offer{Kind: "daemon", Weight: 10, Cores: i + 1, ModelHash: "model", Fingerprint: "kernels"}}
	if i > 0 {
		cfg.Contact = &Contact{Peer: peerName(0)}
		cfg.Run = nil
	}
	return cfg
}

// decide commits "0", "1", ...; 30 is tried again once, and the last step ends the run.
func (c *cluster) decide(_, prev []byte, _ []int64, readies [][]byte) Decision {
	for _, r := range readies {
		if string(r) != string(readies[0]) {
			return Decision{Kind: EntryStop, Payload: fmt.Appendf(nil, "Ready %q and %q", r, readies[0])}
		}
	}
	switch r := string(readies[0]); {
	case r == "30" && string(prev) == "29":
		return Decision{Kind: EntryRetry, Payload: []byte("30 first")}
	case r == strconv.Itoa(c.end):
		return Decision{Kind: EntryDone, Payload: []byte("end")}
	case r == "bad":
		return Decision{Kind: EntryStop, Payload: []byte("gradients are not finite")}
	default:
		return Decision{Kind: EntryCommit, Payload: readies[0]}
	}
}

// add starts node i, by way of one that is there.
func (c *cluster) add(i int) *Node {
	c.t.Helper()
	return c.addWith(i, func(*Config) {})
}

func (c *cluster) addWith(i int, change func(*Config)) *Node {
	c.t.Helper()
	cfg := c.config(i)
	change(&cfg)
	n, err := Start(c.t.Context(), cfg)
	if err != nil {
		c.t.Fatalf("node %d: %v", i, err)
	}
	c.nodes = append(c.nodes, n)
	c.hosts = append(c.hosts, cfg.Transport.(refusing).Host)
	return n
}

// start starts all nodes and waits for the first view.
func (c *cluster) start() []*trainee {
	c.t.Helper()
	for i := range c.want {
		c.add(i)
	}
	all := make([]*trainee, c.want)
	c.each(func(i int, n *Node) (err error) {
		all[i], err = enter(c.t.Context(), n)
		if v := all[i].view; err == nil && (v.Rank != i || len(v.Members) != c.want || v.Number != 1 || v.Members[i].Offer.Cores != i+1) {
			err = fmt.Errorf("view %+v", v)
		}
		return err
	})
	return all
}

// each calls f for each node, in goroutines, and waits.
func (c *cluster) each(f func(i int, n *Node) error) {
	c.t.Helper()
	var g sync.WaitGroup
	for i, n := range c.nodes {
		g.Go(func() {
			if err := f(i, n); err != nil {
				c.t.Errorf("node %d: %v", i, err)
			}
		})
	}
	g.Wait()
}

// close closes all nodes and waits for every goroutine.
func (c *cluster) close() {
	c.each(func(_ int, n *Node) error { return errors.Join(n.Close(), n.Close()) })
	for _, h := range c.hosts {
		h.Close()
	}
	c.net.Wait()
}

// train has trainees train in the background; at the end all must have done the same.
func (c *cluster) train(all ...*trainee) {
	for _, tr := range all {
		tr.done = make(chan struct{})
		c.running.Go(func() {
			defer close(tr.done)
			tr.err = tr.run(c.t.Context(), c.end)
		})
	}
}

// same complains unless all trainees came to the end by the same commits, whenever each of them came.
func (c *cluster) same(all ...*trainee) {
	c.t.Helper()
	for i, tr := range all {
		if tr.err != nil {
			c.t.Errorf("trainee %d: %v", i, tr.err)
		}
		n := min(len(tr.at), len(all[0].at))
		if got, want := tr.at[len(tr.at)-n+1:], all[0].at[len(all[0].at)-n+1:]; !slices.Equal(got, want) {
			c.t.Errorf("trainee %d went through\n%q, another through\n%q", i, got, want)
		}
	}
}

// trainee is a member's caller, as the engine is one: it gathers, gives, fills, and says Ready with the step's number.
type trainee struct {
	n     *Node
	entry Entry
	view  *View
	step  int
	done  chan struct{}
	err   error

	mu      sync.Mutex
	at      []string // what the log said, by entry
	pace    time.Duration
	commits int
	viewed  []time.Time
	filled  int
}

// enter waits for the first view of a member.
func enter(ctx context.Context, n *Node) (*trainee, error) {
	e, err := n.View(ctx)
	if err != nil {
		return &trainee{n: n, view: &View{}}, err
	}
	tr := &trainee{n: n, pace: 50 * time.Millisecond}
	tr.take(e)
	return tr, nil
}

// take goes on to where an entry leads.
func (tr *trainee) take(e Entry) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.entry = e
	tr.at = append(tr.at, fmt.Sprintf("%d %d %s", e.Fence, e.Kind, e.Payload))
	if e.View != nil {
		tr.view = e.View
		tr.viewed = append(tr.viewed, time.Now())
	}
	if e.Kind == EntryCommit {
		tr.commits++
	}
	if n, err := strconv.Atoi(string(e.Payload)); err == nil {
		tr.step = n + 1
	}
}

func (tr *trainee) views() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.viewed)
}

func (tr *trainee) now() (step int, v *View) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.step, tr.view
}

// run trains until the last step, or this member is out of the view.
func (tr *trainee) run(ctx context.Context, end int) error {
	for {
		step, view := tr.now()
		if view.Rank < 0 {
			return nil
		}
		if err := tr.attempt(ctx, view); err == nil {
			err = tr.n.Ready(strconv.AppendInt(nil, int64(step), 10))
			if err != nil {
				return err
			}
		} else if !errors.Is(err, ErrAttempt) {
			return err
		}
		e, err := tr.n.Next(ctx)
		if errors.Is(err, ErrLeft) {
			return nil
		}
		if err != nil {
			return err
		}
		if e.Fence <= tr.entry.Fence {
			return fmt.Errorf("fence %d after %d", e.Fence, tr.entry.Fence)
		}
		tr.take(e)
		if e.Kind == EntryDone {
			if step != end || string(e.Payload) != "end" {
				return fmt.Errorf("done at step %d with %q", step, e.Payload)
			}
			if _, err := tr.n.Next(ctx); !errors.Is(err, ErrDone) {
				return fmt.Errorf("after the end: %v", err)
			}
			return nil
		}
	}
}

// attempt does what is done in one: the others' parts are here, and what it gives has been taken.
func (tr *trainee) attempt(ctx context.Context, v *View) error {
	n, fence := len(v.Members), tr.entry.Fence
	sink := &counting{want: n - 1, whole: make(chan struct{})}
	if n == 1 {
		close(sink.whole)
	}
	ctx, err := tr.n.Begin(ctx, fence, sink)
	if err != nil {
		return err
	}
	tr.n.SetPhase("gather", 0)
	parts, give, forward := make([][]byte, n), make([][]byte, n), make([][]byte, n)
	for r := range n {
		parts[r], give[r] = make([]byte, 8*(r+1)), make([]byte, 400)
		binary.LittleEndian.PutUint32(give[r], uint32(fence))
	}
	forward[(v.Rank+1)%n] = make([]byte, 40)
	mine := make([]byte, 8*(v.Rank+1))
	binary.LittleEndian.PutUint64(mine, fence)
	wait, given := tr.n.AllGather(ctx, 0, 4, mine, nil, parts)
	waits := []func() error{wait, given, tr.n.Give(ctx, Gradient, 0, give, 1), tr.n.Give(ctx, Forward, 1, forward, 1)}
	for _, f := range tr.entry.Fills {
		if v.Place.Owner[f.Range] == v.Rank {
			state := make([][]byte, n)
			state[f.To] = make([]byte, 12*ranges[f.Range].Size)
			waits = append(waits, tr.n.Give(ctx, State, uint32(f.Range), state, 1))
			tr.mu.Lock()
			tr.filled++
			tr.mu.Unlock()
		}
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			return err
		}
	}
	for r, p := range parts {
		if r != v.Rank && binary.LittleEndian.Uint64(p) != fence {
			return fmt.Errorf("attempt %d: rank %d gave %x", fence, r, p)
		}
	}
	tr.n.SetPhase("reduce", 0)
	computed := make(chan struct{})
	defer time.AfterFunc(tr.pace, func() { close(computed) }).Stop()
	for _, c := range []chan struct{}{sink.whole, computed} {
		select {
		case <-c:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	tr.n.SetPhase("ready", -1)
	return sink.check(fence)
}

// counting is a Sink that waits for everybody's gradient of unit 0.
type counting struct {
	mu    sync.Mutex
	want  int
	whole chan struct{}
	from  []uint32 // fences that the gradients were made for
}

func (s *counting) Add(kind Kind, tag, source, offset int, data []byte) error {
	if kind == Gradient && offset == 0 {
		s.mu.Lock()
		s.from = append(s.from, binary.LittleEndian.Uint32(data))
		s.mu.Unlock()
	}
	return nil
}

func (s *counting) Done(kind Kind, tag, source, count int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kind == Gradient && tag == 0 {
		if s.want--; s.want == 0 {
			close(s.whole)
		}
	}
	return nil
}

func (s *counting) check(fence uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.from, func(f uint32) bool { return uint64(f) != fence }) {
		return fmt.Errorf("attempt %d was given gradients of %v", fence, s.from)
	}
	return nil
}
