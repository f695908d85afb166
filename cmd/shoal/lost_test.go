//go:build unix

package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"shoal"
	"shoal/peer"
)

// keepers are n programs of a run that save every 40 steps into one folder, and its hash when nobody disturbs it.
func keepers(t *testing.T, n, steps, lostAfter int) (all []*program, file, dir, hash string) {
	t.Helper()
	r := smallRun(steps)
	r.Checkpoint.Every, r.Mesh.LostAfter = 40, lostAfter
	file, dir = writeRun(t, r), filepath.Join(t.TempDir(), "kept")
	hash = hashOf(t, file)
	all = append(all, startProgram(t, "up", file, "--peers", string(rune('0'+n)), "--checkpoint", dir, "--listen", "127.0.0.1:0"))
	link := all[0].line(t, "shoal:")
	for range n - 1 {
		all = append(all, startProgram(t, "join", link, "--checkpoint", dir, "--listen", "127.0.0.1:0"))
	}
	for _, p := range all {
		p.line(t, "step ")
	}
	if !saving(t, dir) {
		t.Fatalf("no checkpoint is being saved; stderr: %s", all[0].stderr)
	}
	return all, file, dir, hash
}

// TestLostShards: when all who hold some shard are killed at once, those that are left say so, wait for mesh.lost_after, and
// end with one line that tells how to go on; and that goes on to the right hash. With three peers the quorum is lost too.
func TestLostShards(t *testing.T) {
	for _, peers := range []int{3, 5} {
		all, file, dir, hash := keepers(t, peers, 400, 2)
		for _, p := range all[:2] {
			p.cmd.Process.Kill()
		}
		for _, p := range all[2:] {
			p.says(t, "nobody else holds ")
		}
		if peers == 3 { // they still have the folder
			startProgram(t, "up", file, "--checkpoint", dir, "--resume", "--listen", "127.0.0.1:0").refused(t, dir+" is in use by run ")
		}
		for _, p := range all[2:] {
			p.refused(t, "ranges of the model that peer ")
			if line := p.stderr.String(); !strings.Contains(line, "go on from the last checkpoint with shoal up --resume") {
				t.Errorf("stderr is %q", line)
			}
		}
		list, err := shoal.Checkpoints(dir)
		if err != nil || len(list) == 0 {
			t.Fatal(list, err)
		}
		again := startProgram(t, "up", file, "--peers", "2", "--checkpoint", dir, "--resume", "--listen", "127.0.0.1:0")
		link := again.line(t, "shoal:")
		again.line(t, "going on from the checkpoint of step ")
		other := startProgram(t, "join", link, "--checkpoint", t.TempDir(), "--listen", "127.0.0.1:0")
		ends(t, hash, again, other)
	}
}

// TestLostShardsComeBack: those who hold some shard were only stopped, and go on within mesh.lost_after: so does the run.
func TestLostShardsComeBack(t *testing.T) {
	for _, peers := range []int{3, 5} {
		all, _, _, hash := keepers(t, peers, 400, 60)
		for _, p := range all[1:3] {
			p.cmd.Process.Signal(syscall.SIGSTOP)
		}
		all[0].says(t, "nobody else holds ")
		for _, p := range all[1:3] {
			p.cmd.Process.Signal(syscall.SIGCONT)
		}
		all[0].says(t, "the run goes on")
		ends(t, hash, all...)
	}
}

// A run whose peers have all been killed goes on, as does one that has no checkpoint yet, which begins afresh and says so.
func TestResumeWhenAllAreGone(t *testing.T) {
	all, file, dir, hash := keepers(t, 2, 400, 60)
	for _, p := range all {
		p.cmd.Process.Signal(os.Kill)
	}
	for _, p := range all {
		<-p.exited
	}
	again := startProgram(t, "up", file, "--checkpoint", dir, "--resume", "--listen", "127.0.0.1:0")
	again.line(t, "going on from the checkpoint of step ")
	ends(t, hash, again)
	again = startProgram(t, "up", file, "--checkpoint", filepath.Join(t.TempDir(), "none"), "--resume", "--listen", "127.0.0.1:0")
	again.says(t, "the run begins afresh")
	ends(t, hash, again)
}

// TestLostData: the only peer that has the run's files is killed. The others go on with what they have fetched, then wait and
// say so; one that joins with the files lets them go on, to the right hash.
func TestLostData(t *testing.T) {
	run, small := smallText(t)
	line, err := os.ReadFile(small)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "text")
	const size = 160 << 20 // more than two peers keep in memory
	if err := os.WriteFile(file, bytes.Repeat(line, size/len(line)), 0o600); err != nil {
		t.Fatal(err)
	}
	run.Data.Path, run.Train.Steps = file, 200
	yaml := writeRun(t, &run)
	hash := hashOf(t, yaml)
	up := startProgram(t, "up", yaml, "--peers", "3", "--listen", "127.0.0.1:0")
	text := up.line(t, "shoal:")
	link, err := peer.ParseLink(text)
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	first := startProgram(t, "join", text, "--listen", address, "--cache", "none")
	second := startProgram(t, "join", text, "--listen", "127.0.0.1:0", "--cache", "none")
	first.line(t, "step ")
	up.cmd.Process.Kill()
	waits, goes := "waiting for somebody who has the run's data", "the data are there, the run goes on"
	waiting := either(t, waits, first, second)
	with := startProgram(t, "join", link.Run+"."+link.Secret, "--via", address, "--listen", "127.0.0.1:0", "--data", "text:"+file)
	waiting.says(t, goes)
	ends(t, hash, first, second, with)
}

// either waits until one of two programs says a text, and returns it.
func either(t *testing.T, text string, a, b *program) *program {
	t.Helper()
	timeout := time.After(patient)
	for {
		var line string
		var ok bool
		var p *program
		select {
		case line, ok = <-a.stdout:
			p = a
		case line, ok = <-b.stdout:
			p = b
		case <-timeout:
			t.Fatalf("neither says %q", text)
		}
		if !ok {
			t.Fatalf("one ended without saying %q; stderr: %s", text, p.stderr)
		}
		if strings.Contains(line, text) {
			return p
		}
	}
}
