package shoal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"shoal/internal/runfile"
)

// near says whether got is want within a share of it.
func near(got, want, within float64) bool { return math.Abs(got-want) <= within*want }

// TestPlanOfBytes holds what is told before a run, of memory and bytes, to what its peers had. A busy machine makes peers
// seem unequal: with more than two of them sums are those for which work follows no speed.
func TestPlanOfBytes(t *testing.T) {
	for _, c := range []struct {
		strategy string
		peers    int
		packing  string
		reduce   string
	}{
		{"fsdp", 1, "off", "fixed32"}, {"fsdp", 2, "off", "fixed32"}, {"fsdp", 3, "on", "fp32"}, {"fsdp", 4, "off", "fp32"},
		{"zero2", 2, "off", "fixed32"}, {"zero2", 4, "on", "fp32"}, {"zero1", 2, "off", "fixed32"}, {"zero1", 3, "off", "bf16"},
		{"ddp", 1, "off", "fixed32"}, {"ddp", 2, "on", "fixed16"}, {"ddp", 4, "off", "fp32"},
	} {
		t.Run(fmt.Sprintf("%s, %d peers, packing %s, %s", c.strategy, c.peers, c.packing, c.reduce), func(t *testing.T) {
			run := runfile.Default()
			run.Model.Depth, run.Train.Steps, run.Train.Microbatch, run.Train.Warmup, run.Data.Eval = 6, 4, 4, 1, 64
			run.Mesh.Strategy, run.Wire.Packing, run.Precision.Reduce = c.strategy, c.packing, c.reduce
			task, err := newTask(t.Context(), run, Config{})
			if err != nil {
				t.Fatal(err)
			}
			planned := task.forecast(task.equals(c.peers))
			r := together(t, peers(c.peers, func(i int, cfg *Config) {
				if i == 0 {
					cfg.RunFile = &run
				}
			})...)[0]
			rest, received := r.Measured()
			if !near(rest, float64(planned.rest), 0.05) {
				t.Errorf("a peer held %.0f bytes at rest, planned are %d", rest, planned.rest)
			}
			if want := planned.run / float64(r.Steps); !near(received, want, 0.05) {
				t.Errorf("a peer received %.0f bytes a step before packing, planned are %.0f: %+.1f%%", received, want, 100*(received/want-1))
			}
			if r.Plan == nil || r.Plan.Step != nil || int64(r.Plan.Rest.Planned) != planned.rest || !near(r.Plan.Received.Planned, planned.run/float64(r.Steps), 0.001) {
				t.Errorf("the report compares with %+v, planned are %+v", r.Plan, planned)
			}
		})
	}
}

// smallPlan is a plan of the small run that takes a moment.
func smallPlan(change func(*PlanConfig)) PlanConfig {
	c := PlanConfig{RunFile: small(), Peers: 2, Cores: 1, Memory: 1 << 30, about: 50 * time.Millisecond}
	if change != nil {
		change(&c)
	}
	return c
}

