//go:build !js

package report

import (
	"bytes"
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// lossSVG draws the loss curve for documents: black on white.
func (r *Report) lossSVG() ([]byte, error) {
	p := plot.New()
	p.Title.Text = "Loss"
	p.X.Label.Text = "step"
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(roundTicks), plot.TickerFunc(roundTicks)
	p.Title.Padding, p.X.Padding, p.Y.Padding = vg.Points(6), vg.Points(4), vg.Points(4)
	p.Y.Min = 0
	for _, f := range []*font.Font{
		&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font,
	} {
		f.Variant = "Sans"
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color = color.Transparent
	grid.Horizontal.Color = color.Gray{205}
	p.Add(grid)

	raw, smooth := r.curves()
	for _, c := range []struct {
		points []xy
		style  draw.LineStyle
	}{
		{raw, draw.LineStyle{Color: color.RGBA{154, 208, 217, 255}, Width: vg.Points(0.8)}},
		{smooth, draw.LineStyle{Color: color.RGBA{11, 114, 133, 255}, Width: vg.Points(1.8)}},
	} {
		if len(c.points) == 0 {
			continue
		}
		xys := make(plotter.XYs, len(c.points))
		for i, q := range c.points {
			xys[i] = plotter.XY(q)
		}
		if len(xys) == 1 {
			dot, err := plotter.NewScatter(xys)
			if err != nil {
				return nil, fmt.Errorf("draw the loss curve: %w", err)
			}
			dot.GlyphStyle = draw.GlyphStyle{Color: c.style.Color, Radius: vg.Points(3), Shape: draw.CircleGlyph{}}
			p.Add(dot)
			continue
		}
		line, err := plotter.NewLine(xys)
		if err != nil {
			return nil, fmt.Errorf("draw the loss curve: %w", err)
		}
		line.LineStyle = c.style
		p.Add(line)
	}
	if len(raw) == 0 {
		p.X.Min, p.Y.Max = 0, 0
	}
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		if !(a.Max-a.Min > 1/drawable) { // no point, or a single one
			a.Max = a.Min + 1
		}
	}

	svg := vgsvg.New(540, 270)
	canvas := draw.New(svg)
	canvas.FillPolygon(color.White, canvas.ClipPolygonXY([]vg.Point{{}, {X: 540}, {X: 540, Y: 270}, {Y: 270}}))
	p.Draw(draw.Crop(canvas, 8, -16, 8, -8))
	var b bytes.Buffer
	if _, err := svg.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("draw the loss curve: %w", err)
	}
	return bytes.ReplaceAll(b.Bytes(), []byte("Liberation Sans;"), []byte("Liberation Sans,Arial,sans-serif;")), nil
}

// roundTicks are the ticks of an axis: those of the page.
func roundTicks(lo, hi float64) []plot.Tick {
	var out []plot.Tick
	for _, at := range ticks(lo, hi, 5) {
		if at <= hi {
			out = append(out, plot.Tick{Value: at, Label: tickLabel(at)})
		}
	}
	return out
}
