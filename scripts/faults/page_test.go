package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/testnet"
)

func TestPage(t *testing.T) {
	good := testnet.Cell{Kind: testnet.Kill, Role: "leader", Phase: "ready"}
	bad := testnet.Cell{Kind: testnet.Stop, Role: "owner", Phase: "ready"}
	untried := testnet.Cell{Kind: testnet.Stop, Role: "leader", Phase: "ready"}
	never := testnet.Cell{Kind: testnet.Kill, Role: "joiner", Phase: "checkpoint"}
	cells := []testnet.Cell{good, never, bad, untried}
	done := []testnet.Outcome{
		{Cell: good, Next: 123 * time.Millisecond, Step: 10 * time.Millisecond},
		{Cell: bad, Next: 5 * time.Second, Step: 20 * time.Millisecond, Problem: "too late"},
	}
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+begin+"old\n"+end+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time must not add anything
		if err := write(page, cells, done); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"before\n" + begin, end + "after\n",
		"SIGKILL: milliseconds until the next commit; at most 2000 and one step",
		"SIGSTOP: milliseconds until the next commit; at most 4000 and one step",
		"| | ready | checkpoint |", "| leader | 123 | not tried |", "| joiner | not tried | - |", "| owner | **5000** |",
		"took 10.0 to 20.0 ms. Of 2 cases these 1 were not as promised", "- stop owner in ready: too late\n",
		"- kill joiner in checkpoint: who is still being filled owns nothing",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "old") || strings.Count(string(text), begin) != 1 {
		t.Errorf("the page still has what was there before:\n%s", text)
	}
	if err := os.WriteFile(page, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(page, cells, done); err == nil {
		t.Error("a page without a place for the tables was written")
	}
}
