//go:build unix

package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"shoal"
)

// A start is one run whose peers all begin at once.
type start struct {
	up    *program
	joins []*program
}

// startAll starts runs of the same run file at once, and once all their links are known, all joins at once.
func startAll(t *testing.T, runs, peers int) []*start {
	t.Helper()
	file := writeRun(t, smallRun(3))
	all := make([]*start, runs)
	for i := range all {
		all[i] = &start{up: startProgram(t, "up", file, "--peers", strconv.Itoa(peers), "--listen", "127.0.0.1:0", "--cores", "1", "--memory", "1GiB")}
	}
	var links []string
	for _, s := range all {
		links = append(links, s.up.line(t, "shoal:"))
	}
	for range peers - 1 {
		for i, s := range all {
			s.joins = append(s.joins, startProgram(t, "join", links[i], "--listen", "127.0.0.1:0", "--cores", "1", "--memory", "1GiB", "--json"))
		}
	}
	return all
}

// end waits for the run and returns its members. All must tell of the same run, members and state.
func (s *start) end(t *testing.T, peers int) (run string, members []string) {
	t.Helper()
	hash := strings.Fields(s.up.line(t, "state hash"))[2]
	if code := s.up.end(t, patient); code != exitOK {
		t.Fatalf("up: exit code %d, stderr %s", code, s.up.stderr)
	}
	for i, p := range s.joins {
		r := p.report(t)
		if r.StateHash != hash {
			t.Errorf("join %d: state hash %s, up has %s", i, r.StateHash, hash)
		}
		ids := map[string]bool{}
		var list []string
		for k := range r.Peers {
			ids[r.Peers[k].PeerID] = true
			list = append(list, r.Peers[k].PeerID)
		}
		if len(list) != peers || len(ids) != peers {
			t.Errorf("join %d: %d members with %d peer ids, want %d", i, len(list), len(ids), peers)
		}
		if len(r.Views) != 1 {
			t.Errorf("join %d: %d views, want one", i, len(r.Views))
		}
		if i == 0 {
			run, members = r.RunID, list
		}
		if r.RunID != run || strings.Join(list, " ") != strings.Join(members, " ") {
			t.Errorf("join %d: run %s of %v, join 0 has %s of %v", i, r.RunID, list, run, members)
		}
	}
	return run, members
}

// report is what a process with --json printed when it has ended.
func (p *program) report(t *testing.T) *shoal.Report {
	t.Helper()
	if code := p.end(t, patient); code != exitOK {
		t.Fatalf("exit code %d, stderr %s", code, p.stderr)
	}
	var text strings.Builder
	for line := range p.stdout {
		text.WriteString(line)
	}
	r := new(shoal.Report)
	if err := json.Unmarshal([]byte(text.String()), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEightStartAtOnce lets seven processes join at the instant at which the link is known: one mesh each time.
func TestEightStartAtOnce(t *testing.T) {
	times := 2
	if *long {
		times = 50
	}
	for i := range times {
		startAll(t, 1, 8)[0].end(t, 8)
		if t.Failed() {
			t.Fatalf("start %d of %d went wrong", i+1, times)
		}
	}
}

// TestTwoRunsStartAtOnce starts two runs of one run file, whose peers never mix.
func TestTwoRunsStartAtOnce(t *testing.T) {
	const peers = 4
	all := startAll(t, 2, peers)
	runs, seen := map[string]bool{}, map[string]bool{}
	for _, s := range all {
		run, members := s.end(t, peers)
		runs[run] = true
		for _, m := range members {
			seen[m] = true
		}
	}
	if len(runs) != 2 || len(seen) != 2*peers {
		t.Errorf("%d run ids and %d peers, want 2 and %d", len(runs), len(seen), 2*peers)
	}
}
