package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"shoal/internal/report"
	"shoal/scripts/internal/page"
)

// columns of both tables.
var columns = []struct {
	title string
	cell  func(*point) string
}{
	{"samples/s", func(p *point) string { return fmt.Sprintf("%.0f", p.rate) }},
	{"CPU a sample", func(p *point) string { return fmt.Sprintf("%.2f ms", 1000*p.cpu) }},
	{"memory at rest", func(p *point) string { return report.Bytes(int64(p.rest)) }},
	{"at most", func(p *point) string { return report.Bytes(int64(p.most)) }},
	{"process", func(p *point) string { return report.Bytes(int64(p.resident)) }},
	{"received a step", func(p *point) string { return report.Bytes(int64(p.received)) }},
	{"computed", func(p *point) string { return fmt.Sprintf("%.0f%%", 100*p.computed) }},
	{"by the formula", func(p *point) string { return report.Bytes(int64(p.formula)) }},
	{"log and heartbeats", func(p *point) string { return report.Bytes(int64(p.control)) }},
	{"their share", func(p *point) string { return percent(p.control, p.received, p.peers) }},
}

func percent(part, whole float64, peers int) string {
	if peers == 1 {
		return "-"
	}
	return fmt.Sprintf("%.2f%%", 100*part/whole)
}

// laws are what is fitted.
var laws = []struct {
	name string
	of   func(*point) float64
}{
	{"CPU a sample", func(p *point) float64 { return p.cpu }},
	{"memory at rest", func(p *point) float64 { return p.rest }},
	{"received a step", func(p *point) float64 { return p.received }},
	{"received a step, all peers", func(p *point) float64 { return float64(p.peers) * p.received }},
	{"log and heartbeats a step", func(p *point) float64 { return p.control }},
}

func tables(byPeers, bySize []point) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "\nProcesses on one machine: %s, `%s`.\n\n", page.Machine(), byPeers[0].backend)
	table(&b, "peers", byPeers, func(p *point) string { return fmt.Sprint(p.peers) })
	b.WriteString("\nFour peers:\n\n")
	table(&b, "parameters", bySize, func(p *point) string { return fmt.Sprintf("%.2f million", p.parameters/1e6) })
	b.WriteString("\nExponents of growth, with their standard errors:\n\n| | with peers, from 2 on | with parameters |\n| --- | ---: | ---: |\n")
	several := byPeers[1:]
	for _, l := range laws {
		fmt.Fprintf(&b, "| %s | %v | %v |\n", l.name, fit(of(several, func(p *point) float64 { return float64(p.peers) }), of(several, l.of)),
			fit(of(bySize, func(p *point) float64 { return p.parameters }), of(bySize, l.of)))
	}
	b.WriteString("\n")
	return b.Bytes()
}

func table(b *bytes.Buffer, first string, points []point, name func(*point) string) {
	fmt.Fprintf(b, "| %s |", first)
	for _, c := range columns {
		fmt.Fprintf(b, " %s |", c.title)
	}
	fmt.Fprintf(b, "\n| ---: |%s\n", strings.Repeat(" ---: |", len(columns)))
	for i := range points {
		fmt.Fprintf(b, "| %s |", name(&points[i]))
		for _, c := range columns {
			fmt.Fprintf(b, " %s |", c.cell(&points[i]))
		}
		b.WriteString("\n")
	}
}

// write puts the tables and the plot into the folder of pages.
func write(folder string, byPeers, bySize []point) error {
	svg, err := plotSVG(byPeers, bySize)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "growth.svg"), svg, 0o644); err != nil {
		return err
	}
	return page.Write(filepath.Join(folder, "growth.md"), "make growth", tables(byPeers, bySize))
}
