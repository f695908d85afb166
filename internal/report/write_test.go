//go:build !js

package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func html(t *testing.T, r Report) string {
	t.Helper()
	text, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestHTML(t *testing.T) {
	r := sample(4)
	text := html(t, r)
	for _, want := range []string{
		"<!doctype html>", r.RunID, r.StateHash, r.KernelFingerprint, "strategy fsdp, 4 peers",
		"98.8%", "0.0431", "87.4 s", "606k", // headline figures
		`<path class="smooth" d="M0.0 `, // the curve
		`style="width: 25.54%"`,         // share of samples of rank 0: 7100 of 27800
		"25.5%", "7\u2009100",
		"2.60 MiB", "887 KiB", "592 KiB", "1.16 MiB", // memory of rank 0
		"1.16 GiB", "64.2%", // traffic
		"start with 4 peers", r.Peers[3].PeerID,
		"step 40, backward", "212 ms", "1.25 s", "200 faults; the state hash is that of a run without them", "memory 0.4%",
		`href="#recompute"`, `id="recompute"`,
		"prefers-color-scheme: dark", "max-width: 860px",
		"<title>digits: Shoal run …", "<h1>digits</h1>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("page lacks %q", want)
		}
	}
	// Step hashes are in the order of numbers, not of texts.
	if a, b := strings.Index(text, r.StepHashes["20"]), strings.Index(text, r.StepHashes["100"]); a < 0 || b < a {
		t.Errorf("hash of step 20 at %d, of step 100 at %d", a, b)
	}
	for _, tag := range []string{"section", "table", "tbody", "tr", "td", "div", "span", "details", "main"} {
		open := len(regexp.MustCompile("<"+tag+"[ >]").FindAllString(text, -1))
		if closed := strings.Count(text, "</"+tag+">"); open != closed || open == 0 {
			t.Errorf("%d <%s> and %d </%s>", open, tag, closed, tag)
		}
	}
}

func TestPageListsSomeFaults(t *testing.T) {
	r := sample(1)
	r.Faults, r.Soak = nil, nil
	if strings.Contains(html(t, r), "<h2>Faults</h2>") {
		t.Error("a run without faults has a section for them")
	}
	r.Faults = make([]Fault, maxShown+7)
	if text := html(t, r); !strings.Contains(text, "And 7 more, in report.json.") {
		t.Error("the page does not say how many faults it hides")
	}
}

// A hash that depends on the peers is not shown as one that doesn't.
func TestWarning(t *testing.T) {
	for reduce, exact := range map[string]bool{"fixed32": true, "fixed16": true, "": true, "fp32": false, "bf16": false} {
		r := sample(1)
		r.Reduce = reduce
		if warns := strings.Contains(r.Warning(), "the result depends on the peers"); warns == exact {
			t.Errorf("%q: warning %q", reduce, r.Warning())
		}
		text := html(t, r)
		if strings.Contains(text, "on any number of peers") != exact || !exact && !strings.Contains(text, r.Warning()) {
			t.Errorf("%q: the page does not say what the hash means", reduce)
		}
	}
}

func TestHTMLNeedsNoNetworkAndNoScript(t *testing.T) {
	text := html(t, sample(4))
	if bad := regexp.MustCompile(`(?i)https?:|<script|<link|src=|url\(|@import`).FindString(text); bad != "" {
		t.Errorf("page has %q", bad)
	}
	if !strings.Contains(text, `default-src 'none'`) {
		t.Error("page does not forbid the network")
	}
}

func TestHTMLEscapes(t *testing.T) {
	const evil = `"><script>alert(1)</script>`
	r := sample(1)
	r.RunID, r.Strategy, r.StateHash, r.KernelFingerprint = evil, evil, evil, evil
	r.Peers[0].PeerID, r.Peers[0].Kind, r.Peers[0].Backend = evil, evil, evil
	r.Views[0].Reason, r.Views[0].Members = evil, []string{evil}
	r.StepHashes = map[string]string{evil: evil}
	if strings.Contains(html(t, r), "<script") {
		t.Error("a text became markup")
	}
}

// Strange reports still make a page and a picture.
func TestOddReports(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for name, r := range map[string]Report{
		"empty":         {},
		"one step":      {Steps: 1, Loss: []float64{2.3}},
		"zero losses":   {Steps: 3, Loss: []float64{0, 0, 0}},
		"negative":      {Steps: 3, Loss: []float64{-1, -2, -3}},
		"not finite":    {Steps: 3, Loss: []float64{nan, inf, nan}},
		"gaps":          {Steps: 4, Loss: []float64{1, nan, 2, inf}, Eval: &Eval{Accuracy: nan, Loss: Number(nan)}},
		"huge losses":   {Steps: 3, Loss: []float64{math.MaxFloat64, math.MaxFloat64, 1}},
		"tiny losses":   {Steps: 3, Loss: []float64{5e-324, 5e-324, 5e-324}},
		"long":          {Steps: 100_000, Loss: make([]float64, 100_000)},
		"no bytes":      {Peers: make([]Peer, 3)},
		"strange times": {WallSeconds: nan, SamplesPerSecond: inf},
	} {
		t.Run(name, func(t *testing.T) {
			text := html(t, r)
			if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Contains(text, "ZgotmplZ") {
				t.Errorf("page shows a NaN, an infinity or a filtered value")
			}
			if len(text) > 100_000 {
				t.Errorf("page has %d bytes", len(text))
			}
			svg, err := r.lossSVG()
			if err != nil {
				t.Fatal(err)
			}
			wellFormed(t, svg)
		})
	}
}

