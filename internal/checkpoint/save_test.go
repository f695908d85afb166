package checkpoint

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"shoal/fsdp"
)

// finished is a checkpoint of which all members have said that they saved it.
func finished(t *testing.T, s *Saver, step int) *fsdp.Saved {
	t.Helper()
	put(t, s.Dir, "", step)
	m := sample()
	saved := &fsdp.Saved{Position: m.Position, Files: []fsdp.SavedFile{{Name: "unit-0000.rank-00.safetensors"}, {Name: "history.safetensors"}}}
	saved.Position.Step, saved.Position.Updates = step, step
	var err error
	if saved.Manifest, err = s.Manifest(saved); err != nil {
		t.Fatal(err)
	}
	return saved
}

// TestFinishFails: what goes wrong is said once until it goes well again, and what was written of it goes away.
func TestFinishFails(t *testing.T) {
	var said []string
	s := &Saver{Dir: t.TempDir(), Run: Run{Task: "mine"}, Keep: 2, Notice: func(text string) { said = append(said, text) }}
	want := func(notices int, part string, folders ...string) {
		t.Helper()
		if len(said) != notices || !strings.Contains(said[len(said)-1], part) {
			t.Errorf("said %q, want %d lines and %q in the last", said, notices, part)
		}
		if got := names(t, s.Dir); !slices.Equal(got, folders) {
			t.Errorf("%v is there, want %v", got, folders)
		}
	}
	s.Finish(finished(t, s, 10))
	if len(said) > 0 {
		t.Fatalf("said %q", said)
	}
	s.Finish(&fsdp.Saved{Position: finished(t, s, 20).Position, Failed: "rank 1: the disk is full"})
	want(1, "the checkpoint of step 20 was not saved, training goes on: rank 1: the disk is full", "step-000000010")
	blocked := finished(t, s, 30)
	if err := os.MkdirAll(filepath.Join(stepFolder(s.Dir, 30), manifestFile, "x"), 0o777); err != nil {
		t.Fatal(err)
	}
	s.Finish(blocked)
	want(1, "step 20", "step-000000010", "step-000000030")
	if err := os.RemoveAll(filepath.Join(stepFolder(s.Dir, 30), manifestFile)); err != nil {
		t.Fatal(err)
	}
	s.Finish(finished(t, s, 40)) // it sweeps what is partial before it
	want(1, "step 20", "step-000000010", "step-000000040")
	other := finished(t, s, 50)
	other.Manifest = "ff"
	s.Finish(other)
	want(2, "step 50 was not saved, training goes on: its manifest has hash", "step-000000010", "step-000000040", "step-000000050")
	s.Finish(finished(t, s, 50)) // another peer that shares the folder
	s.Finish(finished(t, s, 50))
	want(2, "step 50", "step-000000040", "step-000000050")
}

// Names that other members made up go nowhere.
func TestManifestOfForeignNames(t *testing.T) {
	s := &Saver{Dir: t.TempDir()}
	saved := finished(t, s, 10)
	for _, name := range []string{"../../x", "/etc/passwd", "unit-0000.rank-00.safetensors/..", "", "run.json"} {
		saved.Files[0].Name = name
		if _, err := s.Manifest(saved); err == nil {
			t.Errorf("a file named %q is allowed", name)
		}
	}
}

// part is what rank r gives to its Saver, in a run whose parameters are all frozen and none are here.
func part(step, rank int) *fsdp.Part {
	return &fsdp.Part{Step: step, Rank: rank, History: rank == 0, Losses: make([]float64, step)}
}

// TestSavedAgain: while a step is being saved, rank 0 is stopped and taken out; another member becomes rank 0 and saves the
// step again, into the same folder. What the first has written or writes later is no part of the checkpoint, and goes.
func TestSavedAgain(t *testing.T) {
	dir := t.TempDir()
	var said []string
	saver := func() *Saver {
		return &Saver{Dir: dir, Run: Run{Task: "mine", ID: "r"}, Keep: 2, Notice: func(text string) { said = append(said, text) }}
	}
	save := func(s *Saver, step int) []fsdp.SavedFile {
		t.Helper()
		files, err := s.Save(part(step, 0))
		if err != nil || len(files) != 1 || files[0].Bytes == 0 {
			t.Fatalf("%+v, %v", files, err)
		}
		return files
	}
	finish := func(s *Saver, step int, files []fsdp.SavedFile) *fsdp.Saved {
		t.Helper()
		saved := &fsdp.Saved{Position: sample().Position, Files: files}
		saved.Position.Step, saved.Position.Updates = step, step
		var err error
		if saved.Manifest, err = s.Manifest(saved); err != nil {
			t.Fatal(err)
		}
		s.Finish(saved)
		return saved
	}
	whole := func(step int, files []fsdp.SavedFile) {
		t.Helper()
		if got := names(t, stepFolder(dir, step)); !slices.Equal(got, []string{files[0].Name, manifestFile}) {
			t.Errorf("step %d: %v is there, want %s and the manifest", step, got, files[0].Name)
		}
		entries, err := List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			c, err := Open(e)
			if err == nil {
				err = c.Verify(t.Context())
				c.Close()
			}
			if err != nil {
				t.Errorf("step %d: %v", e.Step, err)
			}
		}
	}
	old, now := saver(), saver()
	late := save(old, 10)
	files := save(now, 10)
	if late[0].Name == files[0].Name {
		t.Fatal("two members use one name")
	}
	saved := finish(now, 10, files)
	whole(10, files)

	save(old, 10) // it goes on
	if err := os.WriteFile(filepath.Join(stepFolder(dir, 10), late[0].Name+".partABC"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	saved.Failed = "it was cut off"
	old.Finish(saved) // and believes that nothing came of it
	whole(10, files)

	save(old, 10)
	second := save(now, 20)
	finish(now, 20, second)
	whole(20, second)
	whole(10, files)

	save(old, 20)
	if swept, err := Sweep(dir); err != nil || len(swept) > 0 {
		t.Errorf("swept %v, %v", swept, err)
	}
	whole(20, second)
	if len(said) != 1 {
		t.Errorf("said %q", said)
	}
}

// TestFinishTogether: all peers of a run finish a checkpoint in the folder that they share, at the same time.
func TestFinishTogether(t *testing.T) {
	const peers, steps = 4, 20
	dir := t.TempDir()
	said := make(chan string, peers*steps)
	var all [peers]*Saver
	for i := range all {
		all[i] = &Saver{Dir: dir, Run: Run{Task: "mine"}, Keep: 1, Notice: func(text string) { said <- text }}
	}
	for step := 1; step <= steps; step++ {
		files, err := all[0].Save(part(step, 0))
		if err != nil {
			t.Fatal(err)
		}
		saved := &fsdp.Saved{Position: sample().Position, Files: files}
		saved.Position.Step, saved.Position.Updates = step, step
		if saved.Manifest, err = all[0].Manifest(saved); err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for _, s := range all {
			group.Go(func() { s.Finish(saved) })
		}
		group.Wait()
	}
	close(said)
	for text := range said {
		t.Error(text)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"step-000000020"}) {
		t.Errorf("%v is left", got)
	}
}
