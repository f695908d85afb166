package testnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"shoal"
	"shoal/internal/report"
	"shoal/internal/runfile"
)

// ErrTimeout is wrapped by the error of a run that took longer than Config.Timeout.
var ErrTimeout = errors.New("took too long")

// Run starts the peers, waits until the run is done, and returns the first peer's report, once all peers agree on its
// state hash. If all went well but for the files in Config.Out, there is both a report and an error. If one process fails, or ctx is cancelled, all others are ended; none is left when Run returns.
func Run(ctx context.Context, cfg Config) (r *shoal.Report, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cfg.Timeout, fmt.Errorf("testnet: %w: stopped after %v", ErrTimeout, cfg.Timeout))
		defer cancel()
	}
	if cfg.Out != "" {
		undo, err := report.MakeFolder(cfg.Out)
		if err != nil {
			return nil, &shoal.ConfigError{Field: "out", Err: err}
		}
		defer func() {
			if r == nil {
				undo()
			}
		}()
	}
	if cfg.Program == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("testnet: where is this program: %w", err)
		}
		cfg.Program = self
	}
	run := *cfg.RunFile
	if run.Data.Path != "" {
		var err error
		if run.Data.Path, err = filepath.Abs(run.Data.Path); err != nil { // a run file's path is relative to its folder
			return nil, fmt.Errorf("testnet: %w", err)
		}
	}
	cfg.RunFile = &run
	dir, err := os.MkdirTemp("", "shoal-testnet-")
	if err != nil {
		return nil, fmt.Errorf("testnet: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "run.yaml")
	if err := os.WriteFile(file, runfile.Marshal(*cfg.RunFile), 0o600); err != nil {
		return nil, fmt.Errorf("testnet: %w", err)
	}
	if cfg.Verbose != nil {
		cfg.Verbose = &lockedWriter{w: cfg.Verbose}
	}
	n := &network{cfg: cfg, link: make(chan string, 1), reports: make([]*shoal.Report, cfg.Peers), ids: map[string]int{}, gone: make(chan *process, cfg.Peers)}
	defer n.stop()
	if err := n.run(ctx, file); err != nil {
		return nil, err
	}
	r, err = n.agreed()
	return r, errors.Join(err, n.late)
}

// network is the processes of one Run.
type network struct {
	cfg       Config
	processes []*process
	link      chan string    // gets the first peer's link
	gone      chan *process  // gets each process that has exited
	watchers  sync.WaitGroup // senders to gone

	mu      sync.Mutex
	reports []*shoal.Report // by peer; nil until told
	late    error           // what a process complained of after its report
	ids     map[string]int  // processes by their peer ids, from 0
	blamed  []blameEvent    // in the order told
}

// run starts all peers and returns when all are done, or one has failed.
func (n *network) run(ctx context.Context, file string) error {
	up := []string{"up", file, "--peers", strconv.Itoa(n.cfg.Peers)}
	if n.cfg.Out != "" {
		up = append(up, "--out", n.cfg.Out)
	}
	if n.cfg.Resume {
		up = append(up, "--resume")
	}
	if err := n.start(up...); err != nil {
		return err
	}
	var link string
	select {
	case link = <-n.link:
	case p := <-n.gone:
		return n.failed(p)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for len(n.processes) < n.cfg.Peers {
		args := []string{"join", link}
		if d := n.cfg.RunFile.Data; d.Path != "" {
			args = append(args, "--data", d.Source+":"+d.Path)
		}
		if err := n.start(args...); err != nil {
			return err
		}
	}
	for range n.processes {
		select {
		case p := <-n.gone:
			if n.report(p) == nil {
				return n.failed(p)
			}
			if err, _ := p.failure(); err != nil && n.late == nil {
				n.late = err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// start starts the next peer.
func (n *network) start(args ...string) error {
	i := len(n.processes)
	args = append(args, "--child", "--listen", "127.0.0.1:0",
		"--memory", fmt.Sprintf("%dMiB", n.cfg.memory(i)), "--cores", strconv.Itoa(n.cfg.cores(i)))
	if n.cfg.Checkpoint != "" {
		args = append(args, "--checkpoint", n.cfg.Checkpoint)
	}
	if n.cfg.Kernel != "" {
		args = append(args, "--kernel", n.cfg.Kernel)
	}
	if n.cfg.Verbose != nil {
		args = append(args, "--verbose")
	}
	p, err := start(i+1, n.cfg.Program, args, n.cfg.Verbose, func(e event) { n.told(i, e) })
	if err != nil {
		return err
	}
	n.processes = append(n.processes, p)
	n.watchers.Go(func() {
		<-p.exited
		n.gone <- p
	})
	if n.cfg.OnStart != nil {
		n.cfg.OnStart(p.peer, p.cmd.Process.Pid)
	}
	return nil
}

// told takes an event of process i. The first peer speaks for the run.
func (n *network) told(i int, e event) {
	n.mu.Lock()
	switch {
	case e.Report != nil:
		n.reports[i] = e.Report
	case e.Self != "":
		n.ids[e.Self] = i
	case e.Blame != nil:
		n.blamed = append(n.blamed, *e.Blame)
	}
	n.mu.Unlock()
	if i != 0 {
		return
	}
	switch {
	case e.Link != "":
		select {
		case n.link <- e.Link:
		default: // told before
		}
	case e.Notice != "" && n.cfg.OnNotice != nil:
		n.cfg.OnNotice(e.Notice)
	case e.Wait != nil && n.cfg.OnWait != nil:
		n.cfg.OnWait(e.Wait.Have, e.Wait.Want)
	case e.Step != nil && n.cfg.Progress != nil:
		n.cfg.Progress(e.Step.progress())
	}
}

func (n *network) report(p *process) *shoal.Report {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reports[p.peer-1]
}

// failed ends the other processes and says what went wrong. The cause is a process that died suddenly, or else the one
// that others blame, even if they noticed it, complained and ended first.
func (n *network) failed(p *process) error {
	blamed := n.fault() // not what they say of one another when they are ended
	n.stop()
	cause, sudden := p.failure()
	if blamed != nil && !sudden {
		cause = blamed
	}
	if cause == nil {
		cause = fmt.Errorf("testnet: peer %d (pid %d) ended before the run was done", p.peer, p.cmd.Process.Pid)
	}
	for _, q := range n.processes {
		if err, s := q.failure(); s && !sudden {
			cause, sudden = err, true
		}
	}
	return cause
}

// fault is what the processes say of the one that ended the run, or nil.
func (n *network) fault() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, b := range n.blamed {
		if i, ok := n.ids[b.Peer]; ok {
			return fmt.Errorf("testnet: peer %d (pid %d) %s", i+1, n.processes[i].cmd.Process.Pid, b.What)
		}
	}
	return nil
}

// stop ends all processes and waits for them. It may be called twice.
func (n *network) stop() {
	var all sync.WaitGroup
	for _, p := range n.processes {
		all.Go(p.stop)
	}
	all.Wait()
	n.watchers.Wait()
}

// agreed is the first peer's report if all peers ended with the same state.
func (n *network) agreed() (*shoal.Report, error) {
	for i, r := range n.reports {
		if r.StateHash != n.reports[0].StateHash {
			return nil, fmt.Errorf("testnet: peer %d ended with state %s, peer 1 with %s", i+1, r.StateHash, n.reports[0].StateHash)
		}
	}
	return n.reports[0], nil
}

// lockedWriter keeps lines of several processes apart.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
