package main

import (
	"strings"
	"sync"
	"time"

	"shoal"
	"shoal/fsdp"
	"shoal/internal/report"
	"shoal/internal/sysinfo"
)

const (
	viewPause  = 100 * time.Millisecond
	statusEach = 5 // of these pauses
	mostPieces = 64
)

// view tells the page of one part in a run. What the run calls is only noted down; a goroutine of its own tells it.
type view struct {
	post    func(message any)
	shared  bool
	workers int
	stop    chan struct{}
	done    sync.WaitGroup

	mu      sync.Mutex
	peer    string
	live    *shoal.Live // nil before this peer is in the run
	at      shoal.Progress
	news    bool   // at is not told yet
	state   string // told last
	told    selfMessage
	visible bool
	pieces  [][2]any
	busy    time.Duration // that was computed since the last usage
}

func newView(post func(any), shared, visible bool) *view {
	v := &view{post: post, shared: shared, visible: visible, stop: make(chan struct{})}
	v.done.Go(v.tell)
	return v
}

// watch has cfg's run be shown.
func (v *view) watch(cfg *shoal.Config) {
	cfg.OnSelf = func(id string) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.peer = id
	}
	cfg.OnLive = func(l *shoal.Live) {
		v.mu.Lock()
		v.live, v.workers = l, l.Workers()
		v.mu.Unlock()
		v.self()
		v.is(waiting, "")
	}
	cfg.OnWait = func(have, want int) { v.is(waiting, "") }
	cfg.OnLost = func(reason string) { v.is(reconnecting, reason) }
	cfg.OnNotice = func(text string) { v.post(textMessage{"notice", text}) }
	cfg.Progress = func(p shoal.Progress) {
		v.is(computing, "")
		v.mu.Lock()
		defer v.mu.Unlock()
		v.at, v.news = p, true
	}
	cfg.Trace = v.trace
}

// self tells what this peer is, if that has changed.
func (v *view) self() {
	v.mu.Lock()
	l := v.live
	now := selfMessage{Type: "self", Peer: v.peer, Workers: v.workers, Shared: v.shared}
	v.mu.Unlock()
	now.Backend, now.Transport = l.Backend(), strings.Join(l.Transports(), ", ")
	v.mu.Lock()
	told := v.told == now
	v.told = now
	v.mu.Unlock()
	if !told {
		v.post(now)
	}
}

// trace notes down what moved between peers, and how long was computed.
func (v *view) trace(e fsdp.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch e.Kind {
	case fsdp.TraceForward, fsdp.TraceBackward:
		v.busy += e.End - e.Start
		return
	case fsdp.TraceUpdate:
		v.busy += e.End - e.Start
	case fsdp.TraceGather, fsdp.TraceReduce:
	default:
		return
	}
	if v.visible && len(v.pieces) < mostPieces {
		v.pieces = append(v.pieces, [2]any{string(e.Kind), e.Unit})
	}
}

// is tells a state unless it is the last one that was told.
func (v *view) is(state, reason string) {
	v.mu.Lock()
	told := v.state == state
	v.state = state
	v.mu.Unlock()
	if !told {
		v.post(stateMessage{Type: "state", State: state, Reason: reason})
	}
}

// show says whether somebody looks.
func (v *view) show(visible bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.visible, v.pieces = visible, nil
}

// tell posts what is new until close.
func (v *view) tell() {
	t := time.NewTicker(viewPause)
	defer t.Stop()
	since := time.Now()
	for round := 1; ; round++ {
		v.progress()
		if round%statusEach == 0 {
			v.status(time.Since(since))
			since = time.Now()
		}
		select {
		case <-v.stop:
			v.progress()
			return
		case <-t.C:
		}
	}
}

// progress posts the last step and the pieces, if there are new ones.
func (v *view) progress() {
	v.mu.Lock()
	p, news, pieces := v.at, v.news, v.pieces
	v.news, v.pieces = false, nil
	v.mu.Unlock()
	if news {
		v.post(progressMessage{"progress", p.Step, p.Steps, report.Number(p.Loss), p.Samples, p.Elapsed.Milliseconds(), p.Peers})
	}
	if len(pieces) > 0 {
		v.post(piecesMessage{"pieces", pieces})
	}
}

// status posts how the run stands. took is the time since the last time.
func (v *view) status(took time.Duration) {
	v.mu.Lock()
	live, busy, state := v.live, v.busy, v.state
	v.busy = 0
	v.mu.Unlock()
	if live == nil {
		return
	}
	v.self()
	s := live.Status()
	v.post(statusMessage{"status", s})
	cores := 0.0
	if took > 0 {
		cores = min(1, busy.Seconds()/took.Seconds()) * float64(v.workers)
	}
	v.post(usageMessage{"usage", live.Memory(), cores, sysinfo.RSS(), live.Computed()})
	if state == computing && s.Stuck != "" {
		v.is(waiting, s.Stuck)
	}
}

// close ends the goroutine. It must be called once.
func (v *view) close() {
	close(v.stop)
	v.done.Wait()
}

// links are those by way of members that were there last.
func (v *view) links() []string {
	v.mu.Lock()
	live := v.live
	v.mu.Unlock()
	if live == nil {
		return nil
	}
	return live.Links()
}

// been says whether this peer was in the run.
func (v *view) been() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.live != nil
}
