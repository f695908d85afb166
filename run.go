package shoal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"shoal/fsdp"
	"shoal/internal/checkpoint"
	"shoal/internal/report"
	"shoal/internal/sysinfo"
	"shoal/internal/version"
	"shoal/kernel"
	"shoal/kernel/cpu"
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
	node        *swarm.Node
	view        swarm.View
	runID       string
	out         *output // nil: this peer doesn't keep the model
	undo        func()  // removes the folders that were made for it, if nothing came into them; nil if there are none
	chunks      exchange
	checkpoint  *checkpoint.Checkpoint // that the run goes on from; nil: it begins afresh
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
	if err := m.prepare(ctx); err != nil {
		m.closeCheckpoint()
		return nil, configError(ctx, err)
	}
	defer func() {
		if rep != nil {
			m.close(nil) // the run is done, whatever else went wrong here
			return
		}
		m.close(err)
	}()
	if err := m.join(ctx); err != nil {
		return nil, err
	}
	if m.view, err = m.node.View(ctx); err != nil {
		return nil, m.aboutSelf(err)
	}
	if cfg.Out != "" {
		if m.out, err = newOutput(cfg.Out, m.task.model); err != nil {
			return nil, err
		}
		defer m.out.abort()
	}
	m.fetchAhead(m.begins())
	defer m.fetchWhile(m.node.Context())()
	engine, err := m.engine()
	if err != nil {
		return nil, err
	}
	training, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.node.Context(), cancel)()
	res, err := engine.Run(training)
	if err != nil {
		return nil, m.cause(ctx, err)
	}
	if rep, err = m.report(res); err != nil || m.out == nil {
		return rep, err
	}
	return rep, m.out.finish(m.task.run, m.task.identity(), m.runID, res.StateHash)
}

