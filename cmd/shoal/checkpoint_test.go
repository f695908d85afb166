//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal"
)

// hashOf is the state hash of a run of file that nobody disturbs.
func hashOf(t *testing.T, file string) string {
	t.Helper()
	code, stdout, stderr := command(t, "testnet", "--run", file, "--peers", "1", "--json", "--checkpoint-every", "0", "--report", t.TempDir())
	var r shoal.Report
	if err := json.Unmarshal([]byte(stdout), &r); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v, stderr %s", code, err, stderr)
	}
	return r.StateHash
}

// killedWhileSaving is a folder of checkpoints whose peers were all killed at once, by signal 9, while they were saving:
// it has one that is whole and one that is partial.
func killedWhileSaving(t *testing.T, file string) (dir string, partial int) {
	t.Helper()
	for range 10 {
		dir := filepath.Join(t.TempDir(), "kept")
		all := []*program{startProgram(t, "up", file, "--peers", "3", "--checkpoint", dir, "--listen", "127.0.0.1:0")}
		link := all[0].line(t, "shoal:")
		for range 2 {
			all = append(all, startProgram(t, "join", link, "--checkpoint", dir, "--listen", "127.0.0.1:0"))
		}
		all[0].line(t, "step ")
		if !saving(t, dir) {
			t.Fatalf("no checkpoint is being saved; stderr: %s", all[0].stderr)
		}
		for _, p := range all {
			p.cmd.Process.Kill()
		}
		for _, p := range all {
			<-p.exited
		}
		list, err := shoal.Checkpoints(dir)
		if err != nil {
			t.Fatal(err)
		}
		if last := list[len(list)-1]; len(list) > 1 && last.Err != nil {
			return dir, last.Step
		}
		// They were done with it before they were killed.
	}
	t.Fatal("nobody was killed while saving")
	return "", 0
}

// saving waits until there is a whole checkpoint in dir and behind it one with files but without a manifest.
func saving(t *testing.T, dir string) bool {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patient)
	for {
		list, err := shoal.Checkpoints(dir)
		if n := len(list); err == nil && n > 1 && list[n-2].Err == nil && list[n-1].Err != nil {
			return true
		}
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
}

// TestKilledWhileSaving: when every process is killed while a checkpoint is being saved, the one before it is used, by
// another number of processes, and what was written of the other is swept.
func TestKilledWhileSaving(t *testing.T) {
	r := smallRun(150)
	r.Checkpoint.Every = 5
	file := writeRun(t, r)
	want := hashOf(t, file)
	dir, partial := killedWhileSaving(t, file)
	code, stdout, stderr := command(t, "testnet", "--run", file, "--peers", "2", "--checkpoint", dir, "--resume", "--report", t.TempDir())
	for _, says := range []string{fmt.Sprintf("the checkpoint of step %d in %s was not finished and is removed\n", partial, dir),
		fmt.Sprintf("going on from the checkpoint of step %d in %s\n", partial-5, dir)} {
		if !strings.Contains(stdout, says) {
			t.Errorf("it says %q, want %q in it", stdout, says)
		}
	}
	if says := fmt.Sprintf("resumed     from the checkpoint of step %d;", partial-5); code != exitOK || !strings.Contains(stdout, want) || !strings.Contains(stdout, says) {
		t.Errorf("exit code %d, output %s%s, want the state hash %s", code, stdout, stderr, want)
	}
}

// TestCheckpointCommands lists, verifies and exports.
func TestCheckpointCommands(t *testing.T) {
	dir, out, file := filepath.Join(t.TempDir(), "kept"), filepath.Join(t.TempDir(), "model"), writeRun(t, smallRun(20))
	says := func(want int, args []string, parts ...string) {
		t.Helper()
		code, stdout, stderr := command(t, args...)
		for _, part := range parts {
			if !strings.Contains(stdout+stderr, part) {
				t.Errorf("%q: output %q, errors %q, want %q", args, stdout, stderr, part)
			}
		}
		if code != want {
			t.Errorf("%q: exit code %d, want %d: %s", args, code, want, stderr)
		}
	}
	says(exitOK, []string{"testnet", "--run", file, "--peers", "2", "--checkpoint", dir, "--checkpoint-every", "8", "--report", t.TempDir()}, "state hash")
	says(exitOK, []string{"checkpoint", "list", dir}, "step  run ", "8     digits  ", "16    digits  ", "step-000000016")
	says(exitOK, []string{"checkpoint", "verify", dir}, "step 8: ok\nstep 16: ok\n")
	says(exitOK, []string{"checkpoint", "export", dir, "--out", out, "--step", "8"}, "step 8 of digits")
	says(exitOK, []string{"eval", out}, "accuracy")
	says(exitOK, []string{"checkpoint", "export", dir, "--out", out}, "step 16 of digits")
	says(exitWrongInput, []string{"checkpoint", "export", dir, "--out", out, "--step", "9"}, "--step: there is no checkpoint of step 9")
	says(exitWrongInput, []string{"checkpoint", "export", dir, "--out", out, "--step", "x"}, "--step: ")
	says(exitWrongInput, []string{"checkpoint", "export", dir}, "--out: ")
	says(exitWrongInput, []string{"checkpoint", "export", dir, "--out", file}, "--out: ")
	says(exitWrongInput, []string{"checkpoint", "list", t.TempDir()}, "there is no checkpoint in")
	says(exitWrongInput, []string{"checkpoint", "verify", filepath.Join(dir, "none")}, "none")
	says(exitWrongInput, []string{"checkpoint", "burn", dir}, `unknown command "burn"`)
	says(exitWrongInput, []string{"testnet", "--run", file, "--resume"}, "--resume: ")
	says(exitWrongInput, []string{"testnet", "--run", file, "--checkpoint", dir}, "--checkpoint: nothing would be saved")
	says(exitWrongInput, []string{"testnet", "--run", file, "--checkpoint-every", "5"}, "--checkpoint: the run saves its state every 5 steps")
	says(exitWrongInput, []string{"up", file, "--resume"}, "--resume: ")
	list, err := filepath.Glob(filepath.Join(dir, "step-000000016", "unit-0001.rank-01.*"))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	bad := list[0]
	if err := os.Truncate(bad, 1000); err != nil {
		t.Fatal(err)
	}
	says(exitFailed, []string{"checkpoint", "verify", dir}, "step 8: ok\nstep 16: "+bad, "1 of 2 checkpoints can't be used")
	says(exitFailed, []string{"checkpoint", "export", dir, "--out", out}, bad)
	says(exitOK, []string{"checkpoint", "export", dir, "--out", out, "--step", "8"}, "step 8 of digits")
}

