package shoal

import (
	"context"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestGoesBack: without backups, one of three dies after step 15. The others go back to the checkpoint of step 10 by
// themselves: what came after it is dropped and made again, and they end as if nothing had happened.
func TestGoesBack(t *testing.T) {
	want := together(t, peers(1, nil)...)[0]
	dir, out := t.TempDir(), t.TempDir()
	var said notices
	var steps []int
	reports := together(t, keeping(3, dir, func(i int, c *Config) {
		switch i {
		case 0:
			c.RunFile.Mesh.Backups, c.RunFile.Mesh.LostAfter = 0, 1
			c.OnNotice = said.add
			c.Progress = func(p Progress) {
				if p.Phase == Training {
					steps = append(steps, p.Step)
				}
			}
		case 1:
			c.Out = out
		case 2:
			c.Progress = func(p Progress) {
				if p.Step == 15 {
					runtime.Goexit()
				}
			}
		}
	})...)
	for _, got := range reports[:2] {
		sameRun(t, want, got)
		if got.ResumedStep != 10 || got.Steps != 30 || !maps.Equal(got.StepHashes, want.StepHashes) {
			t.Errorf("it says that it went on from step %d of %d with hashes %v, want step 10 of 30 and %v", got.ResumedStep, got.Steps, got.StepHashes, want.StepHashes)
		}
		if n := len(got.Views); n != 2 || got.Views[1].Step != 10 || len(got.Views[1].Members) != 2 {
			t.Errorf("the views are %+v", got.Views)
		}
		if !reflect.DeepEqual(got.Views, reports[0].Views) {
			t.Errorf("the views are %+v and %+v", got.Views, reports[0].Views)
		}
	}
	var all []int
	for s := 1; s <= 15; s++ {
		all = append(all, s)
	}
	for s := 11; s <= 30; s++ {
		all = append(all, s)
	}
	if !slices.Equal(steps, all) {
		t.Errorf("it says that it has done the steps %v, want %v", steps, all)
	}
	if said.count("unless that comes back, the run goes back to the checkpoint of step 10") != 1 || said.count(": going back to the checkpoint of step 10: 2 peers now") != 1 {
		t.Errorf("said %q", said.lines)
	}
	if got := foldersIn(t, dir); !slices.Equal(got, []string{"step-000000020", "step-000000030"}) {
		t.Errorf("%v is there at the end, want the newest two", got)
	}
	if _, err := OpenTrained(out); err != nil {
		t.Error(err)
	}
}

// TestGoesBackWithoutAllFiles: the run goes back when two peers are in it that have not all files of the checkpoint. These stay
// members, wait until the others have read it, and get their parts from them; all end as if nothing had happened.
func TestGoesBackWithoutAllFiles(t *testing.T) {
	run := small()
	run.Train.Steps, run.Mesh.Backups, run.Mesh.LostAfter = 450, 0, 1
	want := together(t, peers(1, func(_ int, c *Config) { c.RunFile = run })...)[0]
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	kept, whole := *run, make(chan struct{}) // closed when there is a checkpoint
	saved := sync.OnceFunc(func() { close(whole) })
	kept.Checkpoint.Every = 150
	var link string
	var said notices
	cfgs := keeping(3, t.TempDir(), func(i int, c *Config) {
		switch i {
		case 0:
			c.RunFile = &kept
			c.OnOwnLink = func(l string) { link = l }
			c.Progress = func(p Progress) {
				if p.Step == 151 {
					saved()
				}
			}
		case 2:
			c.Progress = func(p Progress) {
				if p.Peers == 5 {
					runtime.Goexit()
				}
			}
		}
	})
	cfgs[0].RunFile.Checkpoint.Every = 150
	var late [2]*Report
	var lateErr [2]error
	var wg sync.WaitGroup
	for i := range late {
		wg.Go(func() {
			select {
			case <-whole:
			case <-ctx.Done():
				return
			}
			late[i], lateErr[i] = Run(ctx, Config{Link: link, Memory: 1 << 30, Cores: 1, Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Checkpoint: t.TempDir(), OnNotice: said.add})
		})
	}
	reports, errs := runAll(ctx, cancel, cfgs)
	wg.Wait()
	for i, got := range []*Report{reports[0], reports[1], late[0], late[1]} {
		if err := slices.Concat(errs[:2], lateErr[:])[i]; err != nil {
			t.Fatal(err)
		}
		sameRun(t, want, got)
		if got.ResumedStep == 0 || got.ResumedStep%150 != 0 || !maps.Equal(got.StepHashes, want.StepHashes) {
			t.Errorf("peer %d: it says that it went on from step %d", i, got.ResumedStep)
		}
		if !reflect.DeepEqual(got.Views, reports[0].Views) {
			t.Errorf("peer %d: the views are %+v, want %+v", i, got.Views, reports[0].Views)
		}
	}
	if said.count("this peer doesn't have all of it, and comes in again when the others have read it") != 2 {
		t.Errorf("the late ones said %q", said.lines)
	}
}
