package testnet

import (
	"strings"
	"testing"
	"time"

	"shoal/internal/runfile"
)

func TestParseFault(t *testing.T) {
	for _, tc := range []struct {
		kind, text string
		want       Fault
	}{
		{Kill, "2@step:40:backward", Fault{Kind: Kill, Peer: 2, Step: 40, Phase: "backward"}},
		{Kill, "leader@step:60", Fault{Kind: Kill, Role: "leader", Step: 60}},
		{Stop, "donor@step:1:fill", Fault{Kind: Stop, Role: "donor", Step: 1, Phase: "fill", For: 30 * time.Second}},
		{Stop, "3@step:5:ready:7", Fault{Kind: Stop, Peer: 3, Step: 5, Phase: "ready", For: 7 * time.Second}},
		{Stop, "3@step:5:0", Fault{Kind: Stop, Peer: 3, Step: 5}},
		{Leave, "1@step:9", Fault{Kind: Leave, Peer: 1, Step: 9}},
		{Join, "2@step:80", Fault{Kind: Join, Count: 2, Step: 80}},
	} {
		got, err := ParseFault(tc.kind, tc.text)
		if err != nil || got != tc.want {
			t.Errorf("--%s %s is %+v (%v), want %+v", tc.kind, tc.text, got, err, tc.want)
		}
		if again, err := ParseFault(tc.kind, got.String()); err != nil || again != got {
			t.Errorf("%s comes back as %+v (%v)", got, again, err)
		}
	}
}

func TestParseFaultRefuses(t *testing.T) {
	for _, tc := range []struct{ kind, text, want string }{
		{Kill, "", "write it as in 2@step:40:backward"},
		{Kill, "2", "write it as in"},
		{Kill, "2@40", "write it as in"},
		{Kill, "2@step:", "no step"},
		{Kill, "2@step:0", "no step"},
		{Kill, "2@step:-1", "no step"},
		{Kill, "2@step:99999999999999999999", "no step"},
		{Kill, "@step:1", "nobody"},
		{Kill, "0@step:1", "counted from 1"},
		{Kill, "boss@step:1", "leader, owner, backup, joiner, donor"},
		{Kill, "2@step:1:lunch", "use gather, forward, backward, reduce, ready, commit, update, fill, checkpoint, evaluate"},
		{Kill, "2@step:1:ready:30", `"30" is too much`},
		{Stop, "2@step:1:ready:99999999999999999999", "too long"},
		{Stop, "2@step:1:30:ready", "no phase"},
		{Leave, "2@step:1:ready", "too much, write it as in 2@step:40"},
		{Join, "leader@step:1", "no number of new peers"},
		{Join, "0@step:1", "no number of new peers"},
	} {
		if f, err := ParseFault(tc.kind, tc.text); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("--%s %s: %+v, error %v, want one line with %q", tc.kind, tc.text, f, err, tc.want)
		}
	}
}

// faults reads "kill 2@step:40" and the like.
func faults(t *testing.T, list ...string) (all []Fault) {
	t.Helper()
	for _, text := range list {
		kind, rest, _ := strings.Cut(text, " ")
		f, err := ParseFault(kind, rest)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

func TestCheckFaults(t *testing.T) {
	for _, tc := range []struct {
		name   string
		faults []string
		want   string // part of the error, empty for none
	}{
		{"good", []string{"kill 2@step:40:backward", "kill leader@step:60:ready", "join 1@step:80", "kill 4@step:90"}, ""},
		{"beyond the run", []string{"kill 2@step:101"}, "only 100 steps"},
		{"nobody", []string{"kill 4@step:1"}, "there is no peer 4, the run has 3"},
		{"not yet", []string{"kill 4@step:70", "join 1@step:80"}, "peer 4 has not joined by then"},
		{"twice", []string{"kill 2@step:5", "leave 2@step:9"}, "peer 2 is gone by then"},
		{"all", []string{"kill 1@step:5", "leave owner@step:6", "kill 3@step:7"}, "the only peer"},
		{"all but a newcomer", []string{"kill 1@step:5", "join 1@step:6", "kill 2@step:7", "kill 3@step:8"}, ""},
		{"stopped for ever", []string{"stop 1@step:5:0", "stop 2@step:6:0", "stop 3@step:7:0"}, "the only peer"},
		{"stopped for a while", []string{"stop 1@step:5", "stop 1@step:6", "stop 2@step:6", "stop 3@step:7"}, ""},
		{"too many", []string{"join 30@step:5"}, "at most 32"},
		{"join at the end", []string{"join 1@step:100"}, "join earlier"},
		{"no checkpoints", []string{"kill 1@step:5:checkpoint"}, "checkpoint.every"},
		{"evaluation", []string{"kill 1@step:5:evaluate"}, "after the last step, 100"},
	} {
		run := runfile.Default()
		run.Train.Steps = 100
		cfg := Config{RunFile: &run, Peers: 3, Faults: faults(t, tc.faults...)}
		_, err := cfg.checkFaults()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: error %v, want one with %q", tc.name, err, tc.want)
		}
	}
	run := runfile.Default()
	for peer, factor := range map[int]float64{0: 2, 4: 2, 1: 0.5, 2: 1e9} {
		cfg := Config{RunFile: &run, Peers: 3, Slow: map[int]float64{peer: factor}}
		if flag, err := cfg.checkFaults(); err == nil || flag != "slow" {
			t.Errorf("--slow %d=%g: error %v of --%s", peer, factor, err, flag)
		}
	}
}

func TestWarning(t *testing.T) {
	for _, tc := range []struct {
		name     string
		peers    int
		tabs     int // besides
		backups  int
		strategy string
		faults   []string
		want     string
	}{
		{"one of five", 5, 0, 1, "fsdp", []string{"kill 1@step:5", "kill 2@step:6"}, ""},
		{"two of five", 5, 0, 1, "fsdp", []string{"kill 1@step:5", "kill 2@step:5"}, "step 5: 2 of 5 peers fail at a time, the run promises to survive 1"},
		{"two of five with two backups", 5, 0, 2, "fsdp", []string{"kill 1@step:5", "stop 2@step:5"}, ""},
		{"two of five of ddp", 5, 0, 1, "ddp", []string{"kill 1@step:5", "kill 2@step:5"}, ""},
		{"no backups", 5, 0, 0, "fsdp", []string{"stop 1@step:5"}, "survive 0 (mesh.backups: 0, 5 voters)"},
		{"two peers", 2, 0, 1, "fsdp", []string{"kill 2@step:5"}, "1 voters"},
		{"a newcomer helps", 2, 0, 1, "fsdp", []string{"join 1@step:2", "kill 2@step:5"}, ""},
		{"leaving is no death", 5, 0, 0, "fsdp", []string{"leave 1@step:5", "leave 2@step:5"}, ""},
		{"a tab has no vote", 1, 2, 1, "fsdp", []string{"kill 2@step:5", "kill 3@step:6"}, ""},
		{"two tabs at a time", 3, 2, 1, "fsdp", []string{"kill 4@step:5", "kill 5@step:5"}, "step 5: 2 of 5 peers fail at a time, the run promises to survive 1"},
		{"a daemon of two, beside tabs", 2, 2, 1, "fsdp", []string{"kill 2@step:5"}, "1 voters"},
	} {
		run := runfile.Default()
		run.Mesh.Backups, run.Mesh.Strategy = tc.backups, tc.strategy
		cfg := Config{RunFile: &run, Peers: tc.peers, Browsers: tc.tabs, Faults: faults(t, tc.faults...)}
		if got := cfg.warning(); (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: warning %q, want %q", tc.name, got, tc.want)
		}
	}
}
