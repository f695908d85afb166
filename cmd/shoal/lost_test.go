//go:build unix

package main

import (
	"bytes"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shoal"
	"shoal/peer"
)

// kept is a run whose programs keep checkpoints.
type kept struct {
	all  []*program // the first one has started it
	file string
	link string   // by way of the last one
	dirs []string // by program
	hash string   // when nobody disturbs it
}

// keepers are n programs of a run that save every 40 steps, into one folder or each into its own.
func keepers(t *testing.T, n, steps, lostAfter int, apart bool) (k kept) {
	t.Helper()
	r := smallRun(steps)
	r.Checkpoint.Every, r.Mesh.LostAfter = 40, lostAfter
	k.file = writeRun(t, r)
	k.hash = hashOf(t, k.file)
	for i := range n {
		dir := filepath.Join(t.TempDir(), "kept")
		if i > 0 && !apart {
			dir = k.dirs[0]
		}
		k.dirs = append(k.dirs, dir)
		what := []string{"up", k.file, "--peers", strconv.Itoa(n)}
		if i > 0 {
			what = []string{"join", k.link}
		}
		p := startProgram(t, append(what, "--checkpoint", dir, "--listen", "127.0.0.1:0")...)
		if i == 0 {
			k.link = p.line(t, "shoal:")
		} else {
			k.link = strings.Fields(p.line(t, "others can join through this peer, too: "))[9]
		}
		k.all = append(k.all, p)
	}
	for _, p := range k.all {
		p.line(t, "step ")
	}
	if !saving(t, k.dirs[0]) {
		t.Fatalf("no checkpoint is being saved; stderr: %s", k.all[0].stderr)
	}
	return k
}

// killed kills the first of them at one instant, and returns the others once all of these know.
func (k *kept) killed(t *testing.T, n int) (left []*program) {
	t.Helper()
	for _, p := range k.all[:n] {
		p.cmd.Process.Kill()
	}
	for _, p := range k.all[n:] {
		p.says(t, "nobody else holds ")
	}
	return k.all[n:]
}

// TestLostShardsGoBack: when all who hold some shard are killed at once, those that are left go back to the last checkpoint by
// themselves, and to the right hash, with one that joins late.
func TestLostShardsGoBack(t *testing.T) {
	t.Parallel()
	k := keepers(t, 5, 800, 2, false)
	left := k.killed(t, 2)
	for _, p := range left {
		p.says(t, ": going back to the checkpoint of step ")
	}
	late := startProgram(t, "join", k.link, "--checkpoint", k.dirs[0], "--listen", "127.0.0.1:0")
	late.line(t, "step ")
	ends(t, k.hash, append(left, late)...)
}

// TestStoppedForTooLong: those who hold some shard were only stopped, but for longer than mesh.lost_after. The others have gone
// back meanwhile; when they go on they are told so, and come in again.
func TestStoppedForTooLong(t *testing.T) {
	t.Parallel()
	k := keepers(t, 5, 800, 2, false)
	for _, p := range k.all[:2] {
		p.cmd.Process.Signal(syscall.SIGSTOP)
	}
	for _, p := range k.all[2:] {
		p.says(t, ": going back to the checkpoint of step ")
	}
	for _, p := range k.all[:2] {
		p.cmd.Process.Signal(syscall.SIGCONT)
	}
	for _, p := range k.all[:2] {
		p.says(t, "joining again as a newcomer")
	}
	ends(t, k.hash, k.all...)
}

// TestKilledGoingBack: one more is killed while the others go back.
func TestKilledGoingBack(t *testing.T) {
	t.Parallel()
	k := keepers(t, 7, 400, 2, false)
	left := k.killed(t, 2)
	left[0].says(t, ": going back to the checkpoint of step ")
	left[1].cmd.Process.Kill()
	ends(t, k.hash, append(left[:1:1], left[2:]...)...)
}

// TestRecoverGoesBack: with the shards the quorum is lost, too. The one that is left waits, and goes back to the last
// checkpoint when it is told to.
func TestRecoverGoesBack(t *testing.T) {
	ownCache(t)
	k := keepers(t, 3, 400, 2, false)
	for _, p := range k.all[:2] {
		p.cmd.Process.Kill()
	}
	left := k.all[2]
	left.says(t, "shoal recover goes back to the checkpoint of step ")
	rescue := startProgram(t, "recover", "--yes", "--pid", strconv.Itoa(left.cmd.Process.Pid))
	if code := rescue.end(t, patient); code != exitOK {
		t.Errorf("recover: exit code %d, stderr %q", code, rescue.stderr)
	}
	left.says(t, ": going back to the checkpoint of step ")
	ends(t, k.hash, left)
}

// TestLostShards: where nobody has all files of a checkpoint, those that are left wait for mesh.lost_after and end with one
// line that tells how to go on; and that goes on to the right hash. With three peers the quorum is lost too.
func TestLostShards(t *testing.T) {
	t.Parallel()
	for _, peers := range []int{3, 5} {
		k := keepers(t, peers, 400, 2, true)
		left := k.killed(t, 2)
		if peers == 3 { // it still has the folder
			dir := k.dirs[2]
			startProgram(t, "up", k.file, "--checkpoint", dir, "--resume", "--listen", "127.0.0.1:0").refused(t, dir+" is in use by run ")
		}
		for _, p := range left {
			p.refused(t, "ranges of the model that peer ")
			if line := p.stderr.String(); !strings.Contains(line, "go on from the last checkpoint with shoal up --resume") {
				t.Errorf("stderr is %q", line)
			}
		}
		dir := merged(t, k.dirs)
		list, err := shoal.Checkpoints(dir)
		if err != nil || len(list) == 0 {
			t.Fatal(list, err)
		}
		again := startProgram(t, "up", k.file, "--peers", "2", "--checkpoint", dir, "--resume", "--listen", "127.0.0.1:0")
		link := again.line(t, "shoal:")
		again.line(t, "going on from the checkpoint of step ")
		other := startProgram(t, "join", link, "--checkpoint", t.TempDir(), "--listen", "127.0.0.1:0")
		ends(t, k.hash, again, other)
	}
}

// merged is a folder with the files of several.
func merged(t *testing.T, dirs []string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "merged")
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			name = filepath.Join(to, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				return err
			}
			return os.WriteFile(name, b, 0o600)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// TestLostShardsComeBack: those who hold some shard were only stopped, and go on within mesh.lost_after: so does the run.
func TestLostShardsComeBack(t *testing.T) {
	t.Parallel()
	for _, peers := range []int{3, 5} {
		k := keepers(t, peers, 400, 60, false)
		all := k.all
		for _, p := range all[1:3] {
			p.cmd.Process.Signal(syscall.SIGSTOP)
		}
		all[0].says(t, "nobody else holds ")
		for _, p := range all[1:3] {
			p.cmd.Process.Signal(syscall.SIGCONT)
		}
		all[0].says(t, "the run goes on")
		ends(t, k.hash, all...)
	}
}

// A run whose peers have all been killed goes on, as does one that has no checkpoint yet, which begins afresh and says so.
func TestResumeWhenAllAreGone(t *testing.T) {
	k := keepers(t, 2, 400, 60, false)
	file, dir, hash := k.file, k.dirs[0], k.hash
	for _, p := range k.all {
		p.cmd.Process.Signal(os.Kill)
	}
	for _, p := range k.all {
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
	t.Parallel()
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
