package main

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// fake is the other side's end of the pipe: it answers each request with what answers has for what it asks.
func fake(t *testing.T, answers map[string]string) (*torch, <-chan request) {
	in, requests := io.Pipe()
	replies, out := io.Pipe()
	seen := make(chan request, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer out.Close()
		for lines := bufio.NewScanner(in); lines.Scan(); {
			var r request
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Errorf("%s: %v", lines.Text(), err)
			}
			seen <- r
			if _, err := io.WriteString(out, answers[r.Ask]+"\n"); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		requests.Close()
		replies.Close()
		<-done
	})
	return &torch{in: requests, out: json.NewDecoder(replies)}, seen
}

func TestMake(t *testing.T) {
	p, seen := fake(t, map[string]string{
		"step": `{"ways": [{"id": 4, "name": "eager"}], "parameters": 12, "missing": "torch.compile: none"}`,
		"turn": `{"seconds": 0.25}`,
		"op":   `{"error": "op: KeyError: 'Sqrt'"}`,
	})
	m, sides, err := p.make(request{Ask: "step", Model: "vit", Config: map[string]int{"dim": 64}})
	if err != nil || m.Parameters != 12 || m.Missing == "" || len(sides) != 1 || sides[0].name != "eager" {
		t.Fatalf("%+v, %v, %v", m, sides, err)
	}
	if r := <-seen; r.Model != "vit" || r.Config["dim"] != 64 {
		t.Errorf("request %+v", r)
	}
	if s, err := sides[0].turn(30 * time.Millisecond); s != 0.25 || err != nil {
		t.Errorf("turn: %v, %v", s, err)
	}
	if r := <-seen; r.Ask != "turn" || r.ID != 4 || r.Milliseconds != 30 {
		t.Errorf("request %+v", r)
	}
	if _, _, err := p.make(request{Ask: "op", Op: "Sqrt"}); err == nil || err.Error() != "torch_side.py: op: KeyError: 'Sqrt'" {
		t.Errorf("error %v", err)
	}
}

func TestAskAtTheEnd(t *testing.T) {
	in, requests := io.Pipe()
	go io.Copy(io.Discard, in) // ends with the pipe
	defer requests.Close()
	p := &torch{in: requests, out: json.NewDecoder(strings.NewReader(""))}
	if err := p.ask(request{Ask: "about"}, nil); err == nil || !strings.Contains(err.Error(), "torch_side.py has ended") {
		t.Errorf("error %v", err)
	}
}

// TestEnvironment: nothing is left that halves OpenBLAS, and everybody has as many threads.
func TestEnvironment(t *testing.T) {
	env, err := environment([]string{"HOME=/home/x", "OPENBLAS_CORETYPE=Haswell", "OPENBLAS_L2_SIZE=1"}, 2)
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
