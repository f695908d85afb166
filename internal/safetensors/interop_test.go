package safetensors

import (
	"bytes"
	"maps"
	"os/exec"
	"path/filepath"
	"testing"
)

// What testdata/interop.py has too.
var (
	interopTensors = []Tensor{
		{"wte.weight", F32, []int{7, 3}},
		{"h.0.ln_1.weight", BF16, []int{5}},
		{"name with \"quotes\" and ü", I32, []int{2, 1, 2}},
		{"scalar", F64, nil},
		{"empty", F32, []int{0, 3}},
		{"half", F16, []int{3}},
		{"ids", I64, []int{2}},
		{"mask", Bool, []int{3}},
		{"bytes", U8, []int{9}},
	}
	interopMetadata = map[string]string{"format": "pt", "note": "<&> ü"}
)

func interopValue(t Tensor) []byte {
	b, limit := make([]byte, t.Bytes()), 251
	if t.DType == Bool {
		limit = 2
	}
	for i := range b {
		b[i] = byte(i % limit)
	}
	return b
}

// The format's own library and numpy read what is written here, and the other way round.
func TestInterop(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Python")
	}
	python := "../../build/venv/bin/python"
	if err := exec.Command(python, "-c", "import numpy, safetensors").Run(); err != nil {
		t.Skipf("needs the Python environment that scripts/venv.sh makes: %v", err)
	}
	run := func(verb, path string) {
		t.Helper()
		if out, err := exec.Command(python, "testdata/interop.py", verb, path).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	ours, theirs := filepath.Join(t.TempDir(), "ours"), filepath.Join(t.TempDir(), "theirs")

	w, err := Create(ours, interopTensors, interopMetadata)
	if err != nil {
		t.Fatal(err)
	}
	for _, tensor := range interopTensors {
		if err := w.WriteAt(tensor.Name, 0, interopValue(tensor)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	run("read", ours)

	run("write", theirs)
	f, err := Open(theirs)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n := len(f.Tensors()); n != len(interopTensors) || !maps.Equal(f.Metadata(), interopMetadata) {
		t.Errorf("%d tensors, metadata %v", n, f.Metadata())
	}
	for _, want := range interopTensors {
		got, ok := f.Tensor(want.Name)
		b := make([]byte, want.Bytes())
		err := f.ReadAt(want.Name, 0, b)
		if !ok || err != nil || got.DType != want.DType || !bytes.Equal(b, interopValue(want)) {
			t.Errorf("%s: %+v, %x, %v", want.Name, got, b, err)
		}
	}
}
