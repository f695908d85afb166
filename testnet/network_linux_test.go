package testnet

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"shoal"
	"shoal/internal/report"
	"shoal/internal/runfile"
)

// fakes is a configuration whose processes are fakes.
func fakes(t *testing.T, peers, steps int, wrong string) Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(fakeEnv, wrong)
	run := runfile.Default()
	run.Train.Steps, run.Train.Warmup, run.Train.Batch, run.Data.Samples, run.Data.Eval = steps, 1, 32, 150, 0
	run.Data.Samples = 32 * 10
	return Config{RunFile: &run, Peers: peers, Program: self, Timeout: time.Minute}
}

// checkRow looks for a fault in a report. Fakes don't wait for one another, so those of other peers may have come first.
func checkRow(t *testing.T, r *shoal.Report, kind string, peer int, phase string, step int) {
	t.Helper()
	i := slices.IndexFunc(r.Faults, func(f report.Fault) bool { return f.Kind == kind && f.Peer == peer })
	if i < 0 {
		t.Fatalf("no %s of peer %d: %+v", kind, peer, r.Faults)
	}
	f := r.Faults[i]
	if f.Phase != phase || f.Step < step {
		t.Errorf("fault %+v, want it in %q of step %d or soon", f, phase, step)
	}
	if f.StepsLost != 0 || f.SamplesLost != 0 || f.SamplesDoubled != 0 {
		t.Errorf("fault %+v has lost or doubled something", f)
	}
	if !(f.NextCommitMS >= 0 && f.NextCommitMS < 10_000) {
		t.Errorf("fault %+v: when was the next commit?", f)
	}
}

// The first peer, which began the run, is killed: the others tell how it goes, and how it ended.
func TestFaultsHappen(t *testing.T) {
	cfg := fakes(t, 3, 1500, "good")
	cfg.Faults = faults(t, "kill 1@step:400:backward", "join 2@step:450", "leave 3@step:900", "stop 2@step:940:ready:1")
	var pids []int
	cfg.OnStart = func(_, pid int) { pids = append(pids, pid) }
	var steps []int
	cfg.Progress = func(p shoal.Progress) { steps = append(steps, p.Step) }
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.StateHash != "one hash" || len(pids) != 5 || len(r.Faults) != 5 {
		t.Fatalf("hash %q, %d processes, faults %+v", r.StateHash, len(pids), r.Faults)
	}
	checkRow(t, r, Kill, 1, "backward", 400)
	checkRow(t, r, Join, 4, "", 450)
	checkRow(t, r, Join, 5, "", 450)
	checkRow(t, r, Leave, 3, "gather", 900)
	checkRow(t, r, Stop, 2, "ready", 940)
	if !slices.IsSorted(steps) || len(steps) < 1000 || steps[len(steps)-1] != 1500 {
		t.Errorf("%d steps were shown, up to %d", len(steps), steps[len(steps)-1])
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left behind (%v)", pid, err)
		}
	}
}

// Who plays a role is hit, and nobody else is held up.
func TestFaultByRole(t *testing.T) {
	cfg := fakes(t, 5, 1200, "good")
	cfg.Faults = faults(t, "kill leader@step:600:ready", "kill leader@step:700:commit", "kill backup@step:800:gather", "kill owner@step:800:gather")
	var notices []string
	cfg.OnNotice = func(text string) { notices = append(notices, text) }
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	hit := map[int]bool{}
	rows := map[string]bool{}
	for _, f := range r.Faults {
		hit[f.Peer], rows[f.Role+" "+f.Phase] = true, f.Step >= 600
	}
	want := map[string]bool{"leader ready": true, "leader commit": true, "backup gather": true, "owner gather": true}
	if len(hit) != 4 || !maps.Equal(rows, want) {
		t.Errorf("faults %+v", r.Faults)
	}
	if len(notices) != 1 || !strings.HasPrefix(notices[0], "step 800: 2 of 3 peers fail at a time") {
		t.Errorf("notices %q", notices)
	}
}

func TestFaultThatDoesNotHappen(t *testing.T) {
	cfg := fakes(t, 2, 200, "good")
	cfg.Faults = faults(t, "kill joiner@step:10:forward")
	r, err := Run(t.Context(), cfg)
	if r == nil || err == nil || !strings.Contains(err.Error(), "--kill joiner@step:10:forward: the run ended before anybody came there") {
		t.Errorf("report %v, error %v", r != nil, err)
	}
}

func TestNewcomerThatIsTooLate(t *testing.T) {
	cfg := fakes(t, 1, 100, "good")
	cfg.Faults = faults(t, "stop 1@step:50:1", "join 1@step:99")
	r, err := Run(t.Context(), cfg)
	if err != nil || r == nil {
		t.Errorf("error %v", err)
	}
}

// A newcomer whose link's peer is killed before it could ask it is replaced by one with another link.
func TestLinkOfOneWhoIsGone(t *testing.T) {
	cfg := fakes(t, 3, 1500, "asks late")
	cfg.Faults = faults(t, "join 1@step:380", "kill 1@step:400")
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Faults) != 2 {
		t.Fatalf("faults %+v", r.Faults)
	}
	checkRow(t, r, Kill, 1, "gather", 400)
	checkRow(t, r, Join, 5, "", 380)
}

func TestStoppedForEver(t *testing.T) {
	cfg := fakes(t, 3, 1000, "good")
	cfg.Faults = faults(t, "stop leader@step:500:update:0")
	begin := time.Now()
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	checkRow(t, r, Stop, r.Faults[0].Peer, "update", 500)
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("the stopped process was waited for, %v", took)
	}
}

