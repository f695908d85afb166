package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shoal"
	"shoal/internal/report"
	"shoal/scripts/internal/page"
)

// atRest is what a peer holds between two steps.
func atRest(p *report.Peer) int64 { return p.ParameterBytes + p.GradientBytes + p.OptimizerBytes }

// atMost is that and the most of what comes for moments of a step; the three peaks need not be at the same moment.
func atMost(p *report.Peer) int64 {
	return atRest(p) + p.GatheredPeakBytes + p.GradientPeakBytes + p.ActivationPeakBytes
}

// most is the highest of the peers' values, each is the mean.
func most(r *shoal.Report, of func(*report.Peer) int64) (n int64) {
	for i := range r.Peers {
		n = max(n, of(&r.Peers[i]))
	}
	return n
}

func each(r *shoal.Report, of func(*report.Peer) int64) (n int64) {
	for i := range r.Peers {
		n += of(&r.Peers[i])
	}
	return n / int64(len(r.Peers))
}

// columns of the table of strategies, and how each is taken from a report.
var columns = []struct {
	title string
	cell  func(*shoal.Report) string
}{
	{"parameters", peak(func(p *report.Peer) int64 { return p.ParameterBytes })},
	{"gradients", peak(func(p *report.Peer) int64 { return p.GradientBytes })},
	{"optimizer state", peak(func(p *report.Peer) int64 { return p.OptimizerBytes })},
	{"at rest", peak(atRest)},
	{"borrowed units", peak(func(p *report.Peer) int64 { return p.GatheredPeakBytes })},
	{"gradients on their way", peak(func(p *report.Peer) int64 { return p.GradientPeakBytes })},
	{"activations", peak(func(p *report.Peer) int64 { return p.ActivationPeakBytes })},
	{"at most", peak(atMost)},
	{"sent a step", perStep(func(p *report.Peer) int64 { return p.BytesSent })},
	{"received a step", perStep(func(p *report.Peer) int64 { return p.BytesReceived })},
	{"samples/s", func(r *shoal.Report) string { return fmt.Sprintf("%.0f", r.SamplesPerSecond) }},
}

func peak(of func(*report.Peer) int64) func(*shoal.Report) string {
	return func(r *shoal.Report) string { return report.Bytes(most(r, of)) }
}

func perStep(of func(*report.Peer) int64) func(*shoal.Report) string {
	return func(r *shoal.Report) string { return report.Bytes(each(r, of) / int64(r.Steps)) }
}

// tables is what goes into the page.
func tables(reports []*shoal.Report, memory []held) []byte {
	var b bytes.Buffer
	first := reports[0]
	fmt.Fprintf(&b, "\nThe default run's model of %d parameters, %d steps, %d peers as processes on one machine: %s, `%s`.\n\n",
		first.ModelParameters, first.Steps, len(first.Peers), page.Machine(), first.Peers[0].Backend)
	b.WriteString("| `mesh` |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.title)
	}
	fmt.Fprintf(&b, "\n| --- |%s\n", strings.Repeat(" ---: |", len(columns)))
	for i, w := range ways {
		fmt.Fprintf(&b, "| %s |", w.name)
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", c.cell(reports[i]))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\nAll have the same losses, bit for bit, and the state hash `%s`.\n",
		first.StateHash)
	b.WriteString("\nParameters, gradients and optimizer state at rest, the most that any of the peers holds, in bytes for each of the model's parameters:\n\n| `strategy` |")
	for _, n := range sizes {
		fmt.Fprintf(&b, " %s |", peers(n))
	}
	fmt.Fprintf(&b, "\n| --- |%s\n", strings.Repeat(" ---: |", len(sizes)))
	for _, h := range memory {
		fmt.Fprintf(&b, "| `%s` |", h.strategy)
		for _, n := range sizes {
			fmt.Fprintf(&b, " %.2f |", float64(slices.Max(h.bytes[n]))/float64(h.parameters))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	return b.Bytes()
}

func peers(n int) string {
	if n == 1 {
		return "1 peer"
	}
	return fmt.Sprintf("%d peers", n)
}

// write puts the tables and the plot into the folder of pages.
func write(folder string, reports []*shoal.Report, memory []held) error {
	svg, err := plotSVG(reports)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "strategies.svg"), svg, 0o644); err != nil {
		return err
	}
	return page.Write(filepath.Join(folder, "strategies.md"), "make compare", tables(reports, memory))
}
