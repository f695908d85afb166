//go:build unix

package main

import (
	"flag"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"shoal"
	"shoal/testnet"
)

var (
	faultCells = flag.String("faults", "6", "how many cells of the table of faults TestFaults tries out, or all")
	faultSeed  = flag.Uint64("faults-seed", 1, "which cells those are")
)

// TestFaults tries out a few cells of docs/faults.md; `make faults` does all of them.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	var cells []testnet.Cell
	for _, c := range testnet.Cells() {
		if c.Impossible() == "" {
			cells = append(cells, c)
		}
	}
	if *faultCells != "all" {
		n, err := strconv.Atoi(*faultCells)
		if err != nil || n < 1 || n > len(cells) {
			t.Fatalf("-faults %s: use 1 to %d, or all", *faultCells, len(cells))
		}
		rand.New(rand.NewPCG(*faultSeed, 0)).Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
		cells = cells[:n]
	}
	m := &testnet.Matrix{Program: self(t)}
	done, err := m.Run(t.Context(), cells)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range done {
		t.Logf("%v: next commit after %v, a step takes %v", o.Cell, o.Next, o.Step)
		if o.Problem != "" {
			t.Errorf("%v: %s (-faults-seed %d)", o.Cell, o.Problem, *faultSeed)
		}
	}
	if len(done) != len(cells) {
		t.Errorf("%d of %d cells were tried", len(done), len(cells))
	}
}

// faultsOf reads "kill 2@step:40" and the like.
func faultsOf(t *testing.T, list ...string) (all []testnet.Fault) {
	t.Helper()
	for _, text := range list {
		kind, rest, _ := strings.Cut(text, " ")
		f, err := testnet.ParseFault(kind, rest)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

// What happens to peers does not change what is trained.
func TestFaultsKeepTheHash(t *testing.T) {
	t.Parallel()
	run := smallRun(400)
	run.Data.Eval = 0
	one := runTestnet(t, testnet.Config{RunFile: run, Peers: 1})
	two := *run
	two.Mesh.Backups = 2
	for _, tc := range []struct {
		name   string
		run    *shoal.RunFile
		peers  int
		faults []string
	}{
		{"kills and a join", run, 5, []string{"kill 2@step:40:backward", "kill leader@step:60:ready", "join 1@step:80"}},
		{"the creator of three", run, 3, []string{"kill 1@step:50:reduce"}},
		{"two of five at once", &two, 5, []string{"kill 1@step:50:backward", "kill 4@step:50:backward"}},
		{"a leave and a stop", run, 4, []string{"leave 3@step:30", "stop 2@step:100:forward:4"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := runTestnet(t, testnet.Config{RunFile: tc.run, Peers: tc.peers, Faults: faultsOf(t, tc.faults...)})
			if r.StateHash != one.StateHash {
				t.Errorf("state hash %s, undisturbed %s", r.StateHash, one.StateHash)
			}
			if len(r.Faults) != len(tc.faults) {
				t.Errorf("%d faults: %+v", len(r.Faults), r.Faults)
			}
			for _, f := range r.Faults {
				if f.StepsLost != 0 || f.SamplesLost != 0 || f.SamplesDoubled != 0 || !(f.NextCommitMS < 10_000) {
					t.Errorf("fault %+v", f)
				}
			}
		})
	}
}

func TestWrongFaultFlags(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--kill", "2"}, `--kill: "2": write it as in 2@step:40:backward`},
		{[]string{"--kill", "2@step:40:lunch"}, "there is no phase \"lunch\", use gather, forward, backward, reduce, ready, commit, update, fill, checkpoint, evaluate"},
		{[]string{"--kill", "9@step:40"}, "there is no peer 9, the run has 4"},
		{[]string{"--kill", "2@step:4000"}, "the run has only"},
		{[]string{"--peers", "1", "--kill", "1@step:40"}, "it is the only peer"},
		{[]string{"--stop", "x@step:40"}, `"x" is nobody`},
		{[]string{"--leave", "2@step:40:ready"}, "is too much"},
		{[]string{"--join", "0@step:40"}, "no number of new peers"},
		{[]string{"--slow", "2"}, "write it as in 2=10"},
		{[]string{"--slow", "9=10"}, "there is no peer 9"},
		{[]string{"--slow", "2=0.5"}, "1 to 1000 times slower"},
		{[]string{"--soak", "0"}, "--soak: 0 is not allowed here"},
		{[]string{"--soak", "5", "--kill", "1@step:3"}, "--kill: a soak chooses this by itself"},
	} {
		p := startCommand(t, self(t), append([]string{"testnet"}, tc.args...)...)
		p.refused(t, tc.want)
		if code := p.cmd.ProcessState.ExitCode(); code != exitWrongInput {
			t.Errorf("%v: exit code %d", tc.args, code)
		}
	}
}

// The flags that testnet gives its children are not for people.
func TestChildFlagsAreHidden(t *testing.T) {
	for _, command := range []string{"up", "join"} {
		out, err := exec.Command(self(t), command, "--help").Output()
		if err != nil || strings.Contains(string(out), "--pause") || strings.Contains(string(out), "--slow") || strings.Contains(string(out), "--child") {
			t.Errorf("shoal %s --help (%v) shows a hidden flag:\n%s", command, err, out)
		}
	}
	p := startCommand(t, self(t), "up", writeRun(t, smallRun(3)), "--child", "--pause", "self@lunch")
	p.refused(t, "is no point")
}
