package cpu

import "shoal/kernel"

// colGrain is how many columns a worker takes at least when an op is cut by columns: one cache line.
const colGrain = 16

// byColumns is how an op of rows*cols light elements is split by columns: its items are colGrain of them.
func byColumns(rows, cols int) (total, grain int) {
	grain = max(grainLight/max(rows, 1), colGrain)
	return (cols + colGrain - 1) / colGrain, (grain + colGrain - 1) / colGrain
}

// columns are those of a piece of byColumns.
func columns(lo, hi, cols int) (int, int) { return lo * colGrain, min(hi*colGrain, cols) }

type addRows struct {
	*ops
	y, x, table  []float32
	cols, period int
}

func (o *ops) AddRows(y, x, table kernel.Buffer, rows, cols, period int) {
	run(o, &o.args.addRows, addRows{o, f32(y), f32(x), f32(table), cols, period}, rows, grainLight/cols)
}

func (a *addRows) do(_, lo, hi int) {
	for r := lo; r < hi; r++ {
		a.loops.add(a.y[r*a.cols:][:a.cols], a.x[r*a.cols:][:a.cols], a.table[r%a.period*a.cols:][:a.cols])
	}
}

type sumRows struct {
	*ops
	dtable, dy         []float32
	rows, cols, period int
}

func (o *ops) SumRows(dtable, dy kernel.Buffer, rows, cols, period int) {
	total, grain := byColumns(rows, cols)
	run(o, &o.args.sumRows, sumRows{o, f32(dtable), f32(dy), rows, cols, period}, total, grain)
}

func (a *sumRows) do(_, lo, hi int) {
	lo, hi = columns(lo, hi, a.cols)
	for p := range a.period {
		sum := a.dtable[p*a.cols+lo : p*a.cols+hi]
		if p >= a.rows {
			clear(sum)
			continue
		}
		a.loops.sumColumns(sum, a.dy[p*a.cols+lo:], a.period*a.cols, (a.rows-p+a.period-1)/a.period)
	}
}

type meanRows struct {
	*ops
	y, x    []float32
	n, cols int
}

func (o *ops) MeanRows(y, x kernel.Buffer, groups, n, cols int) {
	run(o, &o.args.meanRows, meanRows{o, f32(y), f32(x), n, cols}, groups, grainLight/max(n*cols, 1))
}

func (a *meanRows) do(_, lo, hi int) {
	for g := lo; g < hi; g++ {
		row := a.y[g*a.cols:][:a.cols]
		a.loops.sumColumns(row, a.x[g*a.n*a.cols:], a.cols, a.n)
		for c := range row {
			row[c] /= float32(a.n)
		}
	}
}

type meanRowsBackward struct {
	dx, dy  []float32
	n, cols int
}

func (o *ops) MeanRowsBackward(dx, dy kernel.Buffer, groups, n, cols int) {
	run(o, &o.args.meanRowsBackward, meanRowsBackward{f32(dx), f32(dy), n, cols}, groups, grainLight/max(n*cols, 1))
}

func (a *meanRowsBackward) do(_, lo, hi int) {
	for g := lo; g < hi; g++ {
		first := a.dx[g*a.n*a.cols:][:a.cols]
		for c, v := range a.dy[g*a.cols:][:a.cols] {
			first[c] = v / float32(a.n)
		}
		for i := 1; i < a.n; i++ {
			copy(a.dx[(g*a.n+i)*a.cols:][:a.cols], first)
		}
	}
}

type embeddingBackward struct {
	*ops
	dtable, dy  []float32
	ids         []int32
	vocab, cols int
}

func (o *ops) EmbeddingBackward(dtable, dy, ids kernel.Buffer, rows, cols int) {
	vocab := 0
	if cols > 0 {
		vocab = dtable.Len / cols
	}
	total, grain := byColumns(max(rows, vocab), cols)
	run(o, &o.args.embeddingBackward, embeddingBackward{o, f32(dtable), f32(dy), i32(ids), vocab, cols}, total, grain)
}

func (a *embeddingBackward) do(_, lo, hi int) {
	lo, hi = columns(lo, hi, a.cols)
	for v := range a.vocab {
		clear(a.dtable[v*a.cols+lo : v*a.cols+hi])
	}
	for r, id := range a.ids {
		if id >= 0 && int(id) < a.vocab {
			row := a.dtable[int(id)*a.cols+lo : int(id)*a.cols+hi]
			a.loops.add(row, row, a.dy[r*a.cols+lo:][:len(row)])
		}
	}
}