// prepare checks the configuration and opens the device and the network, but talks to nobody.
func (m *member) prepare(ctx context.Context) error {
	cfg := &m.cfg
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Memory == 0 {
		cfg.Memory = sysinfo.Memory()
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
		alone := m.task.training([]int64{1})
		if err := m.enough(&alone, 0); err != nil {
			m.task.close()
			return err
		}
	}
	var err error
	if m.device, err = cpu.New(cpu.Config{Threads: cfg.Cores, Path: cfg.Kernel}); err != nil {
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

// join starts the run or joins the one that the link names, and returns when this peer is admitted.
func (m *member) join(ctx context.Context) error {
	var link peer.Link
	var err error
	m.host, err = peer.New(ctx, peer.Config{Identity: m.cfg.Identity, Listen: m.cfg.Listen, Announce: m.cfg.Announce,
		Version: version.Version, Log: m.cfg.Log})
	if err != nil {
		return err
	}
	if m.cfg.OnSelf != nil {
		m.cfg.OnSelf(m.host.Self())
	}
	cfg := swarm.Config{Transport: m.host, Log: m.cfg.Log, Peers: m.cfg.Peers, OnWait: m.cfg.OnWait, Exact: true}
	if !m.cfg.joins() {
		link = peer.Link{Peer: m.host.Self(), Addrs: m.host.Addrs(), Run: m.runID, Secret: peer.NewSecret()}
		if cfg.Run, err = m.task.describe(); err != nil {
			return err
		}
	} else {
		if link, err = m.find(ctx); err != nil {
			return err
		}
		cfg.Contact = &swarm.Contact{Peer: link.Peer, Addrs: link.Addrs}
		b, err := swarm.Describe(ctx, m.host, *cfg.Contact, link.Run, link.Secret)
		if errors.Is(err, peer.ErrUnreachable) {
			return fmt.Errorf("%w: is the run over, or a firewall in between?", err)
		}
		if err != nil {
			return err
		}
		if m.task, err = parseDescription(ctx, b, m.cfg, m.fetcher(link)); err != nil {
			return err
		}
		if m.cfg.Out != "" {
			if err := checkOut(m.cfg.Out, m.task.model); err != nil {
				return err
			}
		}
	}
	m.runID = link.Run
	if m.cfg.joins() {
		if err := m.joinCheckpoints(); err != nil {
			return err
		}
	}
	cfg.RunID, cfg.Secret = link.Run, link.Secret
	cfg.Packing = m.task.run.Wire.Packing
	if warning := m.task.hyper().Reduce.Warning(); warning != "" {
		m.cfg.Log.Warn(warning)
		m.notice("%s", warning)
	}
	cfg.Decide = m.decide()
	cfg.Offer = swarm.Offer{Kind: "daemon", Weight: m.cfg.Memory >> 20, Cores: m.cores(), Backend: m.device.Name(),
		Fingerprint: m.fingerprint, ModelHash: m.task.fingerprint, Version: version.Version, Out: m.cfg.Out != ""}
	m.giveChunks(link)
	if m.node, err = swarm.Start(ctx, cfg); err != nil {
		return err
	}
	m.chunks.known.Store(m.node)
	if err := m.beFound(ctx, link); err != nil {
		return err
	}
	if m.cfg.OnLink != nil && !m.cfg.joins() {
		m.cfg.OnLink(link.String())
	}
	return nil
}

func (m *member) cores() int {
	if m.cfg.Cores > 0 {
		return m.cfg.Cores
	}
	return runtime.GOMAXPROCS(0)
}

// decide is the leader's part of the training, as the log wants it.
func (m *member) decide() func(prev []byte, readies [][]byte) swarm.Decision {
	d := &fsdp.Decider{Layout: fsdp.NewLayout(m.task.model, []int64{1}, m.task.frozen), Hyper: m.task.hyper(),
		BatchSize: func(step int) int { return len(m.task.order(step)) }}
	run := m.task.saved(m.runID)
	d.Manifest = func(s *fsdp.Saved) (string, error) { return checkpoint.ManifestHash(run, s) }
	if m.task.resume != nil {
		d.Start = &m.task.resume.Position
	}
	return func(prev []byte, readies [][]byte) swarm.Decision {
		kind, payload, err := d.Decide(prev, readies)
		switch {
		case err != nil:
			return swarm.Decision{Kind: swarm.EntryStop, Payload: []byte(err.Error())}
		case kind == fsdp.EntryCommit:
			return swarm.Decision{Kind: swarm.EntryCommit, Payload: payload}
		case kind == fsdp.EntryRetry:
			return swarm.Decision{Kind: swarm.EntryRetry, Payload: payload}
		}
		return swarm.Decision{Kind: swarm.EntryDone, Payload: payload}
	}
}

// engine makes this member's training engine for the view.
func (m *member) engine() (*fsdp.Engine, error) {
	cfg := m.task.training(m.weights())
	if err := m.enough(&cfg, m.view.Rank); err != nil {
		return nil, err
	}
	cfg.Device, cfg.Comm, cfg.Fence = m.device, &comm{m.node, m.view.Rank, len(cfg.Weights)}, m.view.Fence
	cfg.ActivationBudget = m.cfg.Memory / 4
	for _, p := range m.view.Members {
		cfg.Exporting = cfg.Exporting || p.Offer.Out
	}
	if m.out != nil {
		cfg.Export = m.out.add
	}
	cfg.Progress, cfg.Trace, cfg.Stats = m.progress(), m.cfg.Trace, m.stats
	if err := m.saving(&cfg); err != nil {
		return nil, err
	}
	return fsdp.NewEngine(cfg)
}

// enough says whether the memory that this peer offers holds its part of the model.
func (m *member) enough(cfg *fsdp.Config, rank int) error {
	if _, need := fsdp.Need(cfg, rank); need > m.cfg.Memory {
		return fmt.Errorf("memory: this peer's part of the model needs about %s and activations, and it offers %s: offer more memory, or start the run with more peers",
			report.Bytes(need), report.Bytes(m.cfg.Memory))
	}
	return nil
}

// weights are the members' shares of parameters and work, by rank.
func (m *member) weights() []int64 {
	var weights []int64
	for _, p := range m.view.Members {
		weights = append(weights, min(max(1, p.Offer.Weight), fsdp.MaxWeight))
	}
	return weights
}

// progress turns outcomes into the caller's Progress. When the last step is done, what follows it has begun.
func (m *member) progress() func(*fsdp.Outcome) {
	p := Progress{Phase: Training, Steps: m.task.run.Train.Steps, Peers: len(m.view.Members)}
	start := time.Now()
	tell := func(phase Phase) {
		if m.cfg.Progress != nil {
			p.Phase, p.Elapsed = phase, time.Since(start)
			m.cfg.Progress(p)
		}
	}
	if m.out != nil {
		m.out.began = func() { tell(Saving) }
	}
	return func(o *fsdp.Outcome) {
		if o.Kind != fsdp.EntryCommit {
			return
		}
		if o.Skipped {
			m.cfg.Log.Warn("step without an update: its gradient is not finite", "step", o.Step+1, "in a row", o.Bad)
		}
		p.Step, p.Loss = o.Step+1, o.Loss
		p.Samples += o.Samples
		m.fetchAhead(p.Step)
		tell(Training)
		if p.Step == p.Steps && m.task.eval != nil {
			tell(Evaluating)
		}
	}
}

// begins is the step with which this run begins or goes on.
func (m *member) begins() int {
	if m.task.resume == nil {
		return 0
	}
	return m.task.resume.Position.Step
}

// stats is this member's row of the report, as everybody gets it.
func (m *member) stats(res *fsdp.Result) []byte {
	meter, wire := m.device.Meter(), m.node.Stats()
	chunksSent, chunksReceived := m.chunkBytes()
	b, err := json.Marshal(report.Peer{
		Rank: m.view.Rank, PeerID: m.host.Self(), Kind: "daemon", Backend: m.device.Name(),
		ParametersOwned: int64(res.Owned), ParameterBytes: res.ParameterBytes, GradientBytes: res.GradientBytes,
		OptimizerBytes: res.OptimizerBytes, BackupBytes: meter.Live(kernel.Backups),
		GatheredPeakBytes: meter.Peak(kernel.Gathered), GradientPeakBytes: meter.Peak(kernel.GradientWork) + res.GradientBytes,
		ActivationPeakBytes: meter.Peak(kernel.Activations), RSSPeakBytes: sysinfo.PeakRSS(),
		BytesSent: wire.BytesSent + wire.ControlSent + chunksSent, BytesReceived: wire.BytesReceived + wire.ControlReceived + chunksReceived,
		PayloadRawBytes: wire.PayloadRaw, PayloadWireBytes: wire.PayloadWire,
		Samples: res.Samples, Retries: res.Retries,
	})
	if err != nil {
		return nil
	}
	return b
}

// report is the run's report, from what every member has.
func (m *member) report(res *fsdp.Result) (*Report, error) {
	r := &Report{
		Version: report.Version, Name: m.task.run.Name, RunID: m.runID, Strategy: m.task.run.Mesh.Strategy,
		Reduce: m.task.run.Precision.Reduce, Steps: len(res.Losses), Loss: report.Losses(res.Losses), StateHash: res.StateHash, StepHashes: map[string]string{},
		KernelFingerprint: m.fingerprint, WallSeconds: res.Wall.Seconds(), ResumedStep: m.begins(),
	}
	if r.LossUnit = report.PerLabel; m.task.run.Model.Type == "gpt" {
		r.LossUnit = report.PerToken
	}
	for i := range m.view.Members {
		var row report.Peer
		if i >= len(res.MemberRows) || json.Unmarshal(res.MemberRows[i], &row) != nil || row.Rank != i {
			return nil, fmt.Errorf("the log has no row of rank %d for the report (another version of shoal?)", i)
		}
		r.Peers = append(r.Peers, row)
		r.ModelParameters += row.ParametersOwned
	}
	var samples int64
	for _, p := range r.Peers {
		samples += p.Samples
	}
	if res.Wall > 0 {
		r.SamplesPerSecond = float64(samples) / res.Wall.Seconds()
	}
	for step, h := range res.StepHashes {
		r.StepHashes[fmt.Sprint(step)] = h
	}
	if res.EvalCount > 0 {
		r.Eval = &report.Eval{Accuracy: float64(res.Correct) / float64(res.EvalCount), Loss: report.Number(res.EvalLoss)}
	}
	view := report.View{Number: m.view.Number, Reason: m.view.Reason, Step: m.begins()}
	for _, p := range m.view.Members {
		view.Members = append(view.Members, p.Peer)
	}
	r.Views = []report.View{view}
	return r, nil
}

// cause prefers what the log says about the end of the run to what a stream said when it broke.
func (m *member) cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if stopped := m.node.Err(); stopped != nil {
		err = stopped
	}
	return m.aboutSelf(err)
}

// aboutSelf says so if it was this peer that the others lost: that is what its user wants to know, not whom it missed.
func (m *member) aboutSelf(err error) error {
	var stopped *swarm.StoppedError
	if !errors.As(err, &stopped) {
		return err
	}
	self := m.host.Self()
	silent, limit := m.node.Silence()
	lost := strings.HasSuffix(stopped.Reason, " was lost") && strings.Contains(stopped.Reason, swarm.Short(self))
	if !lost && silent <= limit {
		return err
	}
	return &swarm.StoppedError{Peer: self, Rank: m.view.Rank, Local: true,
		Reason: fmt.Sprintf("this peer was silent for %.0f s, so the others went on without it", max(silent, limit).Seconds())}
}

// close ends this member's part: it tells the others why, unless the run is over for all.
func (m *member) close(err error) {
	if m.node != nil {
		if err != nil {
			m.node.Leave(err.Error())
		}
		m.node.Close()
	}
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
}

// comm makes a Node the engine's Comm: the packages don't know each other's types.
type comm struct {
	node       *swarm.Node
	rank, size int
}

var _ fsdp.Comm = (*comm)(nil)

func (c *comm) Rank() int { return c.rank }
func (c *comm) Size() int { return c.size }

func (c *comm) Begin(fence uint64, sink fsdp.Sink) error { return c.node.Begin(fence, sink) }

func (c *comm) AllGather(ctx context.Context, tag uint32, width int, mine []byte, parts [][]byte) (wait, given func() error) {
	return c.node.AllGather(ctx, tag, width, mine, parts)
}

func (c *comm) ReduceScatter(ctx context.Context, unit int, parts [][]byte, microbatches int) func() error {
	return c.node.ReduceScatter(ctx, unit, parts, microbatches)
}

func (c *comm) Ready(payload []byte) error { return c.node.Ready(payload) }

func (c *comm) Next(ctx context.Context) (fsdp.Entry, error) {
	e, err := c.node.Next(ctx)
	if err != nil {
		return fsdp.Entry{}, err
	}
	kind := map[swarm.EntryKind]fsdp.EntryKind{swarm.EntryCommit: fsdp.EntryCommit, swarm.EntryRetry: fsdp.EntryRetry,
		swarm.EntryDone: fsdp.EntryDone}[e.Kind]
	return fsdp.Entry{Fence: e.Fence, Kind: kind, Payload: e.Payload}, nil
}
