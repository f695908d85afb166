package shoal

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"shoal/fsdp"
	"shoal/internal/checkpoint"
	"shoal/internal/report"
	"shoal/kernel"
	"shoal/kernel/slow"
	"shoal/peer"
	"shoal/swarm"
)

// member is one peer's part in a run while it lasts.
type member struct {
	cfg         Config
	task        *task
	device      kernel.Device
	fingerprint string // of the device's kernels
	host        *peer.Host
	link        peer.Link // of the run
	runID       string
	undo        func() // removes the folders that were made for it, if nothing came into them; nil if there are none
	chunks      exchange
	checkpoint  *checkpoint.Checkpoint // that the run goes on from; nil: it begins afresh
	lock        *checkpoint.Lock       // on Config.Checkpoint; nil without
	missing     error                  // why a peer that joins has no such checkpoint: it comes in once the run has begun
	history     history
	live        *Live

	// Of this membership: a peer that was taken out by mistake joins again as another member.
	node *swarm.Node
	view atomic.Pointer[swarm.View]
	out  *output // nil: this peer doesn't keep the model
	comm *comm   // of the engine
}

func run(ctx context.Context, cfg Config) (rep *Report, err error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	m := &member{cfg: cfg}
	defer func() {
		if rep == nil && m.undo != nil {
			m.undo()
		}
	}()
	// What is opened lasts until this peer is out of the run, which is some time after ctx has ended.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	opened := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	if err := m.prepare(life); err != nil {
		m.closeCheckpoint()
		return nil, configError(ctx, err)
	}
	defer m.close()
	start, err := m.open(life)
	if err != nil {
		return nil, err
	}
	if !opened() {
		return nil, context.Cause(ctx)
	}
	for {
		rep, err := m.session(ctx, start)
		var stopped *swarm.StoppedError
		if !errors.As(err, &stopped) || !stopped.Gone || ctx.Err() != nil {
			return rep, err
		}
		m.notice("%s: joining again as a newcomer", stopped.Reason)
		if m.cfg.OnLost != nil {
			m.cfg.OnLost(stopped.Reason)
		}
		start.Run, start.Contacts = nil, m.contacts()
		used := m.device
		if err := m.openDevice(); err != nil {
			return nil, err
		}
		used.Close()
	}
}

// prepare checks the configuration and opens the device and the network, but talks to nobody.
func (m *member) prepare(ctx context.Context) error {
	cfg := &m.cfg
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Memory == 0 {
		cfg.Memory = allMemory()
	}
	if cfg.Cache == "" {
		cfg.Cache = cacheByDefault
	}
	if cfg.Peers == 0 {
		cfg.Peers = 1
	}
	if err := cfg.checkFind(); err != nil {
		return err
	}
	if cfg.Out != "" {
		var err error
		if m.undo, err = report.MakeFolder(cfg.Out); err != nil {
			return &ConfigError{"out", err}
		}
	}
	if !cfg.joins() {
		if cfg.RunFile == nil {
			return errors.New("Config.RunFile is needed to start a run, Config.Link or Config.LAN to join one")
		}
		var err error
		if m.task, err = newTask(ctx, *cfg.RunFile, *cfg); err != nil {
			return err
		}
		m.runID = m.task.newRunID()
		if err := m.openCheckpoints(ctx); err != nil {
			m.task.close()
			return err
		}
	}
	if m.task != nil && cfg.Out != "" {
		if err := checkOut(cfg.Out, m.task.model); err != nil {
			m.task.close()
			return err
		}
	}
	if m.task != nil && cfg.Peers == 1 {
		alone := m.task.training()
		if err := m.enough(&alone); err != nil {
			m.task.close()
			return err
		}
	}
	err := m.openDevice()
	if err != nil {
		m.task.close()
		return err
	}
	if m.fingerprint, err = kernel.Fingerprint(m.device); err != nil {
		m.device.Close()
		m.task.close()
		return err
	}
	return nil
}

// openDevice opens what this peer computes with. One that a membership has cancelled is of no use for the next.
func (m *member) openDevice() error {
	d, err := newDevice(&m.cfg)
	if err != nil {
		return err
	}
	if m.device = d; m.cfg.Slow > 1 {
		m.device = slow.Device(d, m.cfg.Slow)
	}
	return nil
}

// cores is how many this peer computes with.
func (m *member) cores() int {
	if d, ok := m.device.(interface{ Workers() int }); ok { // a browser may give fewer than were asked for
		return d.Workers()
	}
	if m.cfg.Cores > 0 {
		return m.cfg.Cores
	}
	return allCores()
}

// decide is the leader's part of the training, as the log wants it.
func (m *member) decide() func(run, prev []byte, work []int64, readies [][]byte) swarm.Decision {
	d := &fsdp.Decider{Layout: fsdp.NewLayout(m.task.model, m.task.frozen), Hyper: m.task.hyper(),
		BatchSize: func(step int) int { return len(m.task.order(step)) }}
	saved := m.task.saved(m.runID)
	d.Manifest = func(s *fsdp.Saved) (string, error) { return checkpoint.ManifestHash(saved, s) }
	decide := func(run, prev []byte, work []int64, readies [][]byte) (to swarm.Decision, err error) {
		if prev == nil {
			if d.Start, err = startOf(run); err != nil {
				return to, err
			}
		}
		kind, payload, work, err := d.Decide(prev, work, readies)
		if err == nil && m.task.run.Checkpoint.Every > 0 {
			to.Saved, err = m.task.keeps(payload)
		}
		to.Kind, to.Payload, to.Work = decisions[kind], payload, work
		return to, err
	}
	return func(run, prev []byte, work []int64, readies [][]byte) swarm.Decision {
		to, err := decide(run, prev, work, readies)
		if err != nil {
			return swarm.Decision{Kind: swarm.EntryStop, Payload: []byte(err.Error())}
		}
		return to
	}
}

var decisions = map[fsdp.EntryKind]swarm.EntryKind{fsdp.EntryCommit: swarm.EntryCommit, fsdp.EntryRetry: swarm.EntryRetry,
	fsdp.EntryDone: swarm.EntryDone}

// cause prefers what the log says about the end of the run to what a stream said when it broke.
func (m *member) cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if stopped := m.node.Err(); stopped != nil {
		err = stopped
	} else if errors.Is(err, fsdp.ErrLeft) { // the log says so first, and why a moment later
		err = &swarm.StoppedError{Rank: -1, Local: true, Gone: true, Reason: "the others went on without this peer"}
	}
	return err
}

// close ends this peer's part.
func (m *member) close() {
	if m.chunks.server != nil {
		m.chunks.server.Close()
	}
	if m.host != nil {
		m.host.Close()
	}
	m.closeCheckpoint()
	m.device.Close()
	m.task.close()
}

func (m *member) closeCheckpoint() {
	if m.checkpoint != nil {
		m.checkpoint.Close()
	}
	m.lock.Close()
}
