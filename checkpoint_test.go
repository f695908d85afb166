package shoal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shoal/internal/runfile"
)

// notices collects what a person is told.
type notices struct {
	mu    sync.Mutex
	lines []string
}

func (n *notices) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, text)
}

func (n *notices) count(part string) (c int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.lines {
		if strings.Contains(l, part) {
			c++
		}
	}
	return c
}

// keeping are n peers of the small run that share the folder dir for their checkpoints, every 10 steps.
func keeping(n int, dir string, change func(i int, c *Config)) []Config {
	return peers(n, func(i int, c *Config) {
		c.Checkpoint = dir
		if i == 0 {
			c.RunFile.Checkpoint.Every = 10
		}
		if change != nil {
			change(i, c)
		}
	})
}

// interrupted runs cfgs as together does, until the first peer has committed the given step: then all of them go.
func interrupted(t testing.TB, step int, cfgs []Config) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var there atomic.Int32
	for i := range cfgs {
		gone := make(chan struct{}) // closed once this peer waits no longer for others to take over
		cfgs[i].OnNotice = func(text string) {
			if strings.HasPrefix(text, "left the run") {
				close(gone)
			}
		}
		cfgs[i].Progress = func(p Progress) {
			if p.Step != step {
				return
			}
			if int(there.Add(1)) == len(cfgs) {
				cancel()
			}
			if len(cfgs) > 1 { // one alone waits for nobody
				<-gone
			}
		}
	}
	_, errs := runAll(ctx, cancel, cfgs)
	for i, err := range errs {
		if err == nil {
			t.Errorf("peer %d: the run went on to its end", i)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// fails runs one peer and returns its error, which must have all parts.
func fails(t *testing.T, c Config, parts ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	_, err := Run(ctx, c)
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want an error with %q", err, part)
		}
	}
	return err
}

func copyFolder(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func foldersIn(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "step-*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i] = filepath.Base(list[i])
	}
	return list
}

// TestResumeAtAnySize: four peers go after step 17, and one, three or seven go on from the checkpoint of step 10, with
// other shares and another strategy, to the same losses and hash as a run that was never interrupted; and one is gone on
// with by four.
func TestResumeAtAnySize(t *testing.T) {
	want := together(t, peers(1, nil)...)[0]
	four, one := t.TempDir(), t.TempDir()
	interrupted(t, 17, keeping(4, four, nil))
	interrupted(t, 27, keeping(1, one, nil))
	for _, c := range []struct {
		dir    string
		n      int
		step   int
		change func(i int, c *Config)
	}{
		{four, 1, 10, nil},
		{four, 3, 10, func(i int, c *Config) {
			c.Memory <<= i
			if i == 0 {
				c.RunFile.Mesh.Strategy, c.RunFile.Mesh.Wrap, c.RunFile.Wire.Packing = "zero2", "layers:2", "off"
			}
		}},
		{four, 7, 10, nil},
		{one, 4, 20, nil},
	} {
		t.Run(fmt.Sprintf("%d peers from step %d", c.n, c.step), func(t *testing.T) {
			dir := copyFolder(t, c.dir)
			var said notices
			reports := together(t, keeping(c.n, dir, func(i int, cfg *Config) {
				if c.change != nil {
					c.change(i, cfg)
				}
				if i == 0 {
					cfg.Resume, cfg.OnNotice = true, said.add
				}
			})...)
			for _, got := range reports {
				sameRun(t, want, got)
				if got.ResumedStep != c.step || got.Steps != 30 || !maps.Equal(got.StepHashes, want.StepHashes) {
					t.Errorf("resumed at step %d of %d with hashes %v, want step %d of 30 and %v", got.ResumedStep, got.Steps, got.StepHashes, c.step, want.StepHashes)
				}
			}
			if said.count(fmt.Sprintf("going on from the checkpoint of step %d", c.step)) != 1 || len(said.lines) != 1 {
				t.Errorf("said %q", said.lines)
			}
			if got := foldersIn(t, dir); !slices.Equal(got, []string{"step-000000020", "step-000000030"}) {
				t.Errorf("%v is there at the end, want the newest two", got)
			}
		})
	}

	// From its last step on there is nothing left but the evaluation.
	done := copyFolder(t, one)
	together(t, keeping(1, done, func(_ int, c *Config) { c.Resume = true })...)
	got := together(t, keeping(2, done, func(i int, c *Config) { c.Resume = i == 0 })...)[0]
	if sameRun(t, want, got); got.ResumedStep != 30 {
		t.Errorf("resumed at step %d, want 30", got.ResumedStep)
	}
}

