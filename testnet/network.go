package testnet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"shoal"
)

// fate is what became of a peer.
type fate int

const (
	running fate = iota
	stopped      // by SIGSTOP
	leaving      // was told to go
	killed
	ended // by itself, after its report or because the run is over without it
)

// peerState is a process and what it told.
type peerState struct {
	*process
	fate     fate
	stops    int  // how often it was stopped
	thaws    bool // while it is stopped: it will go on
	id, link string
	report   *shoal.Report
	standing Standing
	seen     time.Time // when standing was told
	commits  []commit
	began    time.Time  // when it was started
	by       *peerState // by whose link it joined; nil for the first
	due      time.Time  // when it must be gone; zero if never
}

// commit is a step that a peer knows to be final.
type commit struct {
	step    int   // from 1
	samples int64 // of this peer's steps so far
	wall    int64 // Unix time in nanoseconds
}

// told is an event of a peer.
type told struct {
	peer int // from 0
	event
}

// network is the processes of one run. Only one goroutine, that of pump, touches it; the processes' readers send to it.
type network struct {
	cfg  Config
	file string // run file for the first peer

	peers    []*peerState
	events   chan told
	gone     chan *process // gets each process that has exited
	done     chan struct{} // closed when nobody listens any more
	finish   sync.Once
	watchers sync.WaitGroup // senders to gone
	later    []timed

	happenings []*happening
	holding    string       // a point at which a peer is to be held
	blamed     []blameEvent // in the order told
	late       error        // what a process complained of after its report
	changed    time.Time    // when something was last done to a peer
	step       int          // the last one that anybody committed
	shown      int          // the last one that was shown
}

// timed is something to do at a time.
type timed struct {
	at time.Time
	do func() error
}

func newNetwork(cfg Config, file string) *network {
	return &network{cfg: cfg, file: file, events: make(chan told), gone: make(chan *process), done: make(chan struct{})}
}

// begin starts the peers that the run begins with.
func (n *network) begin(ctx context.Context) error {
	up := []string{"up", n.file, "--peers", strconv.Itoa(n.cfg.all())}
	if n.cfg.Out != "" {
		up = append(up, "--out", n.cfg.Out)
	}
	if n.cfg.Resume {
		up = append(up, "--resume")
	}
	if _, err := n.start(up...); err != nil {
		return err
	}
	if err := n.pump(ctx, func() bool { return n.peers[0].link != "" }); err != nil {
		return err
	}
	for len(n.peers) < n.cfg.all() {
		if _, err := n.join(); err != nil {
			return err
		}
	}
	return nil
}

// join starts a peer that joins by the link of one that is there.
func (n *network) join() (*peerState, error) {
	by := cmp.Or(n.open(), n.peers[0])
	args := []string{"join", by.link}
	if n.cfg.browser(len(n.peers)) {
		args[0] = "tab"
	} else if d := n.cfg.RunFile.Data; d.Path != "" {
		args = append(args, "--data", d.Source+":"+d.Path)
	}
	p, err := n.start(args...)
	if err == nil {
		p.by = by
	}
	return p, err
}

// open is a peer whose link leads into the run, nil if there is none.
func (n *network) open() *peerState {
	if i := slices.IndexFunc(n.peers, func(p *peerState) bool { return p.fate == running && p.link != "" }); i >= 0 {
		return n.peers[i]
	}
	return nil
}

// joinAgain starts a peer in the place of one whose link's peer was gone before it could ask.
func (n *network) joinAgain(p *peerState) error {
	p.fate = ended
	next, err := n.join()
	for _, h := range n.happenings {
		if err == nil && h.victim == p {
			h.victim = next
		}
	}
	return err
}

