package main

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"shoal/scripts/internal/torch"
)

// fakeGroup is a group whose processes answer every request with these lines.
func fakeGroup(t *testing.T, answers ...string) (*group, chan string) {
	g, asked := &group{kill: func() {}}, make(chan string, len(answers))
	for _, answer := range answers {
		in, requests := io.Pipe()
		replies, out := io.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for lines := bufio.NewScanner(in); lines.Scan(); {
				asked <- lines.Text()
				if _, err := io.WriteString(out, answer+"\n"); err != nil {
					return
				}
			}
		}()
		g.processes = append(g.processes, torch.New("rank", requests, replies))
		t.Cleanup(func() {
			requests.Close()
			replies.Close()
			<-done
		})
	}
	return g, asked
}

func TestAsk(t *testing.T) {
	g, asked := fakeGroup(t, `{"seconds": 2, "memory": 5}`, `{"seconds": 3, "cpu": 1, "memory": 4}`)
	got, err := ask[took](g, func(rank int) any { return begin{Ask: "begin", Rank: rank, World: 2} })
	if err != nil || len(got) != 2 || got[0] != (took{Seconds: 2, Memory: 5}) || got[1] != (took{Seconds: 3, CPU: 1, Memory: 4}) {
		t.Fatalf("%v, %v", got, err)
	}
	ranks := map[int]bool{}
	for range 2 {
		var b begin
		if err := json.Unmarshal([]byte(<-asked), &b); err != nil || b.World != 2 {
			t.Errorf("%+v, %v", b, err)
		}
		ranks[b.Rank] = true
	}
	if !ranks[0] || !ranks[1] {
		t.Errorf("ranks %v", ranks)
	}
}

// TestAskFails: an error of one process is told, and ends the others, who would wait for it.
func TestAskFails(t *testing.T) {
	g, _ := fakeGroup(t, `{"seconds": 2}`, `{"error": "steps: RuntimeError: no"}`)
	killed := false
	g.kill = func() { killed = true }
	if _, err := ask[took](g, func(int) any { return steps{"steps", 1} }); err == nil || !strings.Contains(err.Error(), "rank: steps: RuntimeError: no") {
		t.Errorf("error %v", err)
	}
	if !killed {
		t.Error("the other process goes on")
	}
}