func TestResumeWithoutACheckpoint(t *testing.T) {
	var said notices
	want := together(t, peers(1, nil)...)[0]
	got := together(t, keeping(2, filepath.Join(t.TempDir(), "new"), func(i int, c *Config) {
		if i == 0 {
			c.Resume, c.OnNotice = true, said.add
		}
	})...)[0]
	sameRun(t, want, got)
	if said.count("the run begins afresh") != 1 || got.ResumedStep != 0 {
		t.Errorf("said %q, resumed step %d", said.lines, got.ResumedStep)
	}
}

// TestWhoseCheckpoints: nobody goes on with another run's checkpoints, or writes over them, his own earlier ones included.
func TestWhoseCheckpoints(t *testing.T) {
	dir := t.TempDir()
	interrupted(t, 12, keeping(1, dir, nil))
	before, err := Checkpoints(dir)
	if err != nil || len(before) != 1 || before[0].Step != 10 || before[0].Name != "digits" {
		t.Fatalf("%+v, %v", before, err)
	}
	config := func(change func(c *Config)) Config {
		return keeping(1, dir, func(_ int, c *Config) { change(c) })[0]
	}
	fails(t, config(func(c *Config) {}), dir, "up to step 10", "--resume")
	for _, resume := range []bool{false, true} {
		fails(t, config(func(c *Config) { c.RunFile.Train.LR, c.Resume = 1e-3, resume }), "another run", "train.lr: 0.002")
	}
	fails(t, config(func(c *Config) { c.Checkpoint = "" }), "checkpoint: ", "every 10 steps")
	fails(t, config(func(c *Config) { c.RunFile.Checkpoint.Every = 0 }), "checkpoint: nothing would be saved")
	fails(t, config(func(c *Config) { c.Checkpoint, c.Resume = "", true }), "resume: give the folder")
	var wrong *ConfigError
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := fails(t, config(func(c *Config) { c.Checkpoint = filepath.Join(file, "x") }), file); !errors.As(err, &wrong) || wrong.Field != "checkpoint" {
		t.Errorf("%v is not about the folder", err)
	}
	after, err := Checkpoints(dir)
	if err != nil || len(after) != 1 || after[0].Verify(t.Context()) != nil {
		t.Errorf("%+v is left, %v", after, err)
	}
	// It goes on without saving, too.
	got := together(t, keeping(1, dir, func(_ int, c *Config) { c.RunFile.Checkpoint.Every, c.Resume = 0, true })...)[0]
	if got.ResumedStep != 10 {
		t.Errorf("resumed at step %d", got.ResumedStep)
	}
}

// TestJoinerOfCheckpoints: one that joins a run with checkpoints says where; the folder has those of this run or none.
func TestJoinerOfCheckpoints(t *testing.T) {
	dir := t.TempDir()
	interrupted(t, 12, keeping(2, dir, nil))
	ctx, cancel := context.WithCancel(t.Context())
	first := keeping(1, dir, nil)[0]
	link := make(chan string, 1)
	first.Resume, first.Peers, first.OnLink = true, 2, func(l string) { link <- l }
	first.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Run(ctx, first)
	}()
	defer func() { cancel(); <-done }()
	second := Config{Memory: 1 << 30, Cores: 1, Link: <-link}
	fails(t, second, "checkpoint: ", "every 10 steps")
	second.Checkpoint, second.Resume = dir, true
	fails(t, second, "resume: a peer that joins")

	// A run that began there is under way: no other may have its folder, and its own folder is not for others to resume.
	fails(t, keeping(1, dir, func(_ int, c *Config) { c.Resume = true })[0], "checkpoint: "+dir+" is in use by run ", "has not ended")
	other := keeping(1, t.TempDir(), nil)[0]
	otherLink := make(chan string, 1)
	other.Peers, other.OnLink, other.Listen = 2, func(l string) { otherLink <- l }, []string{"/ip4/127.0.0.1/tcp/0"}
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		Run(ctx, other)
	}()
	defer func() { cancel(); <-begun }()
	third := Config{Memory: 1 << 30, Cores: 1, Link: <-otherLink, Checkpoint: dir}
	fails(t, third, "checkpoint: "+dir+" is in use by run ")
	third.Checkpoint = copyFolder(t, dir)
	fails(t, third, "has checkpoints, the newest of step 10, and the run begins afresh")
}