// What counts for a language model is its loss, and what its accuracy means has to be said.
func TestPageOfLanguageModel(t *testing.T) {
	r := sample(1)
	r.LossUnit, r.Steps, r.Loss = PerToken, 1, r.Loss[:1]
	page, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, want := range []string{"<dt>Held-out loss, nats per token</dt>", "<dt>Next-token accuracy</dt>", "<dt>Step</dt>", "Loss of each step, nats per token"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(text, "<dt>Accuracy</dt>") {
		t.Error("the page speaks of accuracy alone")
	}
}

// A run of one step has no curve but a dot, on the page and in the picture.
func TestOneStepIsADot(t *testing.T) {
	r := Report{Steps: 1, Loss: []float64{2.3}}
	if text := html(t, r); !regexp.MustCompile(`<path class="smooth dot" d="M0.0 ([0-9.]+)L0.0 ([0-9.]+)"/>`).MatchString(text) {
		t.Error("the page has no dot for the only step")
	}
	svg, err := r.lossSVG()
	if err != nil {
		t.Fatal(err)
	}
	empty, err := (&Report{}).lossSVG()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(svg, []byte("#0B7285")) <= bytes.Count(empty, []byte("#0B7285")) {
		t.Error("the picture has no dot for the only step")
	}
}

func wellFormed(t *testing.T, svg []byte) {
	t.Helper()
	if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
		t.Error("picture has a NaN or an infinity")
	}
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("picture is not XML: %v", err)
		}
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(dir, "mine.txt")
	if err := os.WriteFile(mine, []byte("keep"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, peers := range []int{1, 3} { // the second time replaces the first
		want := sample(peers)
		if err := want.Write(dir); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "report.json"))
		if err != nil {
			t.Fatal(err)
		}
		var got Report
		if err := json.Unmarshal(text, &got); err != nil || len(got.Peers) != peers {
			t.Errorf("report.json has %d peers, want %d: %v", len(got.Peers), peers, err)
		}
		svg, err := os.ReadFile(filepath.Join(dir, "loss.svg"))
		if err != nil {
			t.Fatal(err)
		}
		wellFormed(t, svg)
	}
	if text, err := os.ReadFile(mine); err != nil || string(text) != "keep" {
		t.Errorf("another file in the folder became %q, %v", text, err)
	}
	if names := list(t, dir); names != "loss.svg mine.txt report.html report.json" {
		t.Errorf("folder has %s", names)
	}
}

func list(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestWriteErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	blocked := filepath.Join(dir, "blocked")
	if err := os.MkdirAll(filepath.Join(blocked, "report.html", "x"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{
		"the folder is a file": file, "under a file": filepath.Join(file, "x"), "a folder has the page's name": blocked, "no name": "",
	} {
		err := sample(1).Write(dir)
		if err == nil || !strings.HasPrefix(err.Error(), "write report: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	if names := list(t, blocked); strings.Contains(names, ".shoal-") || strings.Contains(names, "report.json") {
		t.Errorf("a failed write left %s", names)
	}
}

func TestMakeFolder(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "new", "folder")
	undo, err := MakeFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if undo(); list(t, top) != "" {
		t.Errorf("undone, there is still %s", list(t, top))
	}
	for range 2 {
		if undo, err = MakeFolder(dir); err != nil {
			t.Fatal(err)
		}
	}
	if undo(); list(t, top) != "new" { // it was there before
		t.Errorf("a folder that was there has become %q", list(t, top))
	}
	if names := list(t, dir); names != "" {
		t.Errorf("the check left %s", names)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "x"), ""} {
		if _, err := MakeFolder(dir); err == nil {
			t.Errorf("%q passes for a folder", dir)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   []float64
	}{
		{0, 2.6, []float64{0, 1, 2, 3}}, {0, 1, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}}, {1, 450, []float64{100, 200, 300, 400, 500}},
		{-3, 0, []float64{-3, -2, -1, 0}}, {1, 2, []float64{1, 1.2, 1.4, 1.6, 1.8, 2}},
	} {
		got := ticks(c.lo, c.hi, 5)
		same := len(got) == len(c.want)
		for i := range got {
			same = same && math.Abs(got[i]-c.want[i]) < 1e-9
		}
		if !same {
			t.Errorf("ticks(%v, %v) = %v, want %v", c.lo, c.hi, got, c.want)
		}
	}
}
