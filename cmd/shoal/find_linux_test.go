package main

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"shoal"
	"shoal/testnet"
)

// TestMachinesFindTheRun trains in four network namespaces. One has the run; the next ones are each told the address of
// the one before, at which nobody listens yet; the last one knows just the run's name.
func TestMachinesFindTheRun(t *testing.T) {
	ns := namespaces(t, 4)
	in := func(i int, args ...string) *program {
		return startCommand(t, "ip", append([]string{"netns", "exec", ns[i], self(t)}, args...)...)
	}
	up := in(0, "up", writeRun(t, smallRun(6)), "--peers", "4", "--listen", ":4001", "--lan", "digits")
	way := up.line(t, "or, knowing the address of any peer: shoal join ")
	invitation := strings.Fields(way)[9]
	all := []*program{up,
		in(2, "join", invitation, "--via", "10.77.0.2:4001", "--listen", ":4001"),
		in(3, "join", "--lan", "digits"),
		in(1, "join", invitation, "--via", "10.77.0.1:4001", "--listen", ":4001"),
	}
	var hashes []string
	for i, p := range all {
		hashes = append(hashes, p.line(t, "state hash"))
		if code := p.end(t, patient); code != exitOK {
			t.Errorf("process %d: exit code %d, stderr %s", i, code, p.stderr)
		}
		if hashes[i] != hashes[0] {
			t.Errorf("process %d: %s, want %s", i, hashes[i], hashes[0])
		}
	}
}

// TestNobodyFindsTheRun is about what a user reads who looks in the wrong place.
func TestNobodyFindsTheRun(t *testing.T) {
	t.Parallel()
	ns := namespaces(t, 1)
	in := func(args ...string) *program {
		return startCommand(t, "ip", append([]string{"netns", "exec", ns[0], self(t)}, args...)...)
	}
	up := in("up", writeRun(t, smallRun(6)), "--peers", "2", "--listen", ":4001", "--lan", "digits")
	invitation := strings.Fields(up.line(t, "or, knowing the address of any peer: shoal join "))[9]
	run, _, _ := strings.Cut(invitation, ".")
	for want, args := range map[string][]string{
		"the secret is not that of the run": {"join", run + "." + strings.Repeat("0", 32), "--via", "127.0.0.1:4001"},
		"there is digits":                   {"join", "--lan", "letters"},
		"no node knows a member":            {"join", strings.Repeat("0", 32) + "." + strings.Repeat("0", 32), "--via", "127.0.0.1:4001"},
		"connection refused":                {"join", invitation, "--via", "127.0.0.1:1"},
	} {
		p := in(args...)
		if args[1] == "--lan" {
			if line := p.line(t, "nobody here has a run letters"); !strings.Contains(line, "there is digits; still looking") {
				t.Errorf("said %q", line)
			}
		}
		defer func() { p.refused(t, want) }() // when all have started: each one looks for a while
	}
}

// TestTwoTestnets runs two testnets of the same run file at once, on one machine.
func TestTwoTestnets(t *testing.T) {
	var reports [2]*shoal.Report
	var errs [2]error
	var wait sync.WaitGroup
	for i := range reports {
		wait.Go(func() {
			reports[i], errs[i] = testnet.Run(t.Context(), testnet.Config{RunFile: smallRun(8), Peers: 3, Timeout: patient})
		})
	}
	wait.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	a, b := reports[0], reports[1]
	if a.StateHash != b.StateHash || a.RunID == b.RunID {
		t.Errorf("hashes %s and %s, runs %s and %s", a.StateHash, b.StateHash, a.RunID, b.RunID)
	}
	seen := map[string]bool{}
	for _, r := range reports {
		if len(r.Peers) != 3 {
			t.Errorf("%d peers", len(r.Peers))
		}
		for i := range r.Peers {
			if seen[r.Peers[i].PeerID] {
				t.Errorf("peer %s is in both", r.Peers[i].PeerID)
			}
			seen[r.Peers[i].PeerID] = true
		}
	}
}
