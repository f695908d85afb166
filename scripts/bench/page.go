package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"shoal/internal/median"
	"shoal/kernel/kernelbench"
	"shoal/scripts/internal/page"
)

// What is to be reached, see docs/bench.md.
const (
	largeOfOpenBLAS, smallOfOpenBLAS = 0.90, 0.80
	largeOfPeak                      = 0.85
	opOfPyTorch, opOfCopy            = 2, 0.80
	stepOfCompiled                   = 1.0
)

// table is a page's table in the making, and the targets that it shows to be missed.
type table struct {
	bytes.Buffer
	missed []error
}

// tables is what goes into the page, and an error that names the targets that were missed.
func tables(o *outcome) ([]byte, error) {
	var t table
	t.machine(o)
	t.products(o)
	t.ops(o)
	t.steps(o)
	return t.Bytes(), errors.Join(t.missed...)
}

// verdict says whether a target is met, and keeps it in mind if not.
func (t *table) verdict(m *match, met bool, format string, args ...any) string {
	if met {
		return "met"
	}
	t.missed = append(t.missed, fmt.Errorf("%s %s: "+format, append([]any{m.name, m.shape}, args...)...))
	return "**missed**"
}

func (t *table) machine(o *outcome) {
	fmt.Fprintf(t, "\nBy `make bench`, on %s: %s built with %s, Python %s, PyTorch %s, NumPy %s. %d rounds of about %v.\n\n",
		page.Machine(), o.backend, runtime.Version(), o.about.Python, o.about.Torch, o.about.NumPy, o.rounds, o.slice)
	for _, l := range o.about.Libraries {
		if l.API == "openblas" {
			fmt.Fprintf(t, "- NumPy's OpenBLAS %s with its kernels for %s, %s by %s\n", l.Version, l.Architecture, threads(l.Threads), l.Layer)
		}
	}
	fmt.Fprintf(t, "- PyTorch's own kernels: %s, %s\n", o.about.Capability, threads(o.about.Threads))
	for _, line := range o.about.Config {
		if strings.Contains(line, "Math Kernel") || strings.Contains(line, "MKL-DNN") || strings.Contains(line, "OpenMP") {
			fmt.Fprintf(t, "- PyTorch's %s\n", line)
		}
	}
	fmt.Fprintf(t, "- One core's peak: %.0f GFLOP/s of fused multiply-adds on registers; a copy: %.0f GB/s read and written\n",
		median.Of(o.peak)/1e9, kernelbench.Copy().Bytes/median.Of(o.copied)/1e9)
}

func (t *table) products(o *outcome) {
	t.WriteString("\n## Products, one thread\n\n")
	fmt.Fprintf(t, "Target: %v of OpenBLAS and %v of the peak; with 64 rows %v of OpenBLAS.\n\n", largeOfOpenBLAS, largeOfPeak, smallOfOpenBLAS)
	t.WriteString("| product | m x n x k | GFLOP/s | OpenBLAS | PyTorch | of OpenBLAS | of peak | of PyTorch | target |\n" +
		"| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n")
	for _, p := range o.products {
		blas, torch := p.side("numpy"), p.side("torch")
		ofBLAS, ofPeak := p.ratio(blas), p.ofPeak(o.peak)
		met := ofBLAS >= largeOfOpenBLAS && ofPeak >= largeOfPeak
		if p.small {
			met = ofBLAS >= smallOfOpenBLAS
		}
		fmt.Fprintf(t, "| %s | %s | %.0f | %.0f | %.0f | %.2f | %.2f | %.2f | %s |\n", strings.TrimPrefix(p.name, "MatMul "), p.shape,
			p.rate(p.ours), p.rate(blas), p.rate(torch), ofBLAS, ofPeak, p.ratio(torch),
			t.verdict(&p.match, met, "%.2f of OpenBLAS, %.2f of the peak", ofBLAS, ofPeak))
	}
}

// rate is in GFLOP/s.
func (m *opMatch) rate(s *side) float64 {
	if s == nil {
		return math.NaN()
	}
	return m.op.FLOPs / median.Of(s.seconds) / 1e9
}

// ofPeak is the share of a core's peak, the median over the rounds.
func (m *opMatch) ofPeak(peak []float64) float64 {
	shares := make([]float64, len(peak))
	for i := range shares {
		shares[i] = m.op.FLOPs / m.ours.seconds[i] / peak[i]
	}
	return median.Of(shares)
}

