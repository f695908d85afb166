package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shoal"
	"shoal/internal/runfile"
)

// linkBound is a run whose bytes take longer than its computing on links of 100 Mbit/s, computeBound one with which it is
// the other way round.
func linkBound() *shoal.RunFile {
	r := runfile.Default()
	r.Model.Dim, r.Model.Depth = 256, 12
	r.Train.Batch, r.Train.Microbatch = 8, 2
	return &r
}

func computeBound() *shoal.RunFile {
	r := runfile.Default()
	r.Model.Dim, r.Model.Depth = 128, 6
	r.Train.Batch, r.Train.Microbatch = 3072, 32
	return &r
}

// reportOf starts a run on all machines of a network and returns what it reports.
func reportOf(t *testing.T, l *lan, run *shoal.RunFile) *shoal.Report {
	t.Helper()
	return reportAfter(t, l, run, func() {})
}

// reportAfter is reportOf that calls first once the first step is committed.
func reportAfter(t *testing.T, l *lan, run *shoal.RunFile, first func()) *shoal.Report {
	t.Helper()
	dir := t.TempDir()
	up := l.start(0, "up", writeRun(t, run), "--peers", strconv.Itoa(len(l.machines)), "--cores", "1", "--page", "none", "--report", dir)
	all := []*program{up}
	link := up.line(t, "shoal:")
	for i := 1; i < len(l.machines); i++ {
		all = append(all, l.start(i, "join", link, "--cores", "1"))
	}
	up.find(t, "tells of the first step", func(line string) bool { return strings.HasPrefix(line, "step 1/") })
	first()
	for _, p := range all {
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
	return r
}

// TestSlowLink: with links of 100 Mbit/s and 20 ms each way, a step takes what its bytes take on the busiest link, or what
// computing takes, whichever is more, and at most 15% on top, in the median of three. The first step, which is no example, is
// left out, with its bytes. What computing takes is seen on links that are as fast as memory, in turn with the slow ones.
func TestSlowLink(t *testing.T) {
	needLong(t)
	const bits, rounds = 100e6, 3
	for _, peers := range []int{2, 4} {
		for name, run := range map[string]*shoal.RunFile{"link": linkBound(), "compute": computeBound()} {
			t.Run(fmt.Sprintf("%d peers/%s", peers, name), func(t *testing.T) {
				run.Data.Eval, run.Train.Steps, run.Train.Warmup = 0, 10, 2
				var over []float64
				for range rounds {
					fast := reportOf(t, newLAN(t, peers), run)
					l := newSlowLAN(t, peers, "100mbit", 20*time.Millisecond)
					var before []int64
					slow := reportAfter(t, l.lan, run, func() { before = l.traffic() })
					if fast.StateHash != slow.StateHash {
						t.Errorf("state hash %s on fast links, %s on slow ones", fast.StateHash, slow.StateHash)
					}
					var busiest int64
					for i, n := range l.traffic() {
						busiest = max(busiest, n-before[i])
					}
					step, computing := slow.StepSeconds(), fast.StepSeconds()
					travelling := 8 * float64(busiest) / bits / float64(run.Train.Steps-1)
					over = append(over, step/max(computing, travelling)-1)
					t.Logf("a step takes %s; computing takes %s, bytes %s: %+.0f%%; the first step took %.1f s", seconds(step), seconds(computing),
						seconds(travelling), 100*over[len(over)-1], slow.Peers[0].FirstMS/1e3)
					for _, p := range slow.Peers {
						t.Logf("rank %d: %+v, payload %.2f", p.Rank, p.StepMS(), float64(p.PayloadWireBytes)/float64(p.PayloadRawBytes))
					}
				}
				if slices.SortFunc(over, cmp.Compare[float64]); over[rounds/2] > 0.15 {
					t.Errorf("steps take %.0f%% more than bytes or computing", 100*over[rounds/2])
				}
			})
		}
	}
}
