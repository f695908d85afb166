package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"shoal"
	"shoal/internal/report"
)

// sample is a report of two peers, of which the second one holds more.
func sample() *shoal.Report {
	return &shoal.Report{
		Loss: report.Losses{2, 1}, StateHash: "abc", Steps: 2, ModelParameters: 1024, SamplesPerSecond: 12.4,
		Peers: []report.Peer{
			{Backend: "cpu", ParameterBytes: 1000, GradientBytes: 1000, OptimizerBytes: 2000, BytesSent: 8192, BytesReceived: 2048},
			{Backend: "cpu", ParameterBytes: 2048, GradientBytes: 1024, OptimizerBytes: 1024, GatheredPeakBytes: 1024, GradientPeakBytes: 2048,
				ActivationPeakBytes: 3072, BytesSent: 8192, BytesReceived: 6144},
		},
	}
}

func samples() []*shoal.Report {
	var all []*shoal.Report
	for range ways {
		all = append(all, sample())
	}
	return all
}

func sampleMemory() []held {
	h := held{strategy: "fsdp", parameters: 1000, bytes: map[int][]int64{}}
	for _, n := range sizes {
		for rank := range n {
			h.bytes[n] = append(h.bytes[n], int64(16000/n+rank))
		}
	}
	return []held{h}
}

func TestTables(t *testing.T) {
	text := string(tables(samples(), sampleMemory()))
	for _, want := range []string{
		"1024 parameters, 2 steps, 2 peers",
		"| `fsdp`, `reshard: false` | 2.00 KiB | 1.00 KiB | 1.95 KiB | 4.00 KiB | 1.00 KiB | 2.00 KiB | 3.00 KiB | 10.0 KiB | 4.00 KiB | 2.00 KiB | 12 |\n",
		"| `ddp` | 2.00 KiB |",
		"| `fsdp` | 16.00 | 8.00 | 4.00 | 2.01 |\n",
		"the state hash `abc`",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the tables lack %q:\n%s", want, text)
		}
	}
}

func TestPlot(t *testing.T) {
	svg, err := plotSVG(samples())
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"activations", "wrap: layers:3", "Received"} {
		if !bytes.Contains(svg, []byte(want)) {
			t.Errorf("the plot lacks %q", want)
		}
	}
}

func TestSame(t *testing.T) {
	for _, tc := range []struct {
		name   string
		w      way
		change func(*shoal.Report)
		ok     bool
	}{
		{"the same", ways[1], func(*shoal.Report) {}, true},
		{"another loss", ways[1], func(r *shoal.Report) { r.Loss[1] = math.Nextafter(1, 2) }, false},
		{"a loss is missing", ways[1], func(r *shoal.Report) { r.Loss = r.Loss[:1] }, false},
		{"another hash", ways[1], func(r *shoal.Report) { r.StateHash = "def" }, false},
	} {
		got := sample()
		tc.change(got)
		if err := same(tc.w, sample(), got); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestHeldIsChecked(t *testing.T) {
	for bytes, ok := range map[int64]bool{4000: true, 4390: true, 4410: false, 3590: false, 16000: false} {
		h := held{strategy: "fsdp", parameters: 1000, bytes: map[int][]int64{4: {4000, bytes}}}
		if err := h.check(4); (err == nil) != ok {
			t.Errorf("a peer of four holds %d bytes: %v", bytes, err)
		}
	}
}

// The ways are run files that are allowed, and differ.
func TestWays(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range ways {
		run := defaultRun(5)
		run.Mesh.Strategy = w.strategy
		if w.change != nil {
			w.change(run)
		}
		if err := run.Validate(); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
		if key := run.Mesh.Strategy + run.Mesh.Wrap + map[bool]string{true: "reshard"}[run.Mesh.Reshard]; seen[key] {
			t.Errorf("%s is there twice", w.name)
		} else {
			seen[key] = true
		}
	}
}
