//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"shoal"
	"shoal/internal/runfile"
	"shoal/testnet"
)

func TestBitRate(t *testing.T) {
	for _, tc := range []struct {
		text string
		want float64 // 0 means refused
		back string
	}{
		{"100Mbit", 1e8, "100Mbit"}, {"1Gbit/s", 1e9, "1Gbit"}, {"1.5 Mbit", 1.5e6, "1.5Mbit"}, {"10MB", 8e7, "80Mbit"},
		{"56kbit", 56e3, "56kbit"}, {"300bit", 300, "300bit"}, {"2GB/s", 16e9, "16Gbit"}, {"1e3kbit", 1e6, "1Mbit"}, {"100B", 800, "800bit"},
		{"fast", 0, ""}, {"", 0, ""}, {"100", 0, ""}, {"100Mb", 0, ""}, {"-1Mbit", 0, ""}, {"0Mbit", 0, ""}, {"nanMbit", 0, ""},
		{"infGbit", 0, ""}, {"1e300Gbit", 0, ""}, {"Mbit", 0, ""}, {"0x1pMbit", 0, ""}, {"1_0Mbit", 0, ""},
	} {
		var r bitRate
		err := r.Set(tc.text)
		if tc.want == 0 {
			if err == nil || r != 0 {
				t.Errorf("%q was read as %v", tc.text, float64(r))
			}
			continue
		}
		if err != nil || float64(r) != tc.want || r.String() != tc.back {
			t.Errorf("%q was read as %v (%s, %v), want %v (%s)", tc.text, float64(r), r.String(), err, tc.want, tc.back)
		}
	}
}

// shoalOut runs the program here and returns what it printed.
func shoalOut(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != exitOK {
		t.Fatalf("%q: exit code %d, stderr %q", args, code, stderr.String())
	}
	return stdout.String()
}

// TestPlan plans a run, has it happen, and finds both in the report.
func TestPlan(t *testing.T) {
	dir := t.TempDir()
	file, plan := filepath.Join(dir, "run.yaml"), filepath.Join(dir, "plan.json")
	if err := os.WriteFile(file, runfile.Marshal(*smallRun(12)), 0o600); err != nil {
		t.Fatal(err)
	}
	text := shoalOut(t, "plan", file, "--peers", "2", "--here", "2", "--cores", "1", "--json")
	p := new(shoal.Plan)
	if err := json.Unmarshal([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plan, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := shoalOut(t, "testnet", "--run", file, "--peers", "2", "--plan", plan, "--report", filepath.Join(dir, "report"))
	if !strings.Contains(out, "\nplan        a step took ") {
		t.Errorf("the plan is not in %q", out)
	}
	text = shoalOut(t, "testnet", "--run", file, "--peers", "2", "--plan", plan, "--report", filepath.Join(dir, "report"), "--json")
	r := new(shoal.Report)
	if err := json.Unmarshal([]byte(text), r); err != nil {
		t.Fatal(err)
	}
	if r.Plan == nil || r.Plan.Step == nil || r.Plan.Step.Planned != p.StepSeconds || r.Plan.Step.Measured != r.StepSeconds() || int64(r.Plan.Rest.Planned) != p.RestBytes {
		t.Errorf("the report compares %+v, the plan is %+v", r.Plan, p)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report", "report.html"))
	if err != nil || !strings.Contains(string(page), "Time of a step") {
		t.Errorf("report.html lacks the plan (%v)", err)
	}
	r.Planned(float64(p.RestBytes)/2, 1, 1)
	if got := *r.Plan; got.Rest.Off() != 1 || got.Received.Planned != 1 || got.Step.Planned != 1 {
		t.Errorf("another plan is compared as %+v", got)
	}
	for want, args := range map[string][]string{
		"--plan: " + plan + ": it is about 2 peers, and this run begins with 3": {"testnet", "--run", file, "--peers", "3", "--plan", plan},
		"--plan: " + plan + ": it is about another run file":                    {"up", "-", "--peers", "2", "--plan", plan},
		"--plan: " + file + " is no plan":                                       {"up", file, "--plan", file},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), args, strings.NewReader("name: other"), &stdout, &stderr)
		if code != exitWrongInput || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: exit code %d, stderr %q, want %q", args, code, stderr.String(), want)
		}
	}
}

// TestPlanSpeed: steps of peers that share this machine's cores take what was planned within a quarter, in the median of
// three runs. Two peers have a core each; four have half a core each.
func TestPlanSpeed(t *testing.T) {
	needLong(t)
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("needs two cores")
	}
	file := filepath.Join(t.TempDir(), "run.yaml")
	run := runfile.Default()
	run.Train.Steps, run.Data.Eval = 60, 0
	if err := os.WriteFile(file, runfile.Marshal(run), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, peers := range []int{2, 4} {
		p := new(shoal.Plan)
		n := strconv.Itoa(peers)
		if err := json.Unmarshal([]byte(shoalOut(t, "plan", file, "--peers", n, "--here", n, "--cores", "1", "--json")), p); err != nil {
			t.Fatal(err)
		}
		var took []float64
		for range 3 {
			r := runTestnet(t, testnet.Config{RunFile: &run, Peers: peers, Cores: 2})
			comparePlan(r, p)
			took = append(took, r.Plan.Step.Measured)
		}
		slices.Sort(took)
		off := took[1]/p.StepSeconds - 1
		t.Logf("%d peers: planned %s, measured %s, %s and %s: %+.0f%%", peers, seconds(p.StepSeconds), seconds(took[0]), seconds(took[1]), seconds(took[2]), 100*off)
		if math.Abs(off) > 0.25 {
			t.Errorf("%d peers: a step took %s, planned was %s", peers, seconds(took[1]), seconds(p.StepSeconds))
		}
	}
}

func TestPrintPlan(t *testing.T) {
	network := 123.4
	for _, p := range []shoal.Plan{
		{Name: "digits", Model: "vision transformer, 12 blocks of width 64, images of 28 x 28", Strategy: "fsdp", Backups: 1, Peers: 4,
			Here: 1, Microbatches: 8, Share: 2, Fits: true, Backend: "cpu/avx512", Cores: 2, StepSeconds: 0.0012},
		{Name: strings.Repeat("n", 30), Model: "GPT, 1024 blocks of width 16384, context 65536", Strategy: "zero2", Backups: 8, Peers: 32, Here: 32,
			ModelParameters: 3e12, RestBytes: 1 << 50, PeakBytes: 1 << 50, NeedBytes: 1 << 50, LimitBytes: 1 << 50, StepTraffic: 1 << 50,
			RunTraffic: 1 << 50, Microbatches: 65536, Share: 65536, Backend: "cpu/generic", Cores: 4096, LinkBits: 1e15,
			NetworkSeconds: &network, StepSeconds: 1234.5, SamplesPerSecond: 1e9},
	} {
		var b strings.Builder
		if err := printPlan(&b, &p); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("a line of %d columns: %q", n, line)
			}
		}
		if strings.Contains(b.String(), "TOO LITTLE") == p.Fits || strings.Contains(b.String(), "--link") != (p.NetworkSeconds == nil) {
			t.Errorf("printed %s", b.String())
		}
	}
}
