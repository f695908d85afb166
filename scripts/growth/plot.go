package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	width  = 720 // of the picture, in points
	height = 560
	mib    = 1 << 20
)

var (
	teal  = color.RGBA{11, 114, 133, 255}
	amber = color.RGBA{217, 119, 6, 255}
	gray  = color.Gray{150}
)

// A curve is one line of a panel.
type curve struct {
	name  string
	color color.Color
	of    func(*point) float64
	dots  bool // what was measured, or a line for what a formula says
}

// plotSVG draws four panels whose axes are logarithmic: memory, bytes and CPU by peers, and all of them by parameters.
func plotSVG(byPeers, bySize []point) ([]byte, error) {
	memory := []curve{
		{"at rest", teal, func(p *point) float64 { return p.rest / mib }, true},
		{"at most in a step", amber, func(p *point) float64 { return p.most / mib }, true},
	}
	traffic := []curve{
		{"the formula", gray, func(p *point) float64 { return p.formula / mib }, false},
		{"received", teal, func(p *point) float64 { return p.received / mib }, true},
		{"of it log and heartbeats", amber, func(p *point) float64 { return p.control / mib }, true},
	}
	cpu := []curve{{"", teal, func(p *point) float64 { return 1000 * p.cpu }, true}}
	byParameters := append([]curve{{"received a step", gray, func(p *point) float64 { return p.received / mib }, true}}, memory...)
	count := func(p *point) float64 { return float64(p.peers) }
	var all []*plot.Plot
	for _, panel := range []struct {
		title, x, y string
		points      []point
		at          func(*point) float64
		curves      []curve
	}{
		{"Memory of a peer", "peers", "MiB", byPeers, count, memory},
		{"Received by a peer in a step", "peers", "MiB", byPeers[1:], count, traffic},
		{"CPU of all peers for a sample", "peers", "ms", byPeers, count, cpu},
		{"Four peers, larger models", "million parameters", "MiB", bySize, func(p *point) float64 { return p.parameters / 1e6 }, byParameters},
	} {
		p, err := lines(panel.title, panel.x, panel.y, panel.points, panel.at, panel.curves)
		if err != nil {
			return nil, fmt.Errorf("draw the growth: %w", err)
		}
		all = append(all, p)
	}
	svg := vgsvg.New(width, height)
	canvas := draw.New(svg)
	canvas.FillPolygon(color.White, canvas.ClipPolygonXY([]vg.Point{{}, {X: width}, {X: width, Y: height}, {Y: height}}))
	panels := [][]*plot.Plot{all[:2], all[2:]}
	tiles := draw.Tiles{Rows: 2, Cols: 2, PadX: 16, PadY: 16, PadTop: 8, PadBottom: 8, PadLeft: 8, PadRight: 12}
	for i, row := range plot.Align(panels, tiles, canvas) {
		for j := range row {
			panels[i][j].Draw(row[j])
		}
	}
	var b bytes.Buffer
	if _, err := svg.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("draw the growth: %w", err)
	}
	return bytes.ReplaceAll(b.Bytes(), []byte("Liberation Sans;"), []byte("Liberation Sans,Arial,sans-serif;")), nil
}

// lines is one panel. A tick on the X axis stands at each point.
func lines(title, x, y string, points []point, at func(*point) float64, curves []curve) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding, p.Y.Padding = vg.Points(6), vg.Points(4)
	for _, f := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font,
		&p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font} {
		f.Variant = "Sans"
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Transparent, color.Gray{215}
	p.Add(grid)
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
	var ticks plot.ConstantTicks
	for i := range points {
		v := at(&points[i])
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.3g", v)})
	}
	p.X.Tick.Marker = ticks
	for _, c := range curves {
		var list plotter.XYs
		for i := range points {
			list = append(list, plotter.XY{X: at(&points[i]), Y: c.of(&points[i])})
		}
		line, dots, err := plotter.NewLinePoints(list)
		if err != nil {
			return nil, err
		}
		line.Color, dots.Color, dots.Shape = c.color, c.color, draw.CircleGlyph{}
		p.Add(line)
		thumbs := []plot.Thumbnailer{line}
		if c.dots {
			p.Add(dots)
			thumbs = append(thumbs, dots)
		} else {
			line.Width, line.Dashes = vg.Points(3), []vg.Length{vg.Points(6), vg.Points(3)}
		}
		if c.name != "" {
			p.Legend.Add(c.name, thumbs...)
		}
	}
	p.Legend.Top, p.Legend.Padding = true, vg.Points(3)
	p.Y.Max *= 2
	if curves[0].name != "" { // room for the legend, on a logarithmic axis
		p.Y.Max *= max(3, math.Pow(p.Y.Max/p.Y.Min, 0.35))
	}
	p.Y.Min /= 1.6
	return p, nil
}
