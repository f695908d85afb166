//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"shoal/internal/report"
)

// TestBenchStep runs the command: the parts of each peer's step add up to the step.
func TestBenchStep(t *testing.T) {
	args := []string{"bench", "step", "--run", writeRun(t, smallRun(400)), "--peers", "2", "--steps", "4"}
	var table, text, stderr bytes.Buffer
	if code := run(t.Context(), args, strings.NewReader(""), &table, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	if code := run(t.Context(), append(args, "--json"), strings.NewReader(""), &text, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	lines := strings.Split(strings.TrimSuffix(table.String(), "\n"), "\n")
	if len(lines) != 7 || !strings.Contains(lines[0], "4 steps of 2 peers: ") || !strings.HasPrefix(lines[6], "   1 ") {
		t.Errorf("the table is\n%s", table.String())
	}
	var got stepTimes
	d := json.NewDecoder(&text)
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Steps != 4 || got.StepMS <= 0 || got.SamplesPerSecond <= 0 || len(got.Peers) != 2 {
		t.Errorf("JSON has %+v", got)
	}
	samples := int64(0)
	for _, p := range got.Peers {
		samples += p.Samples
		if sum := p.TimeMS.Sum(); sum < got.StepMS/2 || sum > 2*got.StepMS {
			t.Errorf("rank %d: %+v are %v ms of a step of %v", p.Rank, p.TimeMS, sum, got.StepMS)
		}
	}
	if samples != 5*16 {
		t.Errorf("%d samples in 5 steps of 16", samples)
	}
}

func TestStepTable(t *testing.T) {
	s := stepTimes{Name: "digits", Steps: 30, StepMS: 40, SamplesPerSecond: 1600, Peers: []stepPeerTime{
		{Rank: 0, TimeMS: report.Times{Compute: 20, Parameters: 8, Reduce: 6, Commit: 2, Update: 3, Idle: 1}},
		{Rank: 1, TimeMS: report.Times{Compute: 123456.7, Commit: 1000}},
		{Rank: 31},
	}}
	const want = `digits, 30 steps of 3 peers: 40.0 ms a step, 1600 samples/s

Milliseconds of an average step, and percent of it:

rank    compute parameters     reduce     commit     update       idle     step
   0  20.0  50%   8.0  20%   6.0  15%   2.0   5%   3.0   8%   1.0   2%     40.0
   1  123s  99%   0.0   0%   0.0   0%  1000   1%   0.0   0%   0.0   0%     124s
  31   0.0   0%   0.0   0%   0.0   0%   0.0   0%   0.0   0%   0.0   0%      0.0
`
	var b strings.Builder
	if err := s.print(&b); err != nil {
		t.Fatal(err)
	}
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("a line of %d columns: %q", n, line)
		}
	}
}
