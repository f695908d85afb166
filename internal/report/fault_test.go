package report

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestFaultTable(t *testing.T) {
	r := sample(2)
	r.Faults = append(r.Faults, Fault{Kind: "kill", Peer: 1, Role: "leader", Phase: "ready", Step: 90, NextCommitMS: Number(math.NaN())})
	for range 30 {
		r.Faults = append(r.Faults, Fault{Kind: "leave", Peer: 4, Phase: "gather", Step: 100})
	}
	r.Faults = append(r.Faults, Fault{Kind: "stop", Peer: 3, Phase: "update", Step: 200, SamplesDoubled: 7})
	r.Soak.HashEqual = false
	var b strings.Builder
	if err := r.FaultTable(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"kill   peer 2             step 40, backward      next commit   212 ms, nothing lost\n",
		"join   peer 5             step 80                next commit   1.25 s, LOST 1 steps, 64 samples, 3 samples doubled\n",
		"kill   peer 1 as leader   step 90, ready         next commit        -, nothing lost\n",
		"stop   peer 3             step 200, update", // far down, but bad
		"14 more in report.json\n",
		"200 faults, state hash NOT equal to that of an undisturbed run; per 100 faults memory grows 0.4%",
		"slowest next commit 2.91 s\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	b.Reset()
	if err := (&Report{}).FaultTable(&b); err != nil || b.Len() > 0 {
		t.Errorf("a run without faults has the table %q (%v)", b.String(), err)
	}
}

func TestFaultsInJSON(t *testing.T) {
	text, err := Report{Faults: []Fault{{Kind: "kill", Peer: 1, NextCommitMS: Number(math.NaN())}}}.JSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"next_commit_ms": null`, `"soak": null`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the JSON lacks %s:\n%s", want, text)
		}
	}
	text, err = Report{}.JSON()
	if err != nil || !strings.Contains(string(text), `"faults": []`) {
		t.Errorf("a run without faults has no empty list (%v)", err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || back.Soak != nil {
		t.Errorf("it comes back with %+v (%v)", back.Soak, err)
	}
}