// ofCopy is the share of a copy's bandwidth, the median over the rounds; NaN where memory is not the limit.
func (m *opMatch) ofCopy(copied []float64) float64 {
	if m.op.Bytes == 0 {
		return math.NaN()
	}
	c, shares := kernelbench.Copy().Bytes, make([]float64, len(copied))
	for i := range shares {
		shares[i] = m.op.Bytes / m.ours.seconds[i] / (c / copied[i])
	}
	return median.Of(shares)
}

func (t *table) ops(o *outcome) {
	t.WriteString("\n## Ops, one thread\n\n")
	fmt.Fprintf(t, "Target: %v times PyTorch eager, or %v of a copy's bandwidth.\n\n", opOfPyTorch, opOfCopy)
	t.WriteString("| op | shape | us | PyTorch, us | its way | times PyTorch | of copy | of peak | target |\n" +
		"| --- | --- | ---: | ---: | --- | ---: | ---: | ---: | --- |\n")
	for _, p := range o.ops {
		best := p.fastest()
		ratio, ofCopy, ofPeak := p.ratio(best), p.ofCopy(o.copied), p.ofPeak(o.peak)
		shares := fmt.Sprintf("%.2f | ", ofCopy)
		if p.op.Bytes == 0 {
			shares = fmt.Sprintf("| %.2f", ofPeak)
		}
		verdict := "none"
		if !slices.Contains(untargeted, p.name) {
			verdict = t.verdict(&p.match, ratio >= opOfPyTorch || ofCopy >= opOfCopy, "%.2f times PyTorch, %.2f of a copy", ratio, ofCopy)
		}
		fmt.Fprintf(t, "| %s | %s | %.0f | %.0f | %s | %.2f | %s | %s |\n", p.name, p.shape, median.Of(p.ours.seconds)*1e6,
			median.Of(best.seconds)*1e6, best.name, ratio, shares, verdict)
	}
	for _, p := range o.ops {
		if s := p.side(kept); s != nil {
			fmt.Fprintf(t, "\nPyTorch's part of %s %s from weights that it kept: %.0f us.\n", p.name, p.shape, median.Of(s.seconds)*1e6)
		}
	}
}

func (t *table) steps(o *outcome) {
	t.WriteString("\n## Training steps\n\n")
	fmt.Fprintf(t, "Forward, backward and AdamW in float32. Target: %v times `torch.compile`, and so many times eager as the table says.\n\n", stepOfCompiled)
	t.WriteString("| model | parameters | batch | threads | ms | eager, ms | compiled, ms | times eager | at least | times compiled | target |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n")
	for _, s := range o.steps {
		eager, compiled := s.side("eager"), s.side("compiled")
		ofEager, ofCompiled := s.ratio(eager), s.ratio(compiled)
		fmt.Fprintf(t, "| %s %s | %d | %d | %d | %s | %s | %s | %.2f | %v | %.2f | %s |\n", s.name, s.shape, s.parameters, s.batch, s.threads,
			millis(s.ours), millis(eager), millis(compiled), ofEager, s.eager, ofCompiled,
			t.verdict(&s.match, ofEager >= s.eager && ofCompiled >= stepOfCompiled, "with %s %.2f times eager, %.2f times compiled",
				threads(s.threads), ofEager, ofCompiled))
	}
	t.WriteString("\nWhere our time goes: products of matrices in layers, attention with its own products, and the rest.\n\n" +
		"| model | threads | products | attention | rest |\n| --- | ---: | ---: | ---: | ---: |\n")
	for _, s := range o.steps {
		products, attention := s.share()
		fmt.Fprintf(t, "| %s %s | %d | %.0f%% | %.0f%% | %.0f%% |\n", s.name, s.shape, s.threads, 100*products, 100*attention, 100*(1-products-attention))
	}
	for _, s := range o.steps {
		if s.missing != "" {
			fmt.Fprintf(t, "\n%s %s with %s: %s.\n", s.name, s.shape, threads(s.threads), s.missing)
		}
	}
	t.WriteString("\n")
}

// millis is the time of a call, - without a side.
func millis(s *side) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", median.Of(s.seconds)*1e3)
}

func threads(n int) string {
	if n == 1 {
		return "1 thread"
	}
	return fmt.Sprintf("%d threads", n)
}
