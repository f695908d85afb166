package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"time"

	"shoal"
	"shoal/fsdp"
	"shoal/internal/sysinfo"
	"shoal/testnet"
)

// How often a child looks whether its standing has changed, and how often it tells it in any case.
const (
	lookPause = 100 * time.Millisecond
	tellPause = time.Second
)

// child takes part in a run as testnet's child: it waits where testnet wants it to, and ends when stdin does, which is
// when testnet closes it or is gone.
func (a *app) child(ctx context.Context, n *nodeFlags, cfg shoal.Config) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	e := testnet.NewEvents(a.stdout)
	l := &lookout{events: e}
	defer l.close()
	pauses := testnet.NewPauses(e, l.standing)
	for _, point := range n.pauses {
		if err := pauses.Add(point); err != nil {
			return wrongInput{err}
		}
	}
	finished := make(chan struct{})
	defer close(finished)
	go func() { // ends with stdin or with the process
		pauses.Serve(a.stdin)
		cancel(errInterrupted)
		select {
		case <-finished:
		case <-time.After(patience):
			os.Exit(exitInterrupted)
		}
	}()
	cfg.OnSelf, cfg.OnOwnLink, cfg.OnWait, cfg.Progress, cfg.OnNotice = e.Self, e.Link, e.Wait, e.Progress, e.Notice
	cfg.OnLive = l.begin
	end, err := observe(&cfg, n.metrics)
	if err != nil {
		return err
	}
	defer end()
	cfg.At = func(p fsdp.Point) { pauses.At(p.Step+1, p.Phase) }
	r, err := shoal.Run(ctx, cfg)
	if r != nil {
		return errors.Join(err, e.Report(r))
	}
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return errInterrupted
	}
	e.Failed(err)
	return err
}

// lookout tells the parent of a child's standing when it changes, and once in a while.
type lookout struct {
	events *testnet.Events
	done   sync.WaitGroup

	mu   sync.Mutex
	live *shoal.Live // nil before this peer is in the run
	stop chan struct{}
}

// begin starts it.
func (l *lookout) begin(live *shoal.Live) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live, l.stop = live, make(chan struct{})
	stop := l.stop
	l.done.Go(func() { l.watch(stop) })
}

func (l *lookout) close() {
	l.mu.Lock()
	if l.stop != nil {
		close(l.stop)
		l.stop = nil
	}
	l.mu.Unlock()
	l.done.Wait()
}

func (l *lookout) watch(stop chan struct{}) {
	t := time.NewTicker(lookPause)
	defer t.Stop()
	var last testnet.Standing
	var when time.Time
	for {
		if now := l.standing(); !now.Like(&last) || time.Since(when) >= tellPause {
			last, when = now, time.Now()
			l.events.Standing(now)
		}
		select {
		case <-stop:
			return
		case <-t.C:
		}
	}
}

// standing is what this peer is now.
func (l *lookout) standing() testnet.Standing {
	l.mu.Lock()
	live := l.live
	l.mu.Unlock()
	if live == nil {
		return testnet.Standing{}
	}
	s := live.Status()
	st := testnet.Standing{Self: s.Peer, View: s.View, Leader: s.Leader, Redundancy: s.Redundancy, Wanted: s.Wanted,
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
