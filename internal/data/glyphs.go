package data

// Glyphs in tenths of a pixel of a 28-pixel image, y downwards, the origin in the middle. A curve runs smoothly through
// its points (a uniform Catmull-Rom spline; closed if it ends where it began), a line has corners at them.

type point struct{ x, y int64 }

type stroke struct {
	curve  bool
	points []point
}

func curve(p ...point) stroke { return stroke{true, p} }
func line(p ...point) stroke  { return stroke{false, p} }

// glyphs has the ways to write each digit.
func glyphs() [10][][]stroke {
	return [10][][]stroke{
		0: {
			{curve(point{0, -90}, point{36, -70}, point{50, 0}, point{36, 70}, point{0, 90}, point{-36, 70}, point{-50, 0},
				point{-36, -70}, point{0, -90})},
			{curve(point{14, -90}, point{42, -62}, point{38, 10}, point{16, 68}, point{-14, 90}, point{-42, 62},
				point{-38, -10}, point{-16, -68}, point{14, -90})},
		},
		1: {
			{line(point{9, -90}, point{-9, 90})},
			{line(point{-30, -58}, point{4, -90}, point{4, 90}), line(point{-28, 90}, point{36, 90})},
		},
		2: {
			{curve(point{-46, -52}, point{-32, -80}, point{2, -90}, point{36, -74}, point{42, -38}, point{22, 0},
				point{-14, 44}, point{-50, 88}), line(point{-50, 88}, point{52, 88})},
			{curve(point{-42, -62}, point{-10, -88}, point{30, -76}, point{36, -34}, point{8, 24}, point{-32, 76},
				point{-52, 70}, point{-38, 52}, point{-4, 66}, point{28, 86}, point{54, 74})},
		},
		3: {
			{curve(point{-42, -66}, point{-10, -90}, point{30, -78}, point{38, -42}, point{18, -12}, point{-12, -6}),
				curve(point{-12, -6}, point{26, 4}, point{46, 40}, point{30, 78}, point{-8, 90}, point{-46, 66})},
			{line(point{-42, -88}, point{40, -88}, point{-6, -20}),
				curve(point{-6, -20}, point{30, -10}, point{48, 28}, point{34, 72}, point{-4, 90}, point{-44, 72})},
		},
		4: {
			{line(point{-26, -88}, point{-46, 18}, point{50, 18}), line(point{26, -52}, point{14, 90})},
			{line(point{22, 90}, point{22, -90}, point{-52, 34}, point{54, 34})},
		},
		5: {
			{line(point{42, -88}, point{-32, -88}, point{-40, -14}),
				curve(point{-40, -14}, point{-4, -28}, point{34, -12}, point{46, 32}, point{28, 76}, point{-8, 90},
					point{-46, 68})},
			{line(point{48, -80}, point{-18, -86}, point{-34, -16}),
				curve(point{-34, -16}, point{6, -18}, point{38, 8}, point{38, 54}, point{4, 86}, point{-42, 82})},
		},
		6: {
			{curve(point{34, -84}, point{-4, -66}, point{-36, -16}, point{-44, 36}, point{-24, 80}, point{12, 88},
				point{42, 58}, point{34, 18}, point{2, 2}, point{-30, 18}, point{-44, 48})},
			{curve(point{16, -90}, point{-20, -40}, point{-40, 20}, point{-34, 70}, point{0, 90}, point{34, 70}, point{36, 28},
				point{6, 8}, point{-38, 42})},
		},
		7: {
			{line(point{-48, -86}, point{48, -86}, point{-8, 90})},
			{line(point{-46, -86}, point{46, -86}), curve(point{46, -86}, point{14, -12}, point{-4, 90}),
				line(point{-20, 2}, point{44, 2})},
		},
		8: {
			{curve(point{0, -8}, point{32, -40}, point{28, -76}, point{0, -90}, point{-28, -76}, point{-32, -40},
				point{0, -8}, point{40, 36}, point{34, 76}, point{0, 90}, point{-34, 76}, point{-40, 36}, point{0, -8})},
			{curve(point{40, -72}, point{8, -90}, point{-26, -72}, point{-22, -34}, point{12, 2}, point{32, 44},
				point{16, 82}, point{-20, 86}, point{-38, 52}, point{-12, 8}, point{24, -30}, point{40, -72})},
		},
		9: {
			{curve(point{40, -50}, point{18, -84}, point{-18, -86}, point{-40, -52}, point{-26, -14}, point{10, -10},
				point{40, -50}), line(point{40, -60}, point{28, 90})},
			{curve(point{40, -46}, point{22, -82}, point{-14, -88}, point{-42, -58}, point{-34, -18}, point{-2, -4},
				point{32, -22}, point{42, -52}, point{36, 16}, point{4, 66}, point{-34, 84})},
		},
	}
}

// cuts is the number of straight pieces between two points of a curve.
const cuts = 4

// flatten turns a stroke into corners in 1/1024 of a pixel of an image of the given width.
func (s stroke) flatten(image int) []point {
	fixed := func(p point) point {
		return point{p.x * one * int64(image) / 280, p.y * one * int64(image) / 280}
	}
	p := make([]point, len(s.points))
	for i := range p {
		p[i] = fixed(s.points[i])
	}
	if !s.curve {
		return p
	}
	last := len(p) - 1
	before, after := p[0], p[last]
	if before == after {
		before, after = p[last-1], p[1]
	}
	out := p[:1:1]
	for i := range last {
		a, d := before, after
		if i > 0 {
			a = p[i-1]
		}
		if i+1 < last {
			d = p[i+2]
		}
		for t := int64(1); t <= cuts; t++ {
			out = append(out, point{catmullRom(a.x, p[i].x, p[i+1].x, d.x, t), catmullRom(a.y, p[i].y, p[i+1].y, d.y, t)})
		}
	}
	return out
}

// catmullRom is the spline through b (t = 0) and c (t = cuts), with neighbours a and d.
func catmullRom(a, b, c, d, t int64) int64 {
	sum := 2*b*cuts*cuts*cuts + (c-a)*t*cuts*cuts + (2*a-5*b+4*c-d)*t*t*cuts + (3*b-a-3*c+d)*t*t*t
	return sum / (2 * cuts * cuts * cuts)
}
