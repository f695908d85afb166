package main

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"shoal"
	"shoal/internal/runfile"
)

// TestPlanSpeedOfLink: on links of 100 Mbit/s, which are slower than computing, a step takes what was planned within a
// quarter, in the median of three runs.
func TestPlanSpeedOfLink(t *testing.T) {
	needLong(t)
	if _, err := exec.LookPath("tc"); err != nil {
		t.Skip("slow links need the program tc (package iproute2)")
	}
	l := newLAN(t, 2)
	for i, name := range l.machines {
		for _, args := range [][]string{{"-n", name, "qdisc", "add", "dev", "shoal0"}, {"-n", l.hub, "qdisc", "add", "dev", port(i)}} {
			args = append(args, "root", "tbf", "rate", "100mbit", "burst", "64kb", "latency", "50ms")
			if out, err := exec.Command("tc", args...).CombinedOutput(); err != nil {
				t.Skipf("this system makes no slow links: %s", out)
			}
		}
	}
	run := runfile.Default()
	run.Train.Steps, run.Data.Eval, run.Mesh.Backups = 25, 0, 0
	file, plan := writeRun(t, &run), filepath.Join(t.TempDir(), "plan.json")
	text := shoalOut(t, "plan", file, "--peers", "2", "--here", "2", "--cores", "1", "--link", "100Mbit", "--json")
	if err := os.WriteFile(plan, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var off []float64
	for range 3 {
		dir := t.TempDir()
		up := l.start(0, "up", file, "--peers", "2", "--cores", "1", "--page", "none", "--report", dir, "--plan", plan)
		join := l.start(1, "join", up.line(t, "shoal:"), "--cores", "1")
		for _, p := range []*program{up, join} {
			if code := p.end(t, patient); code != exitOK {
				t.Fatalf("exit code %d, stderr %s", code, p.stderr)
			}
		}
		text, err := os.ReadFile(filepath.Join(dir, "report.json"))
		if err != nil {
			t.Fatal(err)
		}
		r := new(shoal.Report)
		if err := json.Unmarshal(text, r); err != nil {
			t.Fatal(err)
		}
		if r.Plan == nil || r.Plan.Step == nil {
			t.Fatalf("the report has no plan: %s", text)
		}
		t.Logf("planned %s, measured %s", seconds(r.Plan.Step.Planned), seconds(r.Plan.Step.Measured))
		off = append(off, r.Plan.Step.Off())
	}
	slices.Sort(off)
	if math.Abs(off[1]) > 0.25 {
		t.Errorf("the median of the steps is %+.0f%% off its plan", 100*off[1])
	}
}
