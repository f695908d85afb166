package testnet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"shoal"
	"shoal/internal/report"
	"shoal/internal/runfile"
)

const (
	// SoakPeers is how many peers a soak begins with. It has at least soakLeast that work, and at most soakMost processes.
	SoakPeers = 5
	soakLeast = 4
	soakMost  = 7

	// MaxSoak is the most faults of a soak.
	MaxSoak = 100_000

	soakSteps = 50  // from one fault to the next, at least: the time that it takes to restore redundancy, and some
	soakTail  = 500 // further steps, for faults that took longer
	soakLooks = 12  // measurements before a fault, of which the least count
	soakPace  = 40  // peers are slower by this, so that those steps are seconds

	wholeWithin  = 2 * time.Minute  // for redundancy to be restored
	reachWithin  = 10 * time.Second // for a victim to come to its point
	answerWithin = time.Minute      // for the others to go on
)

// Soak is a run with many faults, one after the other, each once the redundancy is restored: kills, stops and polite
// leaves, of which the seed chooses kind, victim and phase, and joins that replace who is gone.
type Soak struct {
	Faults int
	Seed   uint64
}

// tiny is a run of a model so small that its steps take milliseconds.
func tiny(steps int) *shoal.RunFile {
	r := runfile.Default()
	r.Model.Dim, r.Model.Depth, r.Model.Heads = 16, 3, 2
	r.Data.Samples, r.Data.Eval = 150, 0
	r.Train.Steps, r.Train.Batch, r.Train.Microbatch, r.Train.Warmup = steps, 32, 4, min(3, steps)
	r.Train.Seed = 1
	r.Wire.Packing = "off"
	return &r
}

// RunFile is what a soak trains: as long as it takes. Its microbatches are of one sample, so that the memory of a peer hardly
// depends on how many of them it gets.
func (s *Soak) RunFile() *shoal.RunFile {
	r := tiny(max(1, s.Faults)*soakSteps + soakTail)
	r.Train.Batch, r.Train.Microbatch = 8, 1
	return r
}

