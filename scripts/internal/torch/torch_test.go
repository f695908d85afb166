package torch

import (
	"io"
	"slices"
	"strings"
	"testing"
)

// TestEnvironment: nothing is left that halves OpenBLAS, and everybody has as many threads.
func TestEnvironment(t *testing.T) {
	env, err := Environment([]string{"HOME=/home/x", "OPENBLAS_CORETYPE=Haswell", "OPENBLAS_L2_SIZE=1"}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"HOME=/home/x", "OMP_NUM_THREADS=2", "MKL_NUM_THREADS=2", "OPENBLAS_NUM_THREADS=2"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %v", want, env)
		}
	}
	if all := strings.Join(env, " "); strings.Contains(all, "CORETYPE") || strings.Contains(all, "L2_SIZE") {
		t.Errorf("environment %v", env)
	}
}

func TestAskAtTheEnd(t *testing.T) {
	in, requests := io.Pipe()
	go io.Copy(io.Discard, in) // ends with the pipe
	defer requests.Close()
	p := New("x.py", requests, strings.NewReader(""))
	if err := p.Ask("about", nil); err == nil || !strings.Contains(err.Error(), "x.py has ended") {
		t.Errorf("error %v", err)
	}
}