func TestMakePlan(t *testing.T) {
	even := small()
	even.Precision.Reduce = "fp32" // so that work follows no speed
	run := together(t, peers(2, func(i int, c *Config) {
		if i == 0 {
			c.RunFile = even
		}
	})...)[0]
	p, err := MakePlan(t.Context(), smallPlan(func(c *PlanConfig) { c.RunFile, c.Here = even, 2 }))
	if err != nil {
		t.Fatal(err)
	}
	if p.ModelParameters != run.ModelParameters || p.Microbatches != 4 || p.Share != 2 || p.Backups != 1 || p.Backend != run.Peers[0].Backend {
		t.Errorf("planned %+v", p)
	}
	if p.NetworkSeconds != nil || p.StepSeconds != p.ComputeSeconds || !near(p.SamplesPerSecond*p.StepSeconds, 16, 1e-9) || p.StepSeconds <= 0 {
		t.Errorf("times without a network: %+v", p)
	}
	for _, r := range run.Peers {
		rest := float64(r.ParameterBytes + r.GradientBytes + r.OptimizerBytes + r.BackupBytes)
		most := rest + float64(r.GatheredPeakBytes+r.GradientPeakBytes-r.GradientBytes+r.ActivationPeakBytes)
		if !near(rest, float64(p.RestBytes), 0.05) || float64(p.PeakBytes) < 0.7*most || float64(p.PeakBytes) > 1.5*most {
			t.Errorf("rank %d held %.0f bytes at rest and %.0f at most, planned are %d and %d", r.Rank, rest, most, p.RestBytes, p.PeakBytes)
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	back := new(Plan)
	if err := json.Unmarshal(text, back); err != nil || *back != *p {
		t.Errorf("the plan comes back as %+v, %v", back, err)
	}
	for name, spoil := range map[string]func(*Plan){
		"no time":  func(p *Plan) { p.StepSeconds = 0 },
		"ages":     func(p *Plan) { p.StepSeconds = 1e300 },
		"nothing":  func(p *Plan) { p.RestBytes = 0 },
		"negative": func(p *Plan) { p.RunTraffic = -5 },
	} {
		if spoil(back); back.Check(even, 2) == nil {
			t.Errorf("a damaged plan was taken: %s", name)
		}
		*back = *p
	}
	other := *even
	other.Train.Batch++
	for why, err := range map[string]error{"run": p.Check(&other, 2), "peers": p.Check(even, 3), "version": new(Plan).Check(even, 2)} {
		if err == nil {
			t.Errorf("a plan of another %s was taken", why)
		}
	}
	if err := p.Check(even, 2); err != nil {
		t.Errorf("the run's own plan was refused: %v", err)
	}
}

// TestPlanOfSlowLink: where the link is what takes long, the bytes are the step.
func TestPlanOfSlowLink(t *testing.T) {
	p, err := MakePlan(t.Context(), smallPlan(func(c *PlanConfig) {
		c.RunFile.Mesh.Backups = 0 // or both would hold all
		c.Link, c.Latency = 1e5, 10*time.Millisecond
	}))
	if err != nil {
		t.Fatal(err)
	}
	bytes := float64(8*p.StepTraffic) / 1e5
	if !near(*p.NetworkSeconds, bytes, 1e-3) {
		t.Errorf("%d bytes at 100 kbit a second take %v s, want %v", p.StepTraffic, *p.NetworkSeconds, bytes)
	}
	// The first unit's way, and four messages at the end.
	if want := bytes + 0.05; !near(p.StepSeconds, want, 0.01) || p.StepSeconds < want {
		t.Errorf("a step takes %v s, want a little more than %v", p.StepSeconds, want)
	}
}

func TestStepTime(t *testing.T) {
	r := rehearsed{step: 1, update: 0.25}
	for _, c := range []struct {
		name string
		n    travel
		want float64
	}{
		{"no network", travel{}, 1},
		{"hidden behind computing", travel{bytes: 0.5, start: 0.0625, first: 0.0625, last: 0.0625}, 1.125},
		{"hides computing", travel{bytes: 2, start: 0.5, first: 0.5, last: 0.5}, 2.75},
		{"with the commit", travel{bytes: 2, end: 0.5}, 2.75},
	} {
		if got := c.n.step(r); got != c.want {
			t.Errorf("%s: %v s, want %v", c.name, got, c.want)
		}
	}
	for _, c := range []struct{ peers, want int }{{1, 0}, {2, 4}, {4, 6}} {
		if got := messages(c.peers); got != c.want {
			t.Errorf("%d peers: %d messages, want %d", c.peers, got, c.want)
		}
	}
}

// TestRehearsalFails: peers that rehearse together don't wait for one that can't.
func TestRehearsalFails(t *testing.T) {
	run := runfile.Default()
	task, err := newTask(t.Context(), run, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer task.close()
	cfg := PlanConfig{RunFile: &run, Peers: 2, Here: 2, Cores: 1, about: time.Millisecond}
	if err := cfg.fill(); err != nil {
		t.Fatal(err)
	}
	views := task.equals(2)
	views[1].Owner = views[1].Owner[1:]
	if _, err := task.rehearse(t.Context(), &cfg, views); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the rehearsal ends with %v", err)
	}
}

// TestPlanOfMany: there can be fewer microbatches than peers, and more peers than one connection has streams for two each.
func TestPlanOfMany(t *testing.T) {
	for _, c := range []struct{ peers, here, batch int }{{2, 1, 4}, {3, 2, 4}, {5, 5, 8}, {32, 1, 16}, {20, 20, 100}} {
		p, err := MakePlan(t.Context(), smallPlan(func(cfg *PlanConfig) {
			cfg.Peers, cfg.Here, cfg.RunFile.Train.Batch, cfg.Memory = c.peers, c.here, c.batch, 0
		}))
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		m := (c.batch + 3) / 4
		if want := (m + c.peers - 1) / c.peers; p.Microbatches != m || p.Share != want || p.LimitBytes != allMemory()/int64(c.here) {
			t.Errorf("%+v: planned %+v, want %d of %d microbatches and %d bytes", c, p, want, m, allMemory()/int64(c.here))
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	for field, change := range map[string]func(*PlanConfig){
		"peers":   func(c *PlanConfig) { c.Peers = 99 },
		"here":    func(c *PlanConfig) { c.Here = 3 },
		"here ":   func(c *PlanConfig) { c.Here = -1 },
		"cores":   func(c *PlanConfig) { c.Cores = -1 },
		"cores ":  func(c *PlanConfig) { c.Cores = allCores() + 1 },
		"memory":  func(c *PlanConfig) { c.Memory = -1 },
		"kernel":  func(c *PlanConfig) { c.Kernel = "abacus" },
		"link":    func(c *PlanConfig) { c.Link = -1 },
		"latency": func(c *PlanConfig) { c.Link, c.Latency = 1e6, -1 },
		"":        func(c *PlanConfig) { c.RunFile.Model.Type, c.RunFile.Data.Source = "custom", "custom" },
	} {
		_, err := MakePlan(t.Context(), smallPlan(change))
		var wrong *ConfigError
		if !errors.As(err, &wrong) || wrong.Field != strings.TrimSpace(field) {
			t.Errorf("%s: error %v", field, err)
		}
	}
	big := smallPlan(func(c *PlanConfig) { c.RunFile.Model.Dim, c.RunFile.Model.Depth = 8192, 1024 })
	var wrong *ConfigError
	if _, err := MakePlan(t.Context(), big); !errors.As(err, &wrong) || wrong.Field != "peers" {
		t.Errorf("a model larger than this machine: %v", err)
	}
}

// TestPlanFits: what a peer offers must be enough for all that it holds at one moment.
func TestPlanFits(t *testing.T) {
	for _, memory := range []int64{1 << 20, 1 << 30} {
		p, err := MakePlan(t.Context(), smallPlan(func(c *PlanConfig) { c.RunFile.Model.Dim, c.Memory = 64, memory }))
		if err != nil {
			t.Fatal(err)
		}
		if want := memory >= max(p.PeakBytes, p.NeedBytes); p.Fits != want || p.Fits != (memory > 1<<20) || p.LimitBytes != memory {
			t.Errorf("%d bytes offered, %d at most, %d needed: fits %v", memory, p.PeakBytes, p.NeedBytes, p.Fits)
		}
	}
}

// TestPlanOfPacking compares what packing is expected to leave with what it left.
func TestPlanOfPacking(t *testing.T) {
	run := small()
	run.Wire.Packing = "on"
	sent, packed := int64(0), int64(0)
	for _, p := range together(t, peers(2, func(i int, c *Config) {
		if i == 0 {
			c.RunFile = run
		}
	})...)[0].Peers {
		sent, packed = sent+p.PayloadRawBytes, packed+p.PayloadWireBytes
	}
	p, err := MakePlan(t.Context(), smallPlan(func(c *PlanConfig) { c.RunFile = run }))
	if err != nil {
		t.Fatal(err)
	}
	if want := float64(packed) / float64(sent); !near(p.Packed, want, 0.1) || p.Packed > 0.95 {
		t.Errorf("packed to %.3f, planned were %.3f", want, p.Packed)
	}
	// What is smaller than 64 KiB is never packed by itself. Larger parts are, on a slow link.
	for link, want := range map[float64]bool{0: false, 1e6: true, 1e13: false} {
		large := *small()
		large.Model.Dim, large.Mesh.Backups = 128, 0
		p, err := MakePlan(t.Context(), smallPlan(func(c *PlanConfig) { c.RunFile, c.Link = &large, link }))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Packed < 1; got != want {
			t.Errorf("at %g bits a second it is packed to %.3f", link, p.Packed)
		}
	}
}
