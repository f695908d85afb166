package shoal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"shoal/fsdp"
	"shoal/internal/report"
	"shoal/internal/version"
	"shoal/peer"
	"shoal/swarm"
	log "shoal/swarm/member"
)

const (
	leaveWait  = 3500 * time.Millisecond // for the others to take over what a peer that is leaving holds
	enterTries = 3                       // to join again
)

// entry is how a membership begins.
type entry struct {
	Run      []byte // creator: the run's description
	Contacts []swarm.Contact
}

// open connects to the network and, where this peer joins a run, learns what it trains. It is not a member then.
func (m *member) open(ctx context.Context) (start entry, err error) {
	m.host, err = peer.New(ctx, peer.Config{Identity: m.cfg.Identity, Listen: m.cfg.Listen, Announce: m.cfg.Announce,
		Version: version.Version, Log: m.cfg.Log})
	if err != nil {
		return start, err
	}
	m.host.RelayFor(m.knows)
	if m.cfg.OnSelf != nil {
		m.cfg.OnSelf(m.host.Self())
	}
	if !m.cfg.joins() {
		m.link = peer.Link{Peer: m.host.Self(), Addrs: m.host.Addrs(), Run: m.runID, Secret: peer.NewSecret()}
		start.Run, err = m.task.describe(m.task.resume)
		return start, err
	}
	if m.link, err = m.find(ctx); err != nil {
		return start, err
	}
	contact := swarm.Contact{Peer: m.link.Peer, Addrs: m.link.Addrs}
	start.Contacts = []swarm.Contact{contact}
	b, err := swarm.Describe(ctx, m.transport(), contact, m.link.Run, m.link.Secret)
	if errors.Is(err, peer.ErrUnreachable) {
		return start, fmt.Errorf("%w: is the run over, or a firewall in between? Any other peer of the run will do: its link, or shoal join %s --via HOST:PORT", err, m.link.Invitation())
	}
	if err != nil {
		return start, err
	}
	if m.task, err = parseDescription(ctx, b, m.cfg, m.fetcher(m.link)); err != nil {
		return start, err
	}
	m.runID = m.link.Run
	if m.cfg.Out != "" {
		if err := checkOut(m.cfg.Out, m.task.model); err != nil {
			return start, err
		}
	}
	return start, m.joinCheckpoints()
}

// knows says whether a peer is a member of the run, as far as this one knows.
func (m *member) knows(peer string) bool {
	node := m.chunks.known.Load()
	return node != nil && slices.ContainsFunc(node.Members(), func(p swarm.Member) bool { return p.Peer == peer })
}

// session is one membership: from being admitted to the run's end, or to where this peer is not in it any more.
func (m *member) session(ctx context.Context, start entry) (rep *Report, err error) {
	if err := m.enter(ctx, start); err != nil {
		return nil, err
	}
	defer m.node.Close()
	first, err := m.node.View(ctx)
	if err != nil {
		return nil, err
	}
	if m.cfg.Out != "" {
		if m.out, err = newOutput(m.cfg.Out, m.task.model); err != nil {
			return nil, err
		}
		defer m.out.abort()
	}
	defer m.fetchWhile(m.node.Context())()
	res, err := m.trainFrom(ctx, first)
	for errors.Is(err, fsdp.ErrRestored) {
		if first, err = m.goBack(ctx); err == nil {
			res, err = m.trainFrom(ctx, first)
		}
	}
	if err != nil {
		return nil, m.cause(ctx, err)
	}
	if rep, err = m.report(res); err != nil || m.out == nil {
		return rep, err
	}
	return rep, m.out.finish(m.task.run, m.task.identity(), m.runID, res.StateHash)
}

// trainFrom trains from a view's beginning to the run's end, or to where the run goes back to a checkpoint.
func (m *member) trainFrom(ctx context.Context, first swarm.Entry) (*fsdp.Result, error) {
	if err := m.follow(first); err != nil {
		return nil, err
	}
	m.entered(first.View, first.Payload)
	m.fetchAhead(m.begins())
	engine, err := m.engine(ctx, first)
	if err != nil {
		return nil, err
	}
	return m.train(ctx, engine)
}

// goBack prepares for going on after the engine was told that the run goes back to a checkpoint, and returns the entry to go on
// with: a peer that can't read the checkpoint waits until the others let it in again.
func (m *member) goBack(ctx context.Context) (first swarm.Entry, err error) {
	used := m.device
	if err := m.openDevice(); err != nil {
		return first, err
	}
	used.Close()
	if first = *m.comm.back; first.View != nil && first.View.Rank >= 0 {
		return first, nil
	}
	m.history.undo()
	if v := first.View; v != nil {
		m.notice("%s: this peer doesn't have all of it, and comes in again when the others have read it", v.Reason)
	}
	return m.node.View(ctx)
}

