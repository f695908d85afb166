package main

import (
	"bytes"
	"errors"
	"fmt"

	"shoal/internal/median"
	"shoal/internal/report"
)

// scale is how many samples a second several peers are to reach, of those of one peer with all cores.
var scale = map[int]float64{2: 0.85, 4: 0.75}

// table is the page's tables in the making, and the targets that they show to be missed.
type table struct {
	bytes.Buffer
	missed []error
}

// tables is what goes into the page, and an error that names the targets that were missed.
func tables(results map[string]*result) ([]byte, error) {
	var t table
	for _, p := range parts() {
		r := results[p.name()]
		fmt.Fprintf(&t, "\n### %s\n\n", p.name())
		switch {
		case r == nil:
			t.WriteString("Not measured yet.\n")
		case p.processes == 0:
			t.peers(p, r)
		default:
			t.frameworks(p, r)
		}
	}
	t.WriteString("\n")
	return t.Bytes(), errors.Join(t.missed...)
}

// verdict says whether targets are met, and keeps in mind which are not.
func (t *table) verdict(p part, side string, wrong []string) string {
	if len(wrong) == 0 {
		return "met"
	}
	for _, w := range wrong {
		t.missed = append(t.missed, fmt.Errorf("%s, %s: %s", p.name(), side, w))
	}
	return "**missed**"
}

func (t *table) where(r *result) {
	fmt.Fprintf(t, "On %s", r.Where)
	if r.Theirs != "" {
		fmt.Fprintf(t, "; %s", r.Theirs)
	}
	fmt.Fprintf(t, ". %d parameters, %d samples a step, %d rounds of %d steps.\n\n", r.Parameters, r.Batch, len(r.Sides[0].Seconds), r.Steps)
}

// peers compares several peers with one.
func (t *table) peers(p part, r *result) {
	t.where(r)
	t.WriteString("| | threads each | ms a step | CPU ms | samples/s | of one peer | at least | target |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n")
	one := r.Sides[0]
	for _, s := range r.Sides {
		least, ratio := scale[s.Processes], s.faster(one)
		if least == 0 {
			fmt.Fprintf(t, "| %s | %d | %.0f | %.0f | %.1f | | | |\n", s.Name, s.Threads, s.millis(), s.cpuMillis(), s.rate(r))
			continue
		}
		var wrong []string
		if !(ratio >= least) {
			wrong = append(wrong, fmt.Sprintf("%.2f of the samples per second of one peer, at least %v", ratio, least))
		}
		fmt.Fprintf(t, "| %s | %d | %.0f | %.0f | %.1f | %.2f | %v | %s |\n", s.Name, s.Threads, s.millis(), s.cpuMillis(), s.rate(r), ratio, least,
			t.verdict(p, s.Name, wrong))
	}
}

func (s *side) millis() float64        { return 1e3 * median.Of(s.Seconds) }
func (s *side) cpuMillis() float64     { return 1e3 * median.Of(s.CPU) }
func (s *side) rate(r *result) float64 { return float64(r.Batch) / median.Of(s.Seconds) }
func megabytes(n float64) string       { return fmt.Sprintf("%.1f", n/1e6) }

// frameworks compares peers with PyTorch.
func (t *table) frameworks(p part, r *result) {
	t.where(r)
	t.WriteString("| | threads each | ms a step | CPU ms | samples/s | times as fast | MB sent | at least | raw | packed | peak memory | of it | target |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n")
	our := r.Sides[0]
	fmt.Fprintf(t, "| %s | %d | %.0f | %.0f | %.1f | | %s, packed %s | | | | %s | | |\n", our.Name, our.Threads, our.millis(), our.cpuMillis(), our.rate(r),
		megabytes(our.Bytes), megabytes(our.Packed), report.Bytes(our.Memory))
	for i, s := range r.Sides[1:] {
		t.framework(p, r, ways[i], s)
	}
	fmt.Fprintf(t, "\nA process without a model takes %s, a peer with a model of a few parameters %s.\n", report.Bytes(r.BareBase), report.Bytes(r.Bare))
}

// framework is a row: s is one of PyTorch's ways.
func (t *table) framework(p part, r *result, w way, s *side) {
	our, least := r.Sides[0], w.least(r.Parameters, p.model.inBlocks(), s.Processes)
	faster, raw, packed, memory := our.faster(s), our.Bytes/least, our.Packed/least, float64(our.Memory)/float64(s.Memory)
	var wrong []string
	if !(faster >= w.speed) {
		wrong = append(wrong, fmt.Sprintf("%.2f times as fast, at least %v", faster, w.speed))
	}
	for _, x := range []struct {
		got, most float64
		what      string
	}{{raw, w.raw, "of its bytes"}, {packed, w.packed, "of its bytes where all is packed"}, {memory, w.memory, "of its peak memory"}} {
		if x.most > 0 && !(x.got <= x.most) {
			wrong = append(wrong, fmt.Sprintf("%.2f %s, at most %v", x.got, x.what, x.most))
		}
	}
	fmt.Fprintf(t, "| %s | %d | %.0f | %.0f | %.1f | %.2f | %s | %s | %.3f | %.3f | %s | %.2f | %s |\n", s.Name, s.Threads, s.millis(), s.cpuMillis(), s.rate(r), faster,
		megabytes(s.Bytes), megabytes(least), raw, packed, report.Bytes(s.Memory), memory, t.verdict(p, s.Name, wrong))
}
