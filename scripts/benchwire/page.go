package main

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"

	"shoal/internal/median"
	"shoal/scripts/internal/page"
)

// What is to be reached, see docs/bench.md.
const (
	timesGloo = 2.0  // at most
	nearOfTCP = 0.45 // at least
	farOfTCP  = 0.95 // at least
)

// tables is what goes into the page, and an error that names the targets that were missed.
func tables(o *outcome) ([]byte, error) {
	var t bytes.Buffer
	var missed []error
	verdict := func(met bool, what string, got float64) string {
		if met {
			return "met"
		}
		missed = append(missed, fmt.Errorf("%s: %.2f", what, got))
		return "**missed**"
	}
	fmt.Fprintf(&t, "\nBy `make bench-wire`, on %s, with %s and PyTorch %s. %d rounds.\n\n", page.Machine(), runtime.Version(), o.torch, o.rounds)

	x := ratio(&o.members, &o.gloo)
	fmt.Fprintf(&t, "%d processes, %.0f MB:\n\n", ranks, float64(o.elements)*4/1e6)
	t.WriteString("| reduce-scatter and all-gather | gloo's all-reduce | times gloo | at most | target |\n| ---: | ---: | ---: | ---: | --- |\n")
	fmt.Fprintf(&t, "| %.0f ms | %.0f ms | %.2f | %v | %s |\n", 1e3*median.Of(o.members.seconds), 1e3*median.Of(o.gloo.seconds), x, timesGloo,
		verdict(x <= timesGloo, "collective, times gloo", x))

	t.WriteString("\nOne stream:\n\n| link | MB/s | TCP, MB/s | of TCP | at least | CPU s a GB | TCP, CPU s a GB | target |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n")
	for _, row := range []struct {
		name  string
		p     *pair
		least float64
	}{{"this machine", &o.near, nearOfTCP}, {"100 ms, 1 Gbit/s", &o.far, farOfTCP}} {
		share := ratio(&row.p.tcp, &row.p.shoal)
		cpu, tcpCPU := "", ""
		if row.p == &o.near { // the other link's is made by the same process
			cpu, tcpCPU = fmt.Sprintf("%.2f", median.Of(row.p.cpu)), fmt.Sprintf("%.2f", median.Of(row.p.tcpCPU))
		}
		fmt.Fprintf(&t, "| %s | %.0f | %.0f | %.2f | %v | %s | %s | %s |\n", row.name, row.p.rate(&row.p.shoal), row.p.rate(&row.p.tcp), share, row.least,
			cpu, tcpCPU, verdict(share >= row.least, "one stream, "+row.name+", of TCP", share))
	}
	t.WriteString("\n")
	return t.Bytes(), errors.Join(missed...)
}

// rate is in 10^6 bytes a second.
func (p *pair) rate(s *side) float64 { return float64(p.bytes) / 1e6 / median.Of(s.seconds) }

// ratio is how many times as long a takes as b, the median over the rounds.
func ratio(a, b *side) float64 {
	ratios := make([]float64, len(a.seconds))
	for i := range ratios {
		ratios[i] = a.seconds[i] / b.seconds[i]
	}
	return median.Of(ratios)
}