// train runs the engine. A user who wants to stop it waits, for a moment, until others have what is held here.
func (m *member) train(ctx context.Context, engine *fsdp.Engine) (*fsdp.Result, error) {
	training, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(m.node.Context(), func() { cancel(context.Cause(m.node.Context())) })()
	leaving, failed := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(leaving)
		m.leave(context.Cause(ctx), failed)
		cancel(context.Cause(ctx))
	})
	res, err := engine.Run(training)
	if err != nil && !errors.Is(err, fsdp.ErrLeft) {
		close(failed)
	}
	if !stop() {
		<-leaving
	}
	return res, err
}

// leave hands over what this peer holds, and returns once it is out of the run, has waited long enough, or has failed.
func (m *member) leave(why error, failed <-chan struct{}) {
	others := len(m.view.Load().Members) > 1
	if others {
		m.notice("leaving: the others take over what is held here ...")
	}
	start := time.Now()
	m.node.Leave(why.Error())
	timer := time.NewTimer(leaveWait)
	defer timer.Stop()
	select {
	case <-m.node.Left():
		switch {
		case m.node.Deserted() && others:
			m.notice("left the run, and so have all others: it is over")
		case others:
			m.notice("left the run after %.1f s, which goes on", time.Since(start).Seconds())
		}
	case <-m.node.Context().Done():
	case <-failed:
	case <-timer.C:
		m.notice("left the run before all was handed over: the others go on from what they hold")
	}
}

// enter starts the run, or has the others admit this peer.
func (m *member) enter(ctx context.Context, start entry) (err error) {
	cfg := m.swarmConfig()
	if cfg.Run = start.Run; cfg.Run != nil {
		if m.task.resume != nil {
			cfg.Saved = &swarm.Saved{Name: m.task.resume.Manifest, Step: m.task.resume.Position.Step, Run: start.Run}
		}
		m.node, err = swarm.Start(ctx, cfg)
	} else {
		m.node, err = m.enterBy(ctx, cfg, start.Contacts)
	}
	if err != nil {
		return err
	}
	again := m.chunks.known.Swap(m.node) != nil
	if again {
		m.live.belongs(m)
		m.live.entered(m.node)
		return nil
	}
	m.giveChunks(m.link)
	m.tellLive()
	if f := m.task.fetched; f != nil {
		f.Persist(m.lacks)
	}
	if err := m.beFound(ctx, m.link); err != nil {
		return err
	}
	own := m.link
	own.Peer, own.Addrs = m.host.Self(), m.host.Addrs()
	if m.cfg.OnLink != nil && !m.cfg.joins() {
		m.cfg.OnLink(own.String())
	}
	if m.cfg.OnOwnLink != nil {
		m.cfg.OnOwnLink(own.String())
	}
	return nil
}

// enterBy asks the first of the known members that answers to let this peer in. Some are stopped, or in no run either.
func (m *member) enterBy(ctx context.Context, cfg swarm.Config, contacts []swarm.Contact) (node *swarm.Node, err error) {
	for range enterTries {
		if cfg.Contact, err = firstToAnswer(ctx, cfg, contacts); err == nil {
			node, err = swarm.Start(ctx, cfg)
		}
		var refused *swarm.RefusedError
		if err == nil || ctx.Err() != nil || errors.As(err, &refused) || len(contacts) == 1 {
			return node, err
		}
	}
	return nil, fmt.Errorf("join the run again: %w", err)
}