// start starts the next peer, by a command of the program that makes it a daemon or a tab.
func (n *network) start(args ...string) (*peerState, error) {
	i := len(n.peers)
	args = append(args, "--memory", fmt.Sprintf("%dMiB", n.cfg.memory(i)), "--cores", strconv.Itoa(n.cfg.cores(i)))
	if n.cfg.browser(i) {
		args = append(args, "--dist", n.cfg.Dist, "--profile", filepath.Join(filepath.Dir(n.file), fmt.Sprintf("tab-%d", i+1)))
	} else {
		args = append(args, "--child", "--listen", "127.0.0.1:0")
		if n.cfg.Checkpoint != "" {
			args = append(args, "--checkpoint", n.cfg.Checkpoint)
		}
		if n.cfg.Kernel != "" {
			args = append(args, "--kernel", n.cfg.Kernel)
		}
	}
	if factor := max(n.cfg.Slow[i+1], n.cfg.pace); factor > 0 {
		args = append(args, "--slow", strconv.FormatFloat(factor, 'g', -1, 64))
	}
	for _, point := range n.pauses(i + 1) {
		args = append(args, "--pause", point)
	}
	if n.cfg.Verbose != nil {
		args = append(args, "--verbose")
	}
	began := time.Now()
	n.changed = began
	p, err := start(i+1, n.cfg.Program, args, n.cfg.Verbose, func(e event) {
		select {
		case n.events <- told{i, e}:
		case <-n.done:
		}
	})
	if err != nil {
		return nil, err
	}
	s := &peerState{process: p, began: began}
	n.peers = append(n.peers, s)
	n.watchers.Go(func() {
		<-p.exited
		select {
		case n.gone <- p:
		case <-n.done:
		}
	})
	if n.cfg.OnStart != nil {
		n.cfg.OnStart(p.peer, p.cmd.Process.Pid)
	}
	return s, nil
}

