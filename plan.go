package shoal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"shoal/fsdp"
	"shoal/internal/report"
)

// PlanConfig is what MakePlan is to plan. The zero value of each field is its default.
type PlanConfig struct {
	RunFile *RunFile
	Files   string // as in Config

	// Peers is how many peers take part, all alike: each one has this machine's kind of cores. 0 means 1.
	Peers int
	// Here is how many of them share this machine, as in a testnet: as many are measured at once. 0 means 1.
	Here int
	// Memory, Cores and Kernel are those of each peer, as in Config. Memory that is 0 is the machine's, shared by those here;
	// there can't be more cores than the machine has.
	Memory int64
	Cores  int
	Kernel string

	// Link is how many bits per second a peer can send, and as many receive at the same time. 0 means that the network is
	// left out.
	Link float64
	// Latency is the time that a message is on its way.
	Latency time.Duration

	about time.Duration // how long steps are measured
}

// Plan is what a run will need and how fast it will be, told before anybody joins. docs/plan.md explains its JSON.
type Plan struct {
	Version         int    `json:"version"`
	Run             string `json:"run"` // hash of the run file
	Name            string `json:"name"`
	Model           string `json:"model"` // in words
	ModelParameters int64  `json:"model_parameters"`
	Strategy        string `json:"strategy"`
	Backups         int    `json:"backups"` // copies of each shard beside its owner's
	Packing         string `json:"packing"` // wire.packing of the run file
	Peers           int    `json:"peers"`
	Here            int    `json:"here"` // of them on this machine
	Microbatches    int    `json:"microbatches"`
	Share           int    `json:"peer_microbatches"` // the most that a peer computes in a step

	// Bytes of tensors, the most of any peer.
	RestBytes  int64 `json:"rest_bytes"`  // between two steps
	PeakBytes  int64 `json:"peak_bytes"`  // the kinds' peaks in a step, together
	NeedBytes  int64 `json:"need_bytes"`  // without which a peer doesn't begin
	LimitBytes int64 `json:"limit_bytes"` // that it offers
	Fits       bool  `json:"fits"`

	// Bytes that a peer receives before packing, and as many that it sends: the mean of all.
	StepTraffic int64   `json:"step_traffic_bytes"`
	RunTraffic  int64   `json:"run_traffic_bytes"` // with the first step's retry and the evaluation
	Packed      float64 `json:"packed_share"`      // what packing leaves of them; 1: they are not packed

	Backend          string   `json:"backend"`
	Cores            int      `json:"cores"`
	ComputeSeconds   float64  `json:"compute_seconds"` // of a step, without waiting for the network
	LinkBits         float64  `json:"link_bits"`       // per second; 0: the network is left out
	LatencySeconds   float64  `json:"latency_seconds"`
	NetworkSeconds   *float64 `json:"network_seconds"`    // that a step's bytes take on the link; nil: the network is left out
	StepSeconds      float64  `json:"step_seconds"`       // of a step, all in all
	SamplesPerSecond float64  `json:"samples_per_second"` // of all peers
}

// maxStepSeconds is more than any step is planned to take.
const maxStepSeconds = 1e12

// planVersion is Plan.Version. It grows when a field changes its meaning or goes away.
const planVersion = 1

// MakePlan works out what a run needs by the formulas that tests hold runs to, and measures on this machine how long a
// peer's step takes. That needs a few seconds, and the memory of as many peers as are here. A *ConfigError says what is
// wrong with cfg.
func MakePlan(ctx context.Context, cfg PlanConfig) (*Plan, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	t, err := newTask(ctx, *cfg.RunFile, Config{Files: cfg.Files})
	if err != nil {
		return nil, configError(ctx, err)
	}
	defer t.close()
	views := t.equals(cfg.Peers)
	f := t.forecast(views)
	if has := allMemory(); f.need*int64(cfg.Here) > has {
		return nil, &ConfigError{"peers", fmt.Errorf("a peer's part of the model needs about %s, and this machine has %s for %s: plan more peers, or on another machine",
			report.Bytes(f.need), report.Bytes(has), count(cfg.Here, "peer"))}
	}
	r, err := t.rehearse(ctx, &cfg, views)
	if err != nil {
		return nil, err
	}
	p := t.plan(&cfg, f)
	p.Backend, p.Share, p.Packed = r.backend, r.share, r.packed
	p.PeakBytes = f.rest + r.peak
	p.Fits = max(p.NeedBytes, p.PeakBytes) <= cfg.Memory
	p.ComputeSeconds = r.step
	p.StepSeconds = r.step
	if cfg.Link > 0 {
		n := t.travel(&cfg, views, f, r.packed)
		p.NetworkSeconds, p.StepSeconds = &n.bytes, n.step(r)
	}
	p.SamplesPerSecond = float64(len(t.order(0))) / p.StepSeconds
	return p, nil
}