func TestWhatGoesWrong(t *testing.T) {
	for _, tc := range []struct{ wrong, want string }{
		{"forks", "ended with state another hash, peer 1 with one hash"},
		{"crashes", "crashed, --verbose shows where: panic: what now"},
	} {
		cfg := fakes(t, 3, 200, tc.wrong)
		cfg.Faults = faults(t, "kill 3@step:20")
		if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v", tc.wrong, err)
		}
	}
}

func TestDoubledSamplesAreSeen(t *testing.T) {
	cfg := fakes(t, 2, 1000, "doubles")
	cfg.Faults = faults(t, "kill 2@step:300", "join 1@step:700")
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.Faults[0].SamplesDoubled != 3 || r.Faults[1].SamplesDoubled != 0 {
		t.Errorf("faults %+v", r.Faults)
	}
}

func TestEndedByHand(t *testing.T) {
	cfg := fakes(t, 3, 100_000, "good")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	cfg.Faults = faults(t, "stop 2@step:20:0")
	cfg.Progress = func(p shoal.Progress) {
		if p.Step > 100 {
			cancel(stop)
		}
	}
	if _, err := Run(ctx, cfg); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
}

// Fakes don't compute, so the answers come at once; what is tried out is who is hit, and that others take their places.
func TestSoakOfFakes(t *testing.T) {
	cfg := fakes(t, 5, 10, "good")
	s := &Soak{Faults: 3, Seed: 7}
	cfg.RunFile = s.RunFile()
	alive, most := 0, 0
	cfg.OnStart = func(peer, _ int) { alive, most = alive+1, max(most, peer) }
	r, err := s.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.Soak == nil || r.Soak.Faults != 3 || !r.Soak.HashEqual || r.Soak.StreamsSlope != 0 || r.Soak.SlowestCommitMS <= 0 {
		t.Errorf("soak %+v", r.Soak)
	}
	kinds := map[string]int{}
	for _, f := range r.Faults {
		kinds[f.Kind]++
		if f.Peer == 2 && f.Kind != Stop {
			t.Errorf("the peer whose memory is watched was hit: %+v", f)
		}
	}
	if kinds[Kill]+kinds[Stop]+kinds[Leave] != 3 || kinds[Join] != most-5 {
		t.Errorf("faults %v, %d processes", kinds, most)
	}
}

func TestSoakRefuses(t *testing.T) {
	for _, tc := range []struct{ faults, peers int }{{0, 5}, {-1, 5}, {MaxSoak + 1, 5}, {10, 3}, {10, 8}} {
		var wrong *shoal.ConfigError
		if _, err := (&Soak{Faults: tc.faults}).Run(t.Context(), Config{Peers: tc.peers}); !errors.As(err, &wrong) {
			t.Errorf("%d faults of %d peers: error %v", tc.faults, tc.peers, err)
		}
	}
}

func TestMatrixOfFakes(t *testing.T) {
	program := fakes(t, 1, 1, "good").Program
	cells := []Cell{{Kill, "leader", "ready"}, {Stop, "owner", "backward"}, {Kill, "joiner", "checkpoint"}, {Kill, "backup", "update"}}
	seen := 0
	m := &Matrix{Program: program, OnCell: func(Outcome) { seen++ }}
	got, err := m.Run(t.Context(), cells)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || seen != 3 {
		t.Fatalf("%d outcomes, %d told: %+v", len(got), seen, got)
	}
	for i, c := range []Cell{cells[0], cells[1], cells[3]} {
		o := got[i]
		if o.Cell != c || o.Problem != "" || o.Peer == 0 || o.Fault.Kind != c.Kind || o.Fault.Phase != c.Phase || o.Step <= 0 || o.Next <= 0 {
			t.Errorf("%v: outcome of peer %d at step %d, next commit after %v, problem %q, row %+v", o.Cell, o.Peer, o.At, o.Next, o.Problem, o.Fault)
		}
	}
}

func TestProblems(t *testing.T) {
	second := time.Second
	for _, tc := range []struct {
		name    string
		o       Outcome
		counted bool
		equal   bool
		want    string
	}{
		{"good", Outcome{Cell: Cell{Kind: Kill}, Next: 2 * second, Step: second}, true, true, ""},
		{"late", Outcome{Cell: Cell{Kind: Kill}, Next: 4 * second, Step: second}, true, true, "took 4s, promised is 3s"},
		{"a stop takes longer", Outcome{Cell: Cell{Kind: Stop}, Next: 4 * second, Step: second}, true, true, ""},
		{"another hash", Outcome{Cell: Cell{Kind: Kill}}, true, false, "state hash"},
		{"not counted", Outcome{Cell: Cell{Kind: Kill}}, false, true, "lacks"},
	} {
		if got := tc.o.problem(tc.counted, tc.equal); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: problem %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestCells(t *testing.T) {
	possible := 0
	seen := map[Cell]bool{}
	for _, c := range Cells() {
		if seen[c] || !slices.Contains(Roles, c.Role) || !slices.Contains(Phases, c.Phase) {
			t.Errorf("%v is there twice, or no cell", c)
		}
		seen[c] = true
		if c.Impossible() == "" {
			possible++
		}
	}
	if len(seen) != 2*5*9 || possible != 88 {
		t.Errorf("%d cells, %d of them possible", len(seen), possible)
	}
}