// pump takes what happens until a condition holds or all peers have ended. It is the only one that waits.
func (n *network) pump(ctx context.Context, until func() bool) error {
	for !until() && !n.over() {
		if err := n.one(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pumpFor is pump for at most some time; it says whether the condition holds.
func (n *network) pumpFor(ctx context.Context, limit time.Duration, until func() bool) (bool, error) {
	end := time.Now().Add(limit)
	n.after(limit, func() error { return nil })
	err := n.pump(ctx, func() bool { return until() || !time.Now().Before(end) })
	return err == nil && until(), err
}

// one takes one event, end of a process, or moment.
func (n *network) one(ctx context.Context) error {
	moment := time.NewTimer(time.Hour)
	defer moment.Stop()
	if len(n.later) > 0 {
		moment.Reset(time.Until(n.later[0].at))
	}
	select {
	case t := <-n.events:
		return n.told(t)
	case p := <-n.gone:
		return n.exited(n.peers[p.peer-1])
	case <-moment.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for len(n.later) > 0 && !time.Now().Before(n.later[0].at) {
		next := n.later[0]
		n.later = n.later[1:]
		if err := next.do(); err != nil {
			return err
		}
	}
	return nil
}

// after has pump do something later.
func (n *network) after(wait time.Duration, do func() error) {
	n.later = append(n.later, timed{time.Now().Add(wait), do})
	slices.SortStableFunc(n.later, func(a, b timed) int { return a.at.Compare(b.at) })
}

// over says whether nobody is left who could end the run. Stopped peers are waited for if the run has not ended without
// them.
func (n *network) over() bool {
	done := slices.ContainsFunc(n.peers, func(p *peerState) bool { return p.fate == ended && p.report != nil })
	return len(n.peers) > 0 && !slices.ContainsFunc(n.peers, func(p *peerState) bool {
		return p.fate == running || p.fate == leaving || p.fate == stopped && p.thaws && !done
	})
}

// alive are the peers that take part, or soon will.
func (n *network) alive() (list []*peerState) {
	for _, p := range n.peers {
		if p.fate == running {
			list = append(list, p)
		}
	}
	return list
}

// speaker is the peer that tells how the run goes: the first that is there, if possible one that has been all along. Nil if
// there is none.
func (n *network) speaker() *peerState {
	alive := n.alive()
	if len(alive) == 0 {
		return nil
	}
	return alive[max(0, slices.IndexFunc(alive, func(p *peerState) bool { return p.stops == 0 }))]
}

// told takes an event.
func (n *network) told(t told) error {
	p := n.peers[t.peer]
	if t.Notice != "" && n.cfg.Verbose != nil {
		fmt.Fprintf(n.cfg.Verbose, "peer %d: notice: %s\n", p.peer, t.Notice)
	}
	switch e := t.event; {
	case e.Report != nil:
		p.report = e.Report
	case e.Self != "":
		p.id = e.Self
	case e.Link != "":
		p.link = e.Link
	case e.Blame != nil:
		n.blamed = append(n.blamed, *e.Blame)
	case e.View != nil:
		p.standing, p.seen = *e.View, time.Now()
	case e.At != nil:
		return n.reached(p, e.At)
	case e.Step != nil:
		return n.stepped(p, e.Step)
	case p == n.speaker() && e.Notice != "" && n.cfg.OnNotice != nil:
		n.cfg.OnNotice(e.Notice)
	case p == n.speaker() && e.Wait != nil && n.cfg.OnWait != nil:
		n.cfg.OnWait(e.Wait.Have, e.Wait.Want)
	}
	return nil
}

// stepped takes a peer's progress.
func (n *network) stepped(p *peerState, e *stepEvent) error {
	if e.Phase == shoal.Training {
		p.commits = append(p.commits, commit{e.Step, e.Samples, e.Wall})
		n.step = max(n.step, e.Step)
	}
	if p == n.speaker() && n.cfg.Progress != nil && (e.Phase != shoal.Training || e.Step > n.shown) {
		n.shown = max(n.shown, e.Step)
		n.cfg.Progress(e.progress())
	}
	return n.joins()
}

// exited takes the end of a process. Whoever was meant to go is not missed.
func (n *network) exited(p *peerState) error {
	was := p.fate
	p.due = time.Time{}
	switch err, sudden := p.failure(); {
	case was == killed:
	case was == leaving:
		p.fate = ended
	case p.report != nil:
		p.fate = ended
		n.late = cmp.Or(n.late, err)
		n.after(stragglers, n.endStragglers)
	case (p.stops > 0 || p.peer > n.cfg.all()) && n.step >= n.cfg.RunFile.Train.Steps:
		p.fate = ended
		n.notice("peer %d was not there in time, the run was over", p.peer)
	case p.stops > 0:
		p.fate = ended
		n.late = cmp.Or(n.late, fmt.Errorf("%w (it had been stopped, and did not come back)", err))
	case !sudden && p.by != nil && p.by.fate != running && len(p.commits) == 0 && n.open() != nil:
		n.notice("peer %d had the link of peer %d, which was gone: another joins instead", p.peer, p.by.peer)
		return n.joinAgain(p)
	default:
		return n.failed(p)
	}
	return nil
}

// stragglers is how long those that were stopped, or joined at the last moment, may take once the run is over.
const stragglers = 15 * time.Second

// endStragglers ends those that look for a run that is over.
func (n *network) endStragglers() error {
	for _, p := range n.peers {
		if p.fate == running && p.report == nil && (p.stops > 0 || p.peer > n.cfg.all()) {
			p.fate = killed
			p.kill()
			n.notice("peer %d was not there in time, the run was over", p.peer)
		}
	}
	return nil
}

func (n *network) notice(format string, args ...any) {
	if n.cfg.OnNotice != nil {
		n.cfg.OnNotice(fmt.Sprintf(format, args...))
	}
}

// failed ends the other processes and says what went wrong. The cause is a process that died suddenly, or else the one
// that others blame, even if they noticed it, complained and ended first.
func (n *network) failed(p *peerState) error {
	n.stop()
	cause, sudden := p.failure()
	if blamed := n.fault(); blamed != nil && !sudden {
		cause = blamed
	}
	if cause == nil {
		cause = fmt.Errorf("testnet: peer %d (pid %d) ended before the run was done", p.peer, p.cmd.Process.Pid)
	}
	for _, q := range n.peers {
		if err, s := q.failure(); s && !sudden {
			cause, sudden = err, true
		}
	}
	return cause
}

// fault is what the processes say of the one that ended the run, or nil. Those that were ended by n are not meant.
func (n *network) fault() error {
	for _, b := range n.blamed {
		i := slices.IndexFunc(n.peers, func(p *peerState) bool { return p.id == b.Peer })
		if i >= 0 && n.peers[i].fate != killed {
			return fmt.Errorf("testnet: peer %d (pid %d) %s", i+1, n.peers[i].cmd.Process.Pid, b.What)
		}
	}
	return nil
}

// stop ends all processes and waits for them. It may be called twice.
func (n *network) stop() {
	n.finish.Do(func() { close(n.done) })
	var all sync.WaitGroup
	for _, p := range n.peers {
		all.Go(p.process.stop)
	}
	all.Wait()
	n.watchers.Wait()
}

// agreed is the report of the peer that saw most of the run, if all have the same state.
func (n *network) agreed() (*shoal.Report, error) {
	var best *peerState
	for _, p := range n.peers {
		if p.report != nil && (best == nil || p.report.WallSeconds > best.report.WallSeconds) {
			best = p
		}
	}
	if best == nil {
		return nil, errors.New("testnet: nobody is left who could tell how the run ended")
	}
	for _, p := range n.peers {
		if p.report != nil && p.report.StateHash != best.report.StateHash {
			return nil, fmt.Errorf("testnet: peer %d ended with state %s, peer %d with %s", p.peer, p.report.StateHash, best.peer, best.report.StateHash)
		}
	}
	return best.report, nil
}