// fill checks c and puts in what is left out.
func (c *PlanConfig) fill() error {
	if c.RunFile == nil {
		return &ConfigError{Err: errors.New("PlanConfig.RunFile is needed")}
	}
	if err := (&Config{Peers: c.Peers, Memory: c.Memory, Cores: c.Cores, Kernel: c.Kernel}).Check(); err != nil {
		return err
	}
	c.Peers, c.Here = cmp.Or(c.Peers, 1), cmp.Or(c.Here, 1)
	if err := within(c.Here, 1, c.Peers); err != nil {
		return &ConfigError{"here", err}
	}
	c.about = cmp.Or(c.about, 3*time.Second)
	c.Memory, c.Cores = cmp.Or(c.Memory, allMemory()/int64(c.Here)), cmp.Or(c.Cores, allCores())
	switch {
	case c.Cores > allCores():
		return &ConfigError{"cores", fmt.Errorf("%d are more than this machine has, use 1 to %d, or plan on a machine like the peers'", c.Cores, allCores())}
	case c.Link < 0 || math.IsNaN(c.Link) || math.IsInf(c.Link, 0):
		return &ConfigError{"link", fmt.Errorf("%v bits per second are not allowed here", c.Link)}
	case c.Latency < 0:
		return &ConfigError{"latency", fmt.Errorf("%v is not allowed here, use a time such as 20ms", c.Latency)}
	case c.Latency > 0 && c.Link == 0:
		return &ConfigError{"latency", errors.New("say how fast the network is, too, as in --link 100Mbit")}
	}
	return nil
}

// plan is what is known without measuring.
func (t *task) plan(cfg *PlanConfig, f forecast) *Plan {
	p := &Plan{Version: planVersion, Run: runHash(&t.run), Name: t.run.Name, Model: modelInWords(t.run), Strategy: t.run.Mesh.Strategy,
		Packing: t.run.Wire.Packing, Peers: cfg.Peers, Here: cfg.Here, Backups: t.copies(cfg.Peers), ModelParameters: int64(fsdp.NewLayout(t.model, t.frozen).Parameters()),
		RestBytes: f.rest, NeedBytes: f.need, LimitBytes: cfg.Memory, StepTraffic: int64(math.Round(f.received)), RunTraffic: int64(math.Round(f.run)),
		Cores: cfg.Cores, LinkBits: cfg.Link, LatencySeconds: cfg.Latency.Seconds()}
	p.Microbatches = t.microbatches()
	return p
}

// microbatches is how many a step has, before its epoch's end.
func (t *task) microbatches() int {
	size := t.run.Train.Microbatch
	return (len(t.order(0)) + size - 1) / size
}

// runHash names what a plan is about.
func runHash(r *RunFile) string {
	h := sha256.Sum256(r.Canonical())
	return hex.EncodeToString(h[:])
}

// Check says why p is no plan of this run with so many peers, if it isn't.
func (p *Plan) Check(r *RunFile, peers int) error {
	switch {
	case p.Version != planVersion:
		return fmt.Errorf("it has version %d, this program reads version %d", p.Version, planVersion)
	case p.Run != runHash(r):
		return errors.New("it is about another run file: plan this one")
	case p.Peers != peers:
		return fmt.Errorf("it is about %s, and this run begins with %d", count(p.Peers, "peer"), peers)
	case p.StepSeconds <= 0 || p.StepSeconds > maxStepSeconds || p.RestBytes <= 0 || p.RunTraffic < 0:
		return errors.New("it is damaged: make another with shoal plan --json")
	}
	return nil
}

// count is n things in words.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