// TestResumeWithoutTheFiles: peers that have not all of the checkpoint's files, or none, get their part from the others, once
// the first step is done. They save what they own then, in folders of their own, where others' newer files are out of the way.
func TestResumeWithoutTheFiles(t *testing.T) {
	want := together(t, peers(1, nil)...)[0]
	dir := t.TempDir()
	interrupted(t, 22, keeping(2, dir, nil))
	if err := os.Truncate(savedFile(t, dir, 20, "manifest"), 100); err != nil { // so that the one before is used
		t.Fatal(err)
	}
	short, stale := copyFolder(t, dir), t.TempDir()
	if err := os.Remove(savedFile(t, short, 10, "unit-0002.rank-01")); err != nil {
		t.Fatal(err)
	}
	interrupted(t, 22, keeping(1, stale, nil))
	folders := []string{dir, short, stale, filepath.Join(t.TempDir(), "new")}
	reports := together(t, keeping(4, "", func(i int, c *Config) {
		c.Checkpoint, c.Resume = folders[i], i == 0
	})...)
	for _, got := range reports {
		sameRun(t, want, got)
		if got.ResumedStep != 10 || len(got.Peers) != 4 || len(got.Views[0].Members) != 1 {
			t.Errorf("resumed at step %d, %d peers, views %+v", got.ResumedStep, len(got.Peers), got.Views)
		}
	}
	// All files of all folders together are the checkpoint of step 30.
	all := t.TempDir()
	for _, from := range folders {
		if got := foldersIn(t, from); !slices.Equal(got, []string{"step-000000020", "step-000000030"}) {
			t.Errorf("%s has %v", from, got)
		}
		list, err := filepath.Glob(filepath.Join(from, "step-000000030", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range list {
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.MkdirAll(filepath.Join(all, "step-000000030"), 0o777)
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(all, "step-000000030", filepath.Base(path)), b, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	whole(t, all, 30)
}

// whole wants dir to have checkpoints of just these steps, undamaged, without any other file in their folders.
func whole(t *testing.T, dir string, steps ...int) {
	t.Helper()
	list, err := Checkpoints(dir)
	if err != nil {
		t.Fatal(err)
	}
	var have []int
	for i := range list {
		c := &list[i]
		have = append(have, c.Step)
		if c.Err != nil {
			t.Errorf("step %d: %v", c.Step, c.Err)
			continue
		}
		if err := c.Verify(t.Context()); err != nil {
			t.Errorf("step %d: %v", c.Step, err)
		}
		files, err := os.ReadDir(c.Path)
		if err != nil || len(files) != len(c.entry.Manifest.Files)+1 {
			t.Errorf("step %d has %d files and a manifest of %d, %v", c.Step, len(files), len(c.entry.Manifest.Files), err)
		}
	}
	if !slices.Equal(have, steps) {
		t.Errorf("%s has checkpoints of %v, want %v", dir, have, steps)
	}
}

// savedFile is a file of a checkpoint, by what comes before its writer's letters.
func savedFile(t *testing.T, dir string, step int, name string) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("step-%09d", step), name+".*"))
	if err != nil || len(list) != 1 {
		t.Fatalf("%s of step %d: %v, %v", name, step, list, err)
	}
	return list[0]
}

// TestDamagedCheckpoint: a file of the newest checkpoint that is cut short, changed or missing is named, and the one before
// is used; where there is none before, the run doesn't start.
func TestDamagedCheckpoint(t *testing.T) {
	want := together(t, peers(1, nil)...)[0]
	dir := t.TempDir()
	interrupted(t, 22, keeping(3, dir, nil))
	for _, c := range []struct {
		what, name string
		damage     func(path string) error
	}{
		{"cut short", "unit-0001.rank-02", func(path string) error { return os.Truncate(path, 500) }},
		{"changed", "unit-0002.rank-00", func(path string) error { return flip(path, -1) }},
		{"changed header", "unit-0000.rank-01", func(path string) error { return flip(path, 20) }},
		{"changed losses", "history", func(path string) error { return flip(path, -9) }},
		{"missing", "unit-0003.rank-01", os.Remove},
		{"changed position", "manifest", func(path string) error { return flip(path, 200) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir := copyFolder(t, dir)
			path := savedFile(t, dir, 20, c.name)
			if err := c.damage(path); err != nil {
				t.Fatal(err)
			}
			list, err := Checkpoints(dir)
			if err != nil || len(list) != 2 {
				t.Fatal(list, err)
			}
			named := strings.TrimSuffix(filepath.Base(path), ".json")
			if err := list[1].Verify(t.Context()); err == nil || !strings.Contains(err.Error(), named) {
				t.Errorf("%v, want an error with %s", err, named)
			}
			if err := list[1].Export(t.Context(), t.TempDir()); err == nil {
				t.Error("it can be exported")
			}
			if err := list[0].Verify(t.Context()); err != nil {
				t.Errorf("the one before: %v", err)
			}
			var said notices
			got := together(t, keeping(2, dir, func(i int, c *Config) {
				if i == 0 {
					c.Resume, c.OnNotice = true, said.add
				}
			})...)[0]
			sameRun(t, want, got)
			if got.ResumedStep != 10 || said.count("the checkpoint of step 20 can't be used") != 1 || said.count(named) != 1 || said.count("going on from the checkpoint of step 10") != 1 {
				t.Errorf("resumed at step %d, said %q", got.ResumedStep, said.lines)
			}
			if got := foldersIn(t, dir); !slices.Equal(got, []string{"step-000000020", "step-000000030"}) {
				t.Errorf("%v is there at the end", got)
			}
		})
	}
	alone := copyFolder(t, dir)
	for _, step := range []int{10, 20} {
		if err := flip(savedFile(t, alone, step, "unit-0000.rank-00"), -4); err != nil {
			t.Fatal(err)
		}
	}
	fails(t, keeping(1, alone, func(_ int, c *Config) { c.Resume = true })[0], "no checkpoint in", "unit-0000.rank-00.", "safetensors is damaged")
	if got := foldersIn(t, alone); len(got) != 2 {
		t.Errorf("only %v are left", got)
	}
}

// flip changes a bit of a byte, counted from the end if at is negative.
func flip(path string, at int) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b[(at+len(b))%len(b)] ^= 4
	return os.WriteFile(path, b, 0o666)
}

