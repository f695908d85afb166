package ref

// AddRows writes y[r] = x[r] + table[r mod period]; x, y (rows, cols), table (period, cols). y may be x.
func AddRows(y, x, table []float32, rows, cols, period int) {
	for r := range rows {
		t := table[r%period*cols:][:cols]
		for c := range cols {
			y[r*cols+c] = x[r*cols+c] + t[c]
		}
	}
}

// SumRows writes dtable[p] = dy[p] + dy[p+period] + ..., one chain from 0.
func SumRows(dtable, dy []float32, rows, cols, period int) {
	clear(dtable)
	for r := range rows {
		t := dtable[r%period*cols:][:cols]
		for c := range cols {
			t[c] += dy[r*cols+c]
		}
	}
}

// MeanRows writes y[g] = (x[g*n] + x[g*n+1] + ...) / n, one chain from 0; x (groups*n, cols).
func MeanRows(y, x []float32, groups, n, cols int) {
	clear(y)
	for r := range groups * n {
		for c := range cols {
			y[r/n*cols+c] += x[r*cols+c]
		}
	}
	for i := range y {
		y[i] /= float32(n)
	}
}

// MeanRowsBackward writes dx[g*n+i] = dy[g] / n.
func MeanRowsBackward(dx, dy []float32, groups, n, cols int) {
	for r := range groups * n {
		for c := range cols {
			dx[r*cols+c] = dy[r/n*cols+c] / float32(n)
		}
	}
}

// Embedding writes y[r] = table[ids[r]], zeros for an id outside the table.
func Embedding(y, table []float32, ids []int32, cols int) {
	for r, id := range ids {
		row := y[r*cols:][:cols]
		if id < 0 || int(id)*cols >= len(table) {
			clear(row)
			continue
		}
		copy(row, table[int(id)*cols:])
	}
}

// EmbeddingBackward writes dtable[v] = the sum of the dy[r] with ids[r] = v, one chain over r from 0.
func EmbeddingBackward(dtable, dy []float32, ids []int32, cols int) {
	clear(dtable)
	for r, id := range ids {
		if id < 0 || int(id)*cols >= len(dtable) {
			continue
		}
		row := dtable[int(id)*cols:][:cols]
		for c := range row {
			row[c] += dy[r*cols+c]
		}
	}
}
