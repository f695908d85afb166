package main

import (
	"bytes"
	"fmt"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"shoal"
	"shoal/internal/report"
)

// A part of a bar.
type part struct {
	name  string
	color color.Color
	of    func(*report.Peer) int64
}

// memoryParts are the kinds of memory, those at rest first; trafficParts what a peer sends and receives.
var (
	memoryParts = []part{
		{"parameters", color.RGBA{8, 84, 99, 255}, func(p *report.Peer) int64 { return p.ParameterBytes }},
		{"gradients", color.RGBA{11, 114, 133, 255}, func(p *report.Peer) int64 { return p.GradientBytes }},
		{"optimizer state", color.RGBA{62, 157, 174, 255}, func(p *report.Peer) int64 { return p.OptimizerBytes }},
		{"borrowed units", color.RGBA{217, 119, 6, 255}, func(p *report.Peer) int64 { return p.GatheredPeakBytes }},
		{"gradients on their way", color.RGBA{240, 173, 78, 255}, func(p *report.Peer) int64 { return p.GradientPeakBytes }},
		{"activations", color.Gray{190}, func(p *report.Peer) int64 { return p.ActivationPeakBytes }},
	}
	trafficParts = []part{{"received", color.RGBA{11, 114, 133, 255}, func(p *report.Peer) int64 { return p.BytesReceived }}}
)

const (
	barWidth = 26  // points
	width    = 720 // of the picture, in points
	height   = 620
)

// plotSVG draws two panels over the same ways: memory of the peer that holds most, and bytes received a step.
func plotSVG(reports []*shoal.Report) ([]byte, error) {
	memory, err := bars("Memory of a peer: at rest, and on top for moments of a step", reports, memoryParts,
		func(r *shoal.Report, of func(*report.Peer) int64) float64 { return float64(most(r, of)) / (1 << 20) })
	if err != nil {
		return nil, err
	}
	traffic, err := bars("Received by a peer in a step", reports, trafficParts,
		func(r *shoal.Report, of func(*report.Peer) int64) float64 {
			return float64(each(r, of)) / float64(r.Steps) / (1 << 20)
		})
	if err != nil {
		return nil, err
	}
	svg := vgsvg.New(width, height)
	canvas := draw.New(svg)
	canvas.FillPolygon(color.White, canvas.ClipPolygonXY([]vg.Point{{}, {X: width}, {X: width, Y: height}, {Y: height}}))
	panels := [][]*plot.Plot{{memory}, {traffic}}
	tiles := draw.Tiles{Rows: 2, Cols: 1, PadX: 8, PadY: 16, PadTop: 8, PadBottom: 8, PadLeft: 8, PadRight: 8}
	for i, row := range plot.Align(panels, tiles, canvas) {
		panels[i][0].Draw(row[0])
	}
	var b bytes.Buffer
	if _, err := svg.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("draw the comparison: %w", err)
	}
	return bytes.ReplaceAll(b.Bytes(), []byte("Liberation Sans;"), []byte("Liberation Sans,Arial,sans-serif;")), nil
}

// bars draws one bar per report, its parts on top of one another, in MiB.
func bars(title string, reports []*shoal.Report, parts []part, value func(*shoal.Report, func(*report.Peer) int64) float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = title, "MiB"
	p.Title.Padding, p.Y.Padding = vg.Points(6), vg.Points(4)
	p.Y.Min = 0
	for _, f := range []*font.Font{&p.Title.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font} {
		f.Variant = "Sans"
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color = color.Transparent
	grid.Horizontal.Color = color.Gray{215}
	p.Add(grid)
	var below *plotter.BarChart
	for _, part := range parts {
		values := make(plotter.Values, len(reports))
		for i, r := range reports {
			values[i] = value(r, part.of)
		}
		chart, err := plotter.NewBarChart(values, vg.Points(barWidth))
		if err != nil {
			return nil, fmt.Errorf("draw the comparison: %w", err)
		}
		chart.Color, chart.LineStyle.Width = part.color, 0
		if below != nil {
			chart.StackOn(below)
		}
		below = chart
		p.Add(chart)
		if len(parts) > 1 {
			p.Legend.Add(part.name, chart)
		}
	}
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs = true, true, vg.Points(8)
	p.Legend.Padding, p.Legend.ThumbnailWidth = vg.Points(3), vg.Points(12)
	var names []string
	for _, w := range ways {
		names = append(names, strings.ReplaceAll(w.name, "`", ""))
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.5, float64(len(names))-0.5
	p.Y.Max *= 1.15
	return p, nil
}
