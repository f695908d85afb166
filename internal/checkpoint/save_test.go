package checkpoint

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shoal/fsdp"
)

// finished is a checkpoint of which all members have said that they saved it.
func finished(t *testing.T, s *Saver, step int) *fsdp.Saved {
	t.Helper()
	put(t, s.Dir, "", step)
	m := sample()
	saved := &fsdp.Saved{Position: m.Position, Files: []fsdp.SavedFile{{Name: "unit-0000.rank-00.safetensors"}, {Name: historyFile}}}
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
