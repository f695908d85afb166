package main

import (
	"strings"
	"testing"
	"time"

	"shoal/testnet"
)

func TestTables(t *testing.T) {
	good := testnet.Cell{Kind: testnet.Kill, Role: "leader", Phase: "ready"}
	bad := testnet.Cell{Kind: testnet.Stop, Role: "owner", Phase: "ready"}
	untried := testnet.Cell{Kind: testnet.Stop, Role: "leader", Phase: "ready"}
	never := testnet.Cell{Kind: testnet.Kill, Role: "joiner", Phase: "checkpoint"}
	cells := []testnet.Cell{good, never, bad, untried}
	done := []testnet.Outcome{
		{Cell: good, Next: 123 * time.Millisecond, Step: 10 * time.Millisecond},
		{Cell: bad, Next: 5 * time.Second, Step: 20 * time.Millisecond, Problem: "too late"},
	}
	text := string(tables(cells, done))
	for _, want := range []string{
		"SIGKILL: milliseconds until the next commit; at most 2000 and one step",
		"SIGSTOP: milliseconds until the next commit; at most 4000 and one step",
		"| | ready | checkpoint |", "| leader | 123 | not tried |", "| joiner | not tried | - |", "| owner | **5000** |",
		"took 10.0 to 20.0 ms. Of 2 cases these 1 were not as promised", "- stop owner in ready: too late\n",
		"- kill joiner in checkpoint: who is still being filled owns nothing",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the tables lack %q:\n%s", want, text)
		}
	}
}
