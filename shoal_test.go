package shoal

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/fsdp"
	"shoal/internal/place"
	"shoal/internal/report"
	"shoal/internal/runfile"
	"shoal/kernel"
	"shoal/kernel/cpu/gemm"
)

var update = flag.Bool("update", false, "write the golden hash anew")

// small is a run of seconds: dim 16, depth 3, 30 steps.
func small() *RunFile {
	r := runfile.Default()
	r.Model.Dim, r.Model.Depth, r.Model.Heads = 16, 3, 2
	r.Train.Steps, r.Train.Batch, r.Train.Microbatch, r.Train.Warmup = 30, 16, 4, 3
	r.Data.Samples, r.Data.Eval = 100, 50 // an epoch of 7 steps, the last one short
	return &r
}

// together runs cfgs in this process, over real streams on loopback: the first starts the run, the others join it.
func together(t testing.TB, cfgs ...Config) []*Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	reports, errs := runAll(ctx, cancel, cfgs)
	for i, err := range errs {
		if err != nil && !strings.Contains(err.Error(), "cancel") {
			t.Fatalf("peer %d: %v", i, err)
		}
	}
	return reports
}

// runAll runs cfgs until all have ended: the first starts the run, the others join it. An error of one cancels all.
func runAll(ctx context.Context, cancel func(), cfgs []Config) ([]*Report, []error) {
	reports := make([]*Report, len(cfgs))
	errs := make([]error, len(cfgs))
	link := make(chan string, 1)
	var wg sync.WaitGroup
	for i, cfg := range cfgs {
		cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
		wg.Go(func() {
			if i == 0 {
				cfg.Peers = len(cfgs)
				cfg.OnLink = func(l string) { link <- l }
			} else {
				select {
				case cfg.Link = <-link:
					link <- cfg.Link
				case <-ctx.Done():
				}
			}
			if reports[i], errs[i] = Run(ctx, cfg); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	return reports, errs
}

// peers are n configurations of the small run with equal memory.
func peers(n int, change func(i int, c *Config)) []Config {
	var list []Config
	for i := range n {
		c := Config{Memory: 1 << 30, Cores: 1}
		if i == 0 {
			c.RunFile = small()
		}
		if change != nil {
			change(i, &c)
		}
		list = append(list, c)
	}
	return list
}

func sameRun(t *testing.T, want, got *Report) {
	t.Helper()
	if got.StateHash != want.StateHash {
		t.Errorf("state hash %s, want %s", got.StateHash, want.StateHash)
	}
	if !slices.Equal(got.Loss, want.Loss) {
		t.Errorf("losses %v, want %v", got.Loss, want.Loss)
	}
	if *got.Eval != *want.Eval {
		t.Errorf("evaluation %+v, want %+v", got.Eval, want.Eval)
	}
}

// golden is the committed state hash of the small run.
func golden(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("testdata/small.hash")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// TestOneRunOneHash changes one factor at a time. The hash is also committed, so that other architectures, other
// instruction sets and the noasm build are held to it.
func TestOneRunOneHash(t *testing.T) {
	want := together(t, peers(1, nil)...)[0]
	if *update {
		if err := os.WriteFile("testdata/small.hash", []byte(want.StateHash+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := golden(t); got != want.StateHash {
		t.Errorf("the small run's state hash is %s, committed is %s: a change moved the numbers", want.StateHash, got)
	}
	if first, last := want.Loss[0], want.Loss[29]; !(last < first) {
		t.Errorf("loss went from %v to %v", first, last)
	}

	type test struct {
		name   string
		n      int
		change func(i int, c *Config)
	}
	mesh := func(f func(m *runfile.Mesh)) func(int, *Config) {
		return func(i int, c *Config) {
			if i == 0 {
				f(&c.RunFile.Mesh)
			}
		}
	}
	packing := func(p string) func(int, *Config) {
		return func(i int, c *Config) {
			if i == 0 {
				c.RunFile.Wire.Packing = p
			}
		}
	}
	weights := func(w ...int64) func(int, *Config) { return func(i int, c *Config) { c.Memory = w[i] << 30 } }
	tests := []test{
		{"again", 1, nil},
		{"2 peers", 2, nil},
		{"3 peers", 3, nil},
		{"5 peers", 5, nil},
		{"weights 5,1,1", 3, weights(5, 1, 1)},
		{"ddp", 2, mesh(func(m *runfile.Mesh) { m.Strategy = "ddp" })},
		{"zero1", 2, mesh(func(m *runfile.Mesh) { m.Strategy = "zero1" })},
		{"zero2", 3, mesh(func(m *runfile.Mesh) { m.Strategy = "zero2" })},
		{"wrap", 3, mesh(func(m *runfile.Mesh) { m.Wrap = "layers:2" })},
		{"reshard false", 2, mesh(func(m *runfile.Mesh) { m.Reshard = false })},
		{"recompute always", 2, mesh(func(m *runfile.Mesh) { m.Recompute = "always" })},
		{"recompute never", 2, mesh(func(m *runfile.Mesh) { m.Recompute = "never" })},
		{"packing on", 2, packing("on")},
		{"packing off", 2, packing("off")},
		{"all at once", 3, func(i int, c *Config) {
			weights(5, 1, 1)(i, c)
			c.Kernel = gemm.Paths()[i%len(gemm.Paths())]
			mesh(func(m *runfile.Mesh) { m.Reshard, m.Recompute = false, "always" })(i, c)
			packing("on")(i, c)
		}},
	}
	for _, path := range gemm.Paths() {
		tests = append(tests, test{"kernel " + path, 1, func(_ int, c *Config) { c.Kernel = path }})
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			var samples int64
			lives := make([]*Live, c.n)
			reports := together(t, peers(c.n, func(i int, cfg *Config) {
				if c.change != nil {
					c.change(i, cfg)
				}
				cfg.OnLive = func(l *Live) { lives[i] = l }
			})...)
			for _, got := range reports {
				sameRun(t, want, got)
			}
			var told, computed []int64
			for i, p := range reports[0].Peers {
				samples += p.Samples
				computed = append(computed, p.Samples)
				told = append(told, lives[i].Computed())
			}
			slices.Sort(computed)
			slices.Sort(told)
			if !slices.Equal(told, computed) { // whoever is first in the list need not be of rank 0
				t.Errorf("peers tell of %v samples that they computed, the report of %v", told, computed)
			}
			if want := int64(4*100 + 32); samples != want { // 30 steps are four epochs and two batches
				t.Errorf("peers computed %d samples, want %d", samples, want)
			}
		})
	}
}

// TestReduceOverStreams: fixed16 has one hash for any number of peers, fp32 says that it has not.
func TestReduceOverStreams(t *testing.T) {
	run := func(n int, reduce string, log *bytes.Buffer) *Report {
		return together(t, peers(n, func(i int, c *Config) {
			if i == 0 {
				c.RunFile.Precision.Reduce = reduce
				c.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			}
		})...)[0]
	}
	var quiet, loud bytes.Buffer
	one, three := run(1, "fixed16", &quiet), run(3, "fixed16", &quiet)
	sameRun(t, one, three)
	const says = "precision.reduce fp32: the result depends on the peers"
	float := run(2, "fp32", &loud)
	if strings.Contains(quiet.String(), "depends on the peers") || strings.Count(loud.String(), says) != 1 || !strings.Contains(float.Warning(), says) {
		t.Errorf("fixed16 logs %q, fp32 %q and reports %q", quiet.String(), loud.String(), float.Warning())
	}
	if float.Reduce != "fp32" || float.StateHash == one.StateHash || !(float.Loss[29] < float.Loss[0]) {
		t.Errorf("fp32 reported as %s, from loss %v to %v", float.Reduce, float.Loss[0], float.Loss[29])
	}
}

// allComputed runs until there is a run in which every peer computed in every step: on a busy machine one that is slow for a
// moment gets nothing, and fetches nothing then.
func allComputed(t *testing.T, run func() *Report) *Report {
	t.Helper()
	for range 10 {
		r := run()
		if !slices.ContainsFunc(r.Peers, func(p report.Peer) bool { return p.StepsComputed < r.Steps }) {
			return r
		}
	}
	t.Fatal("in ten runs somebody computed nothing in a step: this machine is too busy")
	return nil
}

// TestReceivedBytes holds what the peers counted on their streams to the formula of docs/traffic.md.
func TestReceivedBytes(t *testing.T) {
	for _, c := range []struct{ strategy, reduce string }{{"fsdp", "fixed32"}, {"zero2", "fixed32"}, {"zero1", "fixed32"}, {"ddp", "fixed32"},
		{"fsdp", "fixed16"}, {"ddp", "fixed16"}, {"fsdp", "fp32"}, {"ddp", "bf16"}} {
		t.Run(c.strategy+" "+c.reduce, func(t *testing.T) {
			run := runfile.Default()
			run.Train.Steps, run.Train.Warmup, run.Data.Eval = 4, 1, 64
			run.Mesh.Strategy, run.Precision.Reduce, run.Wire.Packing = c.strategy, c.reduce, "off"
			report := allComputed(t, func() *Report {
				return together(t, peers(3, func(i int, c *Config) {
					if i == 0 {
						c.RunFile = &run
					}
				})...)[0]
			})
			task, err := newTask(t.Context(), run, Config{})
			if err != nil {
				t.Fatal(err)
			}
			cfg := &fsdp.Config{Model: task.model, Hyper: task.hyper(), Order: task.order,
				Strategy: fsdp.Strategy(c.strategy), ParamType: kernel.BF16, Eval: task.eval}
			alike := place.Peer{Weight: 1, Keep: true}
			backups := run.Mesh.Backups
			if c.strategy == "ddp" {
				backups = place.All
			}
			at := place.Start(task.ranges(), []place.Peer{alike, alike, alike}, backups)
			var retried []int
			if fsdp.Format(c.reduce).Exact() {
				retried = []int{0}
			}
			for r, p := range report.Peers {
				cfg.Start.View = &fsdp.View{Rank: r, Size: 3, Owner: at.Owner, Backups: at.Backups}
				want := fsdp.Received(cfg, retried)
				if d := float64(p.BytesReceived)/float64(want) - 1; d < 0 || d > 0.05 {
					t.Errorf("rank %d received %d bytes, the formula says %d: %+.1f%%", r, p.BytesReceived, want, 100*d)
				}
			}
		})
	}
}

// TestPrefetchOverStreams records a trace: the next unit is on its way before the one before it is computed, and
// gradients travel while earlier units are computed.
func TestPrefetchOverStreams(t *testing.T) {
	var mu sync.Mutex
	var events []fsdp.Event
	together(t, peers(2, func(i int, c *Config) {
		if i == 0 {
			c.RunFile.Mesh.Backups = 0 // or both would hold all, and borrow nothing
			c.Slow = 8                 // or a moment in which the other got no processor would leave it nothing to compute
		}
		if i == 1 {
			c.Trace = func(e fsdp.Event) {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, e)
			}
		}
	})...)
	type key struct {
		kind fsdp.EventKind
		unit int
	}
	ahead, overlapped := 0, 0
	for step := 1; step < 30; step++ { // step 0 is tried twice
		seen := map[key][]fsdp.Event{}
		for _, e := range events {
			if e.Step == step {
				k := key{e.Kind, e.Unit}
				seen[k] = append(seen[k], e)
			}
		}
		if len(seen[key{fsdp.TraceForward, 0}]) == 0 {
			continue // nothing to compute: an epoch's last batch is one microbatch, and a peer that was slow is spared
		}
		for u := 1; u < 3; u++ {
			next, now := seen[key{fsdp.TraceGather, u + 1}], seen[key{fsdp.TraceForward, u}]
			if len(next) < 1 || len(now) < 1 || next[0].Start >= now[0].End {
				t.Fatalf("step %d: unit %d was not asked for before unit %d was computed: %v, %v", step, u+1, u, next, now)
			}
			ahead++
			reduce, back := seen[key{fsdp.TraceReduce, u + 1}], seen[key{fsdp.TraceBackward, u}]
			if len(reduce) == 1 && reduce[0].Start < back[0].End && reduce[0].End > back[0].Start {
				overlapped++
			}
		}
	}
	if ahead < 20 {
		t.Errorf("this peer computed in %d steps of 29", ahead/2)
	}
	// One that waited for each reduction before it went on would have none at all.
	if overlapped < 5 {
		t.Errorf("%d of %d reductions overlapped the next unit's backward pass", overlapped, ahead)
	}
}
