package cpu

import "shoal/kernel"

// colGrain is how many columns a worker takes at least when an op is cut by columns: one cache line.
const colGrain = 16

// byColumns cuts an op of rows*cols light elements by columns.
func (o *ops) byColumns(rows, cols int, f func(lo, hi int)) {
	grain := max(grainLight/max(rows, 1), colGrain)
	o.crew.split((cols+colGrain-1)/colGrain, (grain+colGrain-1)/colGrain, func(_, lo, hi int) {
		f(lo*colGrain, min(hi*colGrain, cols))
	})
}

func (o *ops) AddRows(y, x, table kernel.Buffer, rows, cols, period int) {
	ys, xs, ts := f32(y), f32(x), f32(table)
	o.crew.split(rows, grainLight/cols, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			o.loops.add(ys[r*cols:][:cols], xs[r*cols:][:cols], ts[r%period*cols:][:cols])
		}
	})
}

func (o *ops) SumRows(dtable, dy kernel.Buffer, rows, cols, period int) {
	ts, dys := f32(dtable), f32(dy)
	o.byColumns(rows, cols, func(lo, hi int) {
		for p := range period {
			if p >= rows {
				clear(ts[p*cols+lo : p*cols+hi])
				continue
			}
			o.loops.sumColumns(ts[p*cols+lo:p*cols+hi], dys[p*cols+lo:], period*cols, (rows-p+period-1)/period)
		}
	})
}

func (o *ops) MeanRows(y, x kernel.Buffer, groups, n, cols int) {
	ys, xs := f32(y), f32(x)
	o.crew.split(groups, grainLight/max(n*cols, 1), func(_, lo, hi int) {
		for g := lo; g < hi; g++ {
			row := ys[g*cols:][:cols]
			o.loops.sumColumns(row, xs[g*n*cols:], cols, n)
			for c := range row {
				row[c] /= float32(n)
			}
		}
	})
}

func (o *ops) MeanRowsBackward(dx, dy kernel.Buffer, groups, n, cols int) {
	dxs, dys := f32(dx), f32(dy)
	o.crew.split(groups, grainLight/max(n*cols, 1), func(_, lo, hi int) {
		for g := lo; g < hi; g++ {
			first := dxs[g*n*cols:][:cols]
			for c, v := range dys[g*cols:][:cols] {
				first[c] = v / float32(n)
			}
			for i := 1; i < n; i++ {
				copy(dxs[(g*n+i)*cols:][:cols], first)
			}
		}
	})
}

func (o *ops) EmbeddingBackward(dtable, dy, ids kernel.Buffer, rows, cols int) {
	ts, dys, is := f32(dtable), f32(dy), i32(ids)
	vocab := 0
	if cols > 0 {
		vocab = len(ts) / cols
	}
	o.byColumns(max(rows, vocab), cols, func(lo, hi int) {
		for v := range vocab {
			clear(ts[v*cols+lo : v*cols+hi])
		}
		for r, id := range is {
			if id >= 0 && int(id) < vocab {
				row := ts[int(id)*cols+lo : int(id)*cols+hi]
				o.loops.add(row, row, dys[r*cols+lo:][:len(row)])
			}
		}
	})
}