// TestExportCheckpoint: the exported model is the one of that step, and is what a run of so many steps would have written.
func TestExportCheckpoint(t *testing.T) {
	dir, out, all := t.TempDir(), t.TempDir(), t.TempDir()
	got := together(t, keeping(3, dir, func(i int, c *Config) {
		if i == 0 {
			c.Out = all
		}
	})...)[0]
	list, err := Checkpoints(dir)
	if err != nil || len(list) != 2 || list[1].Step != 30 || list[1].Bytes == 0 {
		t.Fatal(list, err)
	}
	if err := list[1].Export(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{modelFile} {
		a, errA := os.ReadFile(filepath.Join(out, name))
		b, errB := os.ReadFile(filepath.Join(all, name))
		if errA != nil || errB != nil || !slices.Equal(a, b) {
			t.Errorf("%s differs from the one of --out, %v, %v", name, errA, errB)
		}
	}
	trained, err := OpenTrained(out)
	if err != nil {
		t.Fatal(err)
	}
	defer trained.Close()
	e, err := trained.Evaluate(t.Context(), Config{})
	if err != nil || e.Accuracy != got.Eval.Accuracy || trained.config.StateHash != got.StateHash {
		t.Errorf("%+v, %v; want accuracy %v, hash %s", e, err, got.Eval.Accuracy, got.StateHash)
	}
	if err := list[0].Export(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	earlier, err := OpenTrained(out)
	if err != nil {
		t.Fatal(err)
	}
	defer earlier.Close()
	if want := got.StepHashes["20"]; earlier.config.StateHash != want {
		t.Errorf("step 20 has hash %s, want %s", earlier.config.StateHash, want)
	}
	if _, err := earlier.Evaluate(t.Context(), Config{}); err != nil { // which compares the hash
		t.Error(err)
	}
}

// TestCheckpointsChangeNothing: how often and whether a run's state is kept is no matter of its result.
func TestCheckpointsChangeNothing(t *testing.T) {
	golden := golden(t)
	for _, c := range []runfile.Checkpoint{{Every: 1, Keep: 1}, {Every: 7, Keep: 3}} {
		dir := t.TempDir()
		got := together(t, keeping(3, dir, func(i int, cfg *Config) {
			if i == 0 {
				cfg.RunFile.Checkpoint = c
			}
		})...)[0]
		if got.StateHash != golden {
			t.Errorf("%+v: state hash %s, want %s", c, got.StateHash, golden)
		}
		if n := len(foldersIn(t, dir)); n != c.Keep {
			t.Errorf("%+v: %d checkpoints are left", c, n)
		}
	}
}
