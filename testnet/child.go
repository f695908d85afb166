package testnet

import (
	"io"
	"runtime"
	"sync"
	"time"

	"shoal"
	"shoal/fsdp"
	"shoal/internal/sysinfo"
)

// How often a child looks whether its standing has changed, and how often it tells it in any case.
const (
	lookPause = 100 * time.Millisecond
	tellPause = time.Second
)

// Child is a testnet's peer as it is seen from inside: it tells the parent what happens, and waits where the parent wants
// it to. Processes and browser tabs have one each.
type Child struct {
	events *Events
	pauses *Pauses
	done   sync.WaitGroup

	mu   sync.Mutex
	live *shoal.Live // nil before this peer is in the run
	stop chan struct{}
}

// NewChild tells its events to out, a line of JSON each. points are where it waits for the parent from the beginning on,
// ROLE@step:N[:PHASE] each.
func NewChild(out io.Writer, points []string) (*Child, error) {
	c := &Child{events: NewEvents(out)}
	c.pauses = NewPauses(c.events, c.standing)
	for _, p := range points {
		if err := c.pauses.Add(p); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Watch has cfg's run tell the parent of itself.
func (c *Child) Watch(cfg *shoal.Config) {
	e := c.events
	cfg.OnSelf, cfg.OnOwnLink, cfg.OnWait, cfg.Progress, cfg.OnNotice = e.Self, e.Link, e.Wait, e.Progress, e.Notice
	cfg.OnLive = c.begin
	cfg.At = func(p fsdp.Point) { c.pauses.At(p.Step+1, p.Phase) }
}

// Serve takes the parent's words until there are no more, and then lets everything go on. Whoever calls it ends the run then.
func (c *Child) Serve(in io.Reader) { c.pauses.Serve(in) }

// Report tells the result.
func (c *Child) Report(r *shoal.Report) error { return c.events.Report(r) }

// Failed tells who ended the run, if err says so.
func (c *Child) Failed(err error) { c.events.Failed(err) }

// Close ends what tells of this peer. It may be called twice.
func (c *Child) Close() {
	c.mu.Lock()
	if c.stop != nil {
		close(c.stop)
		c.stop = nil
	}
	c.mu.Unlock()
	c.done.Wait()
}

// begin starts to tell of a peer that is in the run.
func (c *Child) begin(live *shoal.Live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live, c.stop = live, make(chan struct{})
	stop := c.stop
	c.done.Go(func() { c.watch(stop) })
}

// watch tells the parent of the standing when it changes, and once in a while.
func (c *Child) watch(stop chan struct{}) {
	t := time.NewTicker(lookPause)
	defer t.Stop()
	var last Standing
	var when time.Time
	for {
		if now := c.standing(); !now.Like(&last) || time.Since(when) >= tellPause {
			last, when = now, time.Now()
			c.events.Standing(now)
		}
		select {
		case <-stop:
			return
		case <-t.C:
		}
	}
}

// standing is what this peer is now.
func (c *Child) standing() Standing {
	c.mu.Lock()
	live := c.live
	c.mu.Unlock()
	if live == nil {
		return Standing{}
	}
	s := live.Status()
	st := Standing{Self: s.Peer, View: s.View, Leader: s.Leader, Redundancy: s.Redundancy, Wanted: s.Wanted,
		Promise: s.Survives, Stuck: s.Stuck, RSS: sysinfo.RSS(), Streams: s.Streams, Goroutines: runtime.NumGoroutine()}
	for _, m := range s.Members {
		st.Fills += m.ToFill
		if m.Rank >= 0 {
			st.Members = append(st.Members, m.Peer)
		}
		if m.Peer == s.Peer && m.Rank >= 0 {
			st.Owns, st.Holds, st.Filling = m.Owned, m.BackedUp, m.ToFill
		}
	}
	return st
}
