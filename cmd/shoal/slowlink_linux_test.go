package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	dir := t.TempDir()
	up := l.start(0, "up", writeRun(t, run), "--peers", strconv.Itoa(len(l.machines)), "--cores", "1", "--page", "none", "--report", dir)
	all := []*program{up}
	link := up.line(t, "shoal:")
	for i := 1; i < len(l.machines); i++ {
		all = append(all, l.start(i, "join", link, "--cores", "1"))
	}
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
// computing takes, whichever is more, and at most 15% on top, in the median of three. What computing takes is seen on links
// that are as fast as memory, in turn with the slow ones.
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
					slow := reportOf(t, l.lan, run)
					if fast.StateHash != slow.StateHash {
						t.Errorf("state hash %s on fast links, %s on slow ones", fast.StateHash, slow.StateHash)
					}
					computing, travelling := fast.WallSeconds, 8*float64(l.busiest())/bits
					over = append(over, slow.WallSeconds/max(computing, travelling)-1)
					steps := float64(run.Train.Steps)
					t.Logf("a step takes %s; computing takes %s, bytes %s: %+.0f%%", seconds(slow.WallSeconds/steps), seconds(computing/steps),
						seconds(travelling/steps), 100*over[len(over)-1])
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
