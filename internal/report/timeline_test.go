//go:build !js

package report

import (
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"shoal/fsdp"
)

func TestTimes(t *testing.T) {
	const ms = time.Millisecond
	got := NewTimes(fsdp.Times{Compute: 100*ms + 600, Parameters: 20 * ms, Reduce: 30 * ms, Commit: 4 * ms, Update: 5 * ms, Idle: 1 * ms})
	if want := (Times{100.001, 20, 30, 4, 5, 1}); got != want {
		t.Errorf("times are %+v, want %+v", got, want)
	}
	if sum := got.Sum(); math.Abs(sum-160.001) > 1e-9 {
		t.Errorf("sum is %v", sum)
	}
	p := Peer{Steps: 10, TimeMS: got}
	if step := p.StepMS(); math.Abs(step.Sum()-16.0001) > 1e-9 || step.Parameters != 2 {
		t.Errorf("an average step is %+v", step)
	}
	if step := (&Peer{TimeMS: got}).StepMS(); step != (Times{}) {
		t.Errorf("an average of no steps is %+v", step)
	}
	r := Report{WallSeconds: 12, Steps: 3, ResumedStep: 1, Peers: []Peer{p, {Steps: 5, TimeMS: got}}}
	if step := r.StepSeconds(); math.Abs(step-0.02400015) > 1e-9 {
		t.Errorf("an average step of two peers takes %v s", step)
	}
	r.Peers[1] = Peer{}
	if step := r.StepSeconds(); step != 6 {
		t.Errorf("without a second step one takes %v s", step)
	}
	spans := NewTimeline([]fsdp.Event{{Kind: fsdp.TraceForward, Step: 3, Unit: 2, Start: 1500 * time.Microsecond, End: 2 * ms}})
	if len(spans) != 1 || spans[0] != (Span{"forward", 2, 1.5, 2}) {
		t.Errorf("spans are %+v", spans)
	}
}

// TestTimeBars: each peer's bar has its parts in order, as wide as they are long beside the longest step.
func TestTimeBars(t *testing.T) {
	r := sample(2)
	r.Peers[0].Steps, r.Peers[0].TimeMS = 10, Times{Compute: 500, Parameters: 200, Reduce: 150, Commit: 50, Update: 60, Idle: 40}
	r.Peers[1].Steps, r.Peers[1].TimeMS = 5, Times{Compute: 100, Reduce: 150}
	text := html(t, r)
	for _, want := range []string{
		"<h2>Time of a step</h2>", `aria-label="The time of rank 0: compute 50 ms, parameters 20 ms, reduce 15 ms, commit 5.0 ms, update 6.0 ms, idle 4.0 ms, together 100 ms"`,
		`<rect class="compute" x="0.0" width="500.0" height="10"><title>compute: 50 ms, 50.0%</title></rect>`,
		`<rect class="parameters" x="500.0" width="200.0" height="10">`, `<rect class="idle" x="960.0" width="40.0" height="10">`,
		`<rect class="compute" x="0.0" width="200.0" height="10">`, `<rect class="reduce" x="200.0" width="300.0" height="10"><title>reduce: 30 ms, 60.0%</title></rect>`,
		`<i class="commit"></i>commit`, `<span style="left: 100.00%">100 ms</span>`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("page lacks %q", want)
		}
	}
	for i := range r.Peers {
		r.Peers[i].Steps = 0
	}
	if text := html(t, r); strings.Contains(text, "<h2>Time of a step</h2>") {
		t.Error("peers that told of no time have bars")
	}
}

// TestTimeLanes: each peer's timeline is drawn on one axis, what travelled below what it did.
func TestTimeLanes(t *testing.T) {
	r := sample(2)
	r.TimelineStep = 445
	r.Peers[0].Timeline = []Span{{"update", 0, 0, 10}, {"gather", 1, 5, 30}, {"forward", 0, 10, 50}, {"backward", 0, 50, 100}, {"reduce", 0, 100, 110}, {"commit", -1, 150, 200}}
	r.Peers[1].Timeline = nil
	text := html(t, r)
	for _, want := range []string{
		"<h2>Step 445</h2>", `<path class="compute" d="M50.0 0h200.0v10h-200.0zM250.0 0h250.0v10h-250.0z"/>`, `<path class="update" d="M0.0 0h50.0v10h-50.0z"/>`,
		`<path class="parameters" d="M25.0 11h125.0v2h-125.0z"/>`, `<path class="reduce" d="M500.0 14h50.0v2h-50.0z"/>`, `<path class="commit" d="M750.0 0h250.0v10h-250.0z"/>`,
		`aria-label="What rank 1 did"></svg>`, "150 ms</span>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("page lacks %q", want)
		}
	}
	r.Peers[0].Timeline = nil
	if text := html(t, r); strings.Contains(text, "<h2>Step 445</h2>") {
		t.Error("peers without timelines have lanes")
	}
}

// TestStrangeTimes: what another peer tells of its time can neither break the page nor get into its markup.
func TestStrangeTimes(t *testing.T) {
	const evil = `"><script>alert(1)</script>`
	nan, inf := math.NaN(), math.Inf(1)
	for _, ms := range []float64{nan, inf, -inf, -5, 1e300, 5e-324} {
		r := sample(2)
		r.Peers[0].PeerID = evil
		r.Peers[0].TimeMS = Times{Compute: ms, Reduce: 1}
		r.Peers[0].Timeline = []Span{{evil, 1, 0, 1}, {"forward", -7, ms, 5}, {"forward", 0, 0, ms}, {"forward", 0, 2, 1}}
		text := html(t, r)
		if strings.Contains(text, "<script") || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Contains(text, "ZgotmplZ") {
			t.Errorf("%v: the page shows a text as markup, a NaN or an infinity", ms)
		}
		if bad := regexp.MustCompile(`(width="|h)-[0-9.]+"|x="-|M-`).FindString(text); bad != "" {
			t.Errorf("%v: the page has %q", ms, bad)
		}
	}
}
