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

// samplePoints are what peers of a run hold and receive by the formulas, with 16 MiB for one.
func samplePoints() (list []point) {
	for _, n := range []float64{1, 2, 4, 8, 16} {
		p := point{peers: int(n), parameters: 1e6, rate: 100 / n, cpu: 0.001, rest: 16 * mib / n, most: 20 * mib / n, resident: 50 * mib, backend: "cpu"}
		p.formula = 8e6 * (n - 1) / n
		p.received, p.control = p.formula+1000*n, 1000*n
		list = append(list, p)
	}
	return list
}

func sampleSizes() (list []point) {
	for _, m := range []float64{1e6, 4e6, 16e6} {
		list = append(list, point{peers: 4, parameters: m, rate: 1e7 / m, cpu: m / 1e9, rest: 4 * m, most: 6 * m, resident: 8 * m, received: 6e6 + m,
			formula: 6e6 + m, control: 1000, backend: "cpu"})
	}
	return list
}

func TestFit(t *testing.T) {
	x := []float64{1, 2, 4, 8}
	for _, tc := range []struct {
		y    []float64
		want growth
	}{
		{[]float64{3, 6, 12, 24}, growth{1, 0}},
		{[]float64{16, 4, 1, 0.25}, growth{-2, 0}},
		{[]float64{5, 5, 5, 5}, growth{0, 0}},
		// Logarithms to the base of 2 are 0, 2, 1, 3 at 0, 1, 2, 3: a slope of 0.8, with squares of 1.8 left over of 2 degrees of freedom.
		{[]float64{1, 4, 2, 8}, growth{0.8, math.Sqrt(1.8 / 2 / 5)}},
	} {
		got := fit(x, tc.y)
		if math.Abs(got.exponent-tc.want.exponent) > 1e-9 || math.Abs(got.deviation-tc.want.deviation) > 1e-6 {
			t.Errorf("%v grows with %v, want %v", tc.y, got, tc.want)
		}
	}
	if g := fit(x[:2], x[:2]); !math.IsNaN(g.exponent) || !math.IsNaN(g.deviation) {
		t.Errorf("two points grow with %v", g)
	}
}

func TestNewPoint(t *testing.T) {
	r := &shoal.Report{Steps: 10, ModelParameters: 1000, SamplesPerSecond: 5, Views: make([]report.View, 1),
		Plan: &report.Plan{Received: report.Compared{Planned: 9000, Measured: 8000}},
		Peers: []report.Peer{
			{ParameterBytes: 1, GradientBytes: 2, OptimizerBytes: 3, BackupBytes: 4, GatheredPeakBytes: 10, GradientPeakBytes: 22, ActivationPeakBytes: 30, ControlReceived: 300, RSSPeakBytes: 7, StepsComputed: 10},
			{ParameterBytes: 2, GradientBytes: 2, OptimizerBytes: 3, BackupBytes: 4, ControlReceived: 100, RSSPeakBytes: 9, StepsComputed: 6},
		}}
	p, err := newPoint(r)
	if want := (point{peers: 2, parameters: 1000, rate: 5, rest: 11, most: 70, resident: 9, received: 8000, computed: 0.8, formula: 2000 + 0.8*7000, control: 20}); err != nil || p != want {
		t.Errorf("%+v (%v), want %+v", p, err, want)
	}
	r.Views = append(r.Views, report.View{})
	if _, err := newPoint(r); err == nil {
		t.Error("a run with two views was taken")
	}
}

func TestCheck(t *testing.T) {
	if err := check(samplePoints(), sampleSizes()); err != nil {
		t.Errorf("good figures: %v", err)
	}
	for name, spoil := range map[string]func(peers, sizes []point){
		"too much for the formula": func(_, sizes []point) { sizes[1].received *= 1.06 },
		"too little":               func(peers, _ []point) { peers[2].received *= 0.94 },
		"too much of the log":      func(peers, _ []point) { peers[4].control = 0.011 * peers[4].received },
	} {
		peers, sizes := samplePoints(), sampleSizes()
		if spoil(peers, sizes); check(peers, sizes) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTables(t *testing.T) {
	text := string(tables(samplePoints(), sampleSizes()))
	for _, want := range []string{
		"| 1 | 100 | 1.00 ms | 16.0 MiB | 20.0 MiB | 50.0 MiB |",
		"| 4.00 million |",
		"| memory at rest | -1.00 ± 0.00 | 1.00 ± 0.00 |",
		"| log and heartbeats a step | 1.00 ± 0.00 | 0.00 ± 0.00 |",
		"| 0.21% |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the tables lack %q:\n%s", want, text)
		}
	}
}

func TestPlot(t *testing.T) {
	svg, err := plotSVG(samplePoints(), sampleSizes())
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
	for _, want := range []string{"Memory of a peer", "the formula", "million parameters"} {
		if !bytes.Contains(svg, []byte(want)) {
			t.Errorf("the plot lacks %q", want)
		}
	}
}

// The runs are allowed, and have the sizes that the page speaks of.
func TestSettings(t *testing.T) {
	for _, s := range append(peerRuns(), sizeRuns()...) {
		if err := s.run.Validate(); err != nil {
			t.Errorf("%d peers: %v", s.peers, err)
		}
		if m := s.run.Train.Batch / s.run.Train.Microbatch; m < 4*s.peers && m < 16 {
			t.Errorf("%d peers share %d microbatches", s.peers, m)
		}
	}
}