// TestGoingBackIsReported: without backups, one of four is killed; the report says how many steps that has cost.
func TestGoingBackIsReported(t *testing.T) {
	r := smallRun(60)
	r.Checkpoint.Every, r.Mesh.Backups, r.Mesh.LostAfter = 20, 0, 1
	file := writeRun(t, r)
	code, stdout, stderr := command(t, "testnet", "--run", file, "--json", "--report", t.TempDir(), "--peers", "4",
		"--checkpoint", filepath.Join(t.TempDir(), "kept"), "--kill", "3@step:50:backward")
	var got shoal.Report
	if err := json.Unmarshal([]byte(stdout), &got); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v, stderr %s", code, err, stderr)
	}
	if want := hashOf(t, file); got.StateHash != want || got.ResumedStep != 40 {
		t.Errorf("state hash %s, want %s; it went on from step %d, want 40", got.StateHash, want, got.ResumedStep)
	}
	if len(got.Faults) != 1 || got.Faults[0].StepsLost != 9 || got.Faults[0].SamplesLost != 9*16 || got.Faults[0].SamplesDoubled != 0 {
		t.Errorf("faults %+v, want one with 9 steps and 144 samples lost", got.Faults)
	}
}

// TestCheckpointsWhilePeersChange: peers are killed as they begin to save, the one that leads too, and others join. What is
// kept is whole, and any number of peers goes on from it, to the same losses and the same hash.
func TestCheckpointsWhilePeersChange(t *testing.T) {
	r := smallRun(50)
	r.Checkpoint.Every = 10
	file := writeRun(t, r)
	train := func(args ...string) (rep shoal.Report, said string) {
		t.Helper()
		code, stdout, stderr := command(t, append([]string{"testnet", "--run", file, "--json", "--report", t.TempDir()}, args...)...)
		if err := json.Unmarshal([]byte(stdout), &rep); code != exitOK || err != nil {
			t.Fatalf("%q: exit code %d, %v, stderr %s", args, code, err, stderr)
		}
		return rep, stderr
	}
	want, _ := train("--peers", "1", "--checkpoint-every", "0")
	same := func(args ...string) shoal.Report {
		t.Helper()
		got, said := train(args...)
		if got.StateHash != want.StateHash || !slices.Equal(got.Loss, want.Loss) {
			t.Errorf("%q: state hash %s, want %s; losses %v, want %v", args, got.StateHash, want.StateHash, got.Loss, want.Loss)
		}
		if strings.Contains(said, "was not saved") {
			t.Errorf("%q: it says %s", args, said)
		}
		return got
	}
	kept := map[string]string{}
	for peers, faults := range map[string][]string{"1": nil, "4": {"--kill", "2@step:20:checkpoint", "--join", "1@step:24", "--kill", "leader@step:40:checkpoint", "--join", "1@step:44"}} {
		dir := filepath.Join(t.TempDir(), "kept")
		kept[peers] = dir
		same(append([]string{"--peers", peers, "--checkpoint", dir}, faults...)...)
		list, err := shoal.Checkpoints(dir)
		if err != nil || len(list) != 2 || list[0].Step != 40 || list[1].Step != 50 {
			t.Fatalf("%+v, %v", list, err)
		}
		for i := range list {
			if err := list[i].Verify(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := os.RemoveAll(list[1].Path); err != nil { // there are ten steps to go then
			t.Fatal(err)
		}
	}
	for _, c := range [][2]string{{"4", "1"}, {"4", "3"}, {"4", "7"}, {"1", "4"}} {
		dir := filepath.Join(t.TempDir(), "kept")
		if err := os.CopyFS(dir, os.DirFS(kept[c[0]])); err != nil {
			t.Fatal(err)
		}
		if got := same("--peers", c[1], "--checkpoint", dir, "--resume"); got.ResumedStep != 40 {
			t.Errorf("resumed at step %d, want 40", got.ResumedStep)
		}
	}
}
