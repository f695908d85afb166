package main

import (
	"bufio"
	"encoding/json"
	"io"
	"testing"
	"time"

	torchside "shoal/scripts/internal/torch"
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
	return &torch{torchside.New("torch_side.py", requests, replies)}, seen
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