// Run is Run with the soak's faults. The report says whether the run ended as one without faults, and what grew.
func (s *Soak) Run(ctx context.Context, cfg Config) (*shoal.Report, error) {
	if s.Faults < 1 || s.Faults > MaxSoak {
		return nil, &shoal.ConfigError{Field: "soak", Err: fmt.Errorf("%d is not allowed here, use 1 to %d", s.Faults, MaxSoak)}
	}
	if cfg.Peers < soakLeast || cfg.Peers > soakMost {
		return nil, &shoal.ConfigError{Field: "peers", Err: fmt.Errorf("a soak has %d to %d", soakLeast, soakMost)}
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.pace = soakPace
	t := &soaking{Soak: *s, rng: rand.New(rand.NewPCG(s.Seed, 0))}
	r, err := launch(ctx, cfg, t.drive)
	if r == nil {
		return nil, err
	}
	alone := Config{RunFile: cfg.RunFile, Peers: 1, Cores: cfg.Cores, Kernel: cfg.Kernel, Program: cfg.Program, Verbose: cfg.Verbose}
	one, undisturbed := Run(ctx, alone)
	if one == nil {
		return nil, errors.Join(err, fmt.Errorf("the run without faults, to compare with: %w", undisturbed))
	}
	r.Soak = t.result(r, one.StateHash)
	if t.done < s.Faults {
		err = errors.Join(err, fmt.Errorf("testnet: only %d of %d faults happened before the run was over", t.done, s.Faults))
	}
	if !r.Soak.HashEqual {
		err = errors.Join(err, fmt.Errorf("testnet: the soak ended with state %s, a run without faults with %s", r.StateHash, one.StateHash))
	}
	return r, err
}

// soaking is a soak while it lasts.
type soaking struct {
	Soak
	rng     *rand.Rand
	done    int
	witness *peerState // lives through all of it, though it may be stopped: what leaks, leaks here

	rss, streams, goroutines series // the witness's, before faults at which there are as many peers as in the beginning
}

func (t *soaking) drive(ctx context.Context, n *network) error {
	if err := n.begin(ctx); err != nil {
		return err
	}
	t.witness = n.peers[1]
	for t.done < t.Faults {
		if err := n.restored(ctx, t.done*soakSteps+1); err != nil {
			return fmt.Errorf("after %d faults: %w", t.done, err)
		}
		if n.over() {
			return nil
		}
		if err := t.measure(ctx, n); err != nil {
			return err
		}
		if err := t.fault(ctx, n); err != nil {
			return fmt.Errorf("after %d faults: %w", t.done, err)
		}
	}
	return n.pump(ctx, func() bool { return false })
}

// measure notes what the witness uses, where that can be compared: between two steps, at which it is held meanwhile.
func (t *soaking) measure(ctx context.Context, n *network) error {
	if len(n.alive()) != n.cfg.Peers {
		return nil
	}
	held, err := n.hold(ctx, t.witness)
	if err != nil || !held {
		return err
	}
	defer t.witness.say("go")
	var least Standing // what is used for a moment only is no leak
	for i := range soakLooks {
		before := t.witness.seen
		t.witness.say("measure")
		if ok, err := n.pumpFor(ctx, reachWithin, func() bool { return t.witness.seen.After(before) }); !ok {
			return err
		}
		s := &t.witness.standing
		if i == 0 {
			least = *s
		}
		least.RSS, least.Streams, least.Goroutines = min(least.RSS, s.RSS), min(least.Streams, s.Streams), min(least.Goroutines, s.Goroutines)
	}
	x := float64(t.done)
	t.rss.add(x, float64(least.RSS))
	t.streams.add(x, float64(least.Streams))
	t.goroutines.add(x, float64(least.Goroutines))
	return nil
}

// fault has one happen, waits until the others have gone on, and replaces who is lost.
func (t *soaking) fault(ctx context.Context, n *network) error {
	_, err := n.strike(ctx, t.choose(n))
	if err != nil || n.over() {
		return err
	}
	t.done++
	want := n.cfg.Peers
	if t.rng.IntN(8) == 0 { // now and then there are others
		want = soakLeast + t.rng.IntN(soakMost-soakLeast)
	}
	for n.processes() < want {
		if err := n.joinNow(); err != nil {
			return err
		}
	}
	return nil
}

// choose is the next fault. The witness is only stopped: where it leads, others lead for once.
func (t *soaking) choose(n *network) Fault {
	alive := n.alive()
	f := Fault{Kind: Kill, Phase: Phases[t.rng.IntN(slices.Index(Phases, "fill"))], Step: n.step + 1 + t.rng.IntN(10)}
	switch k := t.rng.IntN(20); {
	case k < 7:
		f.Kind, f.For = Stop, time.Duration(200+t.rng.IntN(4000))*time.Millisecond
	case k < 10:
		f.Kind, f.Phase = Leave, ""
	}
	victim := alive[t.rng.IntN(len(alive))]
	if leader := slices.IndexFunc(alive, func(p *peerState) bool { return p.id == p.standing.Leader }); leader >= 0 && t.rng.IntN(4) == 0 {
		victim = alive[leader]
	}
	if victim == t.witness && f.Kind != Stop {
		f.Kind, f.For, f.Phase = Stop, 4*time.Second, "forward"
	}
	f.Peer = victim.peer
	return f
}

// result sums up. undisturbed is the hash of a run without faults.
func (t *soaking) result(r *shoal.Report, undisturbed string) *report.Soak {
	s := &report.Soak{Faults: t.done, HashEqual: r.StateHash == undisturbed, RSSSlope: report.Number(t.rss.slope()),
		StreamsSlope: report.Number(t.streams.slope()), GoroutinesSlope: report.Number(t.goroutines.slope())}
	for _, f := range r.Faults {
		if f.Kind != Join && f.NextCommitMS > s.SlowestCommitMS { // not a NaN, of a run that ended first
			s.SlowestCommitMS = f.NextCommitMS
		}
	}
	return s
}