// firstToAnswer asks all contacts at once about the run.
func firstToAnswer(ctx context.Context, cfg swarm.Config, contacts []swarm.Contact) (*swarm.Contact, error) {
	if len(contacts) == 1 {
		return &contacts[0], nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	type answer struct {
		from *swarm.Contact
		err  error
	}
	answers := make(chan answer, len(contacts))
	for i := range contacts {
		asking.Go(func() {
			_, err := swarm.Describe(ctx, cfg.Transport, contacts[i], cfg.RunID, cfg.Secret)
			answers <- answer{&contacts[i], err}
		})
	}
	err := errors.New("none was known")
	for range contacts {
		a := <-answers
		if a.err == nil {
			return a.from, nil
		}
		err = a.err
	}
	return nil, fmt.Errorf("none of the other members answers, perhaps the run has ended: %w", err)
}

// contacts are the other members that were there last.
func (m *member) contacts() (list []swarm.Contact) {
	for _, p := range m.node.Members() {
		if p.Peer != m.host.Self() {
			list = append(list, swarm.Contact{Peer: p.Peer, Addrs: p.Addrs})
		}
	}
	return list
}

func (m *member) swarmConfig() swarm.Config {
	mesh := m.task.run.Mesh
	cfg := swarm.Config{
		Transport: m.transport(), Log: m.cfg.Log, RunID: m.link.Run, Secret: m.link.Secret,
		Peers: m.cfg.Peers, OnWait: m.waits, OnStuck: m.stuck, Exact: true, Decide: m.decide(),
		Packing: m.task.run.Wire.Packing, Timing: timing(mesh.Timing), Backups: m.task.backups(), Ranges: m.task.ranges(), History: m.history.encode,
		Offer: swarm.Offer{Kind: kind, Weight: m.cfg.Memory >> 20, Cores: m.cores(), Backend: m.device.Name(),
			Fingerprint: m.fingerprint, ModelHash: m.task.fingerprint, Version: version.Version, Out: m.cfg.Out != "", Late: m.missing != nil, Data: m.hasFiles()},
	}
	cfg.LastResort = "start it again, it keeps no checkpoints (checkpoint.every)"
	if m.task.run.Checkpoint.Every > 0 {
		cfg.LastResort = "go on from the last checkpoint with shoal up --resume"
	}
	cfg.Timing.LostAfter = int(time.Duration(mesh.LostAfter) * time.Second / swarm.Tick)
	if warning := m.task.hyper().Reduce.Warning(); warning != "" {
		m.cfg.Log.Warn(warning)
		m.notice("%s", warning)
	}
	return cfg
}

// waits tells how many peers are there, until the run has begun.
func (m *member) waits(have, want int) {
	if m.cfg.OnWait != nil && m.view.Load() == nil {
		m.cfg.OnWait(have, want)
	}
}

// timing is what mesh.timing names.
func timing(name string) log.Timing {
	if name == "wan" {
		return log.WAN()
	}
	return log.LAN()
}

// stuck tells the user that the run waits for somebody, and that it goes on.
func (m *member) stuck(reason string) {
	if reason == "" {
		m.notice("the run goes on")
		return
	}
	m.notice("%s", reason)
}

// entered takes note of a view that begins. payload is that of the last outcome, nil before the first.
func (m *member) entered(v *swarm.View, payload []byte) {
	m.forgetLost(v)
	m.view.Store(v)
	if v.Number > 1 && v.Rank >= 0 {
		m.notice("%s: %s", v.Reason, peersInWords(len(v.Members)))
	}
	step := m.begins()
	if o, err := fsdp.DecodeOutcome(payload); payload != nil && err == nil {
		if step = o.Step; o.Kind == fsdp.EntryCommit {
			step++
		}
	}
	m.history.viewed(v, step)
}

// forgetLost has the network forget those who are not in the view that begins.
func (m *member) forgetLost(v *swarm.View) {
	before := m.view.Load()
	if before == nil {
		return
	}
	for _, p := range before.Members {
		if !slices.ContainsFunc(v.Members, func(q swarm.Member) bool { return q.Peer == p.Peer }) {
			m.host.Forget(p.Peer)
		}
	}
}

func peersInWords(n int) string {
	if n == 1 {
		return "this peer is alone now"
	}
	return fmt.Sprintf("%d peers now", n)
}

// engine makes this member's training engine for its first view.
func (m *member) engine(ctx context.Context, first swarm.Entry) (*fsdp.Engine, error) {
	cfg := m.task.training()
	cfg.Device, cfg.Start = m.device, engineEntry(first)
	m.comm = &comm{node: m.node, enter: m.entered, begun: m.task.attempted, restored: first.Restored}
	cfg.Comm = m.comm
	cfg.ActivationBudget = m.cfg.Memory / 4
	if m.out != nil {
		cfg.Export = m.out.add
	}
	cfg.Backups = m.task.backups()
	cfg.Trace, cfg.Stats, cfg.At = m.cfg.Trace, m.stats, m.cfg.At
	if err := m.saving(&cfg, first.Payload != nil); err != nil {
		return nil, err
	}
	if err := m.recall(ctx, &cfg, first); err != nil {
		return nil, err
	}
	if err := m.enough(&cfg); err != nil {
		return nil, err
	}
	cfg.Progress = m.progress()
	cfg.Computed = m.live.computed
	return fsdp.NewEngine(cfg)
}

// recall gets what happened in the run before this member's first step.
func (m *member) recall(ctx context.Context, cfg *fsdp.Config, first swarm.Entry) error {
	if first.Payload != nil {
		last, err := fsdp.DecodeOutcome(first.Payload)
		if err != nil {
			return err
		}
		step := last.Step
		if last.Kind == fsdp.EntryCommit {
			step++
		}
		if err := m.fetchHistory(ctx, known{step, first.View.Number}, last); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			m.cfg.Log.Warn("the report will lack what happened before this peer joined", "err", err)
			m.history.unknown(step)
		}
		m.history.viewed(first.View, step)
	} else if r := cfg.Resume; r != nil {
		m.history.set(past{Losses: r.Losses, StepHashes: r.StepHashes, Views: m.history.copy().Views})
	}
	p := m.history.copy()
	cfg.Losses, cfg.StepHashes = p.Losses, p.StepHashes
	return nil
}

// enough says whether the memory that this peer offers holds its part of the model.
func (m *member) enough(cfg *fsdp.Config) error {
	if _, need := fsdp.Need(cfg); need > m.cfg.Memory {
		return fmt.Errorf("memory: this peer's part of the model needs about %s and activations, and it offers %s: offer more memory, or start the run with more peers",
			report.Bytes(need), report.Bytes(m.cfg.Memory))
	}
	return nil
}
