package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// put makes a checkpoint of task in dir, a partial one if task is empty.
func put(t *testing.T, dir, task string, step int) string {
	t.Helper()
	path := stepFolder(dir, step)
	if err := os.MkdirAll(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "unit-0000.rank-00.safetensors"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	if task == "" {
		return path
	}
	m := sample()
	m.Task, m.Step, m.Updates = task, step, step
	text, _, err := m.encode()
	if err == nil {
		err = writeFile(filepath.Join(path, manifestFile), text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// names are what is in dir.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestClaim(t *testing.T) {
	mine := Run{Task: "mine", RunFile: "a"}
	dir := filepath.Join(t.TempDir(), "made", "if", "missing")
	for range 2 {
		if err := Claim(dir, mine); err != nil {
			t.Fatal(err)
		}
	}
	var other *OtherRunError
	if err := Claim(dir, Run{Task: "theirs"}); !errors.As(err, &other) || other.RunFile != "a" || !strings.Contains(err.Error(), dir) {
		t.Errorf("another run: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, runFile), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := Claim(dir, mine); err == nil || !strings.Contains(err.Error(), "isn't known whose") {
		t.Errorf("a broken %s: %v", runFile, err)
	}

	dir = t.TempDir() // checkpoints that were copied there
	put(t, dir, "mine", 10)
	if err := Claim(dir, mine); err != nil {
		t.Error(err)
	}
	dir = t.TempDir()
	put(t, dir, "theirs", 10)
	if err := Claim(dir, mine); !errors.As(err, &other) {
		t.Errorf("another run's checkpoint: %v", err)
	}
	dir = t.TempDir()
	path := put(t, dir, "", 10) // who knows what that is
	if err := Claim(dir, mine); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a partial checkpoint of nobody: %v", err)
	}
}

func TestSweepAndPrune(t *testing.T) {
	dir := t.TempDir()
	for step, task := range map[int]string{10: "mine", 20: "mine", 30: "", 40: "mine", 50: "mine", 60: ""} {
		put(t, dir, task, step)
	}
	if err := os.WriteFile(filepath.Join(dir, "step-notes.txt"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	entries, err := List(dir)
	if err != nil || len(entries) != 6 || entries[2].Err != ErrPartial || entries[3].Manifest == nil || entries[3].Hash == "" {
		t.Fatalf("%+v, %v", entries, err)
	}
	if err := SetAside(entries[3]); err != nil {
		t.Fatal(err)
	}
	want := func(names_ ...string) {
		t.Helper()
		if got := names(t, dir); !slices.Equal(got, append(names_, "step-notes.txt")) {
			t.Errorf("%v is there, want %v", got, names_)
		}
	}
	if err := prune(dir, 20, 2); err != nil {
		t.Error(err)
	}
	want("step-000000010", "step-000000020", "step-000000030", "step-000000040.damaged", "step-000000050", "step-000000060")
	if err := prune(dir, 50, 2); err != nil { // 60 may be in the making
		t.Error(err)
	}
	want("step-000000020", "step-000000050", "step-000000060")
	if swept, err := Sweep(dir); err != nil || !slices.Equal(swept, []int{60}) {
		t.Errorf("swept %v, %v", swept, err)
	}
	if err := prune(dir, 50, 1); err != nil {
		t.Error(err)
	}
	want("step-000000050")
}

func TestListNamesDamagedManifests(t *testing.T) {
	dir := t.TempDir()
	for step, text := range map[int]string{10: "", 20: "{", 30: "x"} {
		if err := os.WriteFile(filepath.Join(put(t, dir, "mine", step), manifestFile), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	wrong := put(t, dir, "mine", 40)
	if err := os.Rename(wrong, stepFolder(dir, 50)); err != nil {
		t.Fatal(err)
	}
	entries, err := List(dir)
	if err != nil || len(entries) != 4 {
		t.Fatalf("%+v, %v", entries, err)
	}
	for _, e := range entries {
		if e.Err == nil || e.Manifest != nil {
			t.Errorf("step %d: %v", e.Step, e.Err)
		}
		if _, err := Open(e); err == nil {
			t.Errorf("step %d can be opened", e.Step)
		}
	}
	if _, err := List(filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that is not there can be listed")
	}
}
