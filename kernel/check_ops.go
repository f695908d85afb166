package kernel

// The methods of Checked: one contract per op, in the order of Ops. Calls with nothing to compute end here.

func (c *Checked) MatMul(t Trans, y, a, b Buffer, m, n, k int, accumulate bool) {
	d := dims{"trans m n k", [5]int{int(t), m, n, k}}
	if t > TN {
		c.refuse("MatMul", d, "trans is none of NN, NT, TN")
		return
	}
	if c.ok("MatMul", d, out("c", y, area(m, n)), in("a", a, area(m, k)), in("b", b, area(k, n))) && y.Len > 0 {
		c.Raw.MatMul(t, y, a, b, m, n, k, accumulate)
	}
}

func (c *Checked) AddRows(y, x, table Buffer, rows, cols, period int) {
	d := dims{"rows cols period", [5]int{rows, cols, period}}
	if period < 1 {
		c.refuse("AddRows", d, "period must be at least 1")
		return
	}
	n := area(rows, cols)
	if c.ok("AddRows", d, out("y", y, n), inPlace("x", x, n), in("table", table, area(period, cols))) && n > 0 {
		c.Raw.AddRows(y, x, table, rows, cols, period)
	}
}

func (c *Checked) SumRows(dtable, dy Buffer, rows, cols, period int) {
	d := dims{"rows cols period", [5]int{rows, cols, period}}
	if period < 1 {
		c.refuse("SumRows", d, "period must be at least 1")
		return
	}
	if c.ok("SumRows", d, out("dtable", dtable, area(period, cols)), in("dy", dy, area(rows, cols))) && dtable.Len > 0 {
		c.Raw.SumRows(dtable, dy, rows, cols, period)
	}
}

func (c *Checked) Add(y, a, b Buffer) {
	if c.ok("Add", lengths(y.Len), out("y", y, y.Len), inPlace("a", a, y.Len), inPlace("b", b, y.Len)) {
		c.Raw.Add(y, a, b)
	}
}

func (c *Checked) Zero(y Buffer) {
	if c.ok("Zero", lengths(y.Len), out("y", y, y.Len).typed(typeOf(y))) {
		c.Raw.Zero(y)
	}
}

func (c *Checked) Copy(dst, src Buffer) {
	t := typeOf(dst)
	if c.ok("Copy", lengths(dst.Len), out("dst", dst, dst.Len).typed(t), in("src", src, dst.Len).typed(t)) {
		c.Raw.Copy(dst, src)
	}
}

func typeOf(b Buffer) DType {
	if b.Mem == nil {
		return F32
	}
	return b.Mem.DType()
}

func (c *Checked) GELU(y, x Buffer) {
	if c.ok("GELU", lengths(y.Len), out("y", y, y.Len), inPlace("x", x, y.Len)) {
		c.Raw.GELU(y, x)
	}
}

func (c *Checked) GELUBackward(dx, x, dy Buffer) {
	if c.ok("GELUBackward", lengths(dx.Len), out("dx", dx, dx.Len), in("x", x, dx.Len), inPlace("dy", dy, dx.Len)) {
		c.Raw.GELUBackward(dx, x, dy)
	}
}

func (c *Checked) ReLU(y, x Buffer) {
	if c.ok("ReLU", lengths(y.Len), out("y", y, y.Len), inPlace("x", x, y.Len)) {
		c.Raw.ReLU(y, x)
	}
}

func (c *Checked) ReLUBackward(dx, x, dy Buffer) {
	if c.ok("ReLUBackward", lengths(dx.Len), out("dx", dx, dx.Len), in("x", x, dx.Len), inPlace("dy", dy, dx.Len)) {
		c.Raw.ReLUBackward(dx, x, dy)
	}
}

func (c *Checked) LayerNorm(y, mean, rstd, x, gamma, beta Buffer, rows, cols int) {
	n := area(rows, cols)
	if c.ok("LayerNorm", rowsCols(rows, cols), out("y", y, n), out("mean", mean, rows), out("rstd", rstd, rows),
		in("x", x, n), in("gamma", gamma, cols), in("beta", beta, cols)) {
		c.Raw.LayerNorm(y, mean, rstd, x, gamma, beta, rows, cols)
	}
}

func (c *Checked) LayerNormBackward(dx, dgamma, dbeta, dy, x, mean, rstd, gamma Buffer, rows, cols int) {
	n := area(rows, cols)
	if c.ok("LayerNormBackward", rowsCols(rows, cols), out("dx", dx, n), out("dgamma", dgamma, cols),
		out("dbeta", dbeta, cols), inPlace("dy", dy, n), in("x", x, n), in("mean", mean, rows),
		in("rstd", rstd, rows), in("gamma", gamma, cols)) {
		c.Raw.LayerNormBackward(dx, dgamma, dbeta, dy, x, mean, rstd, gamma, rows, cols)
	}
}

func (s AttentionShape) dims() dims { return dims{"B T H D", [5]int{s.B, s.T, s.H, s.D}} }

func (c *Checked) Attention(y, stats, qkv Buffer, s AttentionShape) {
	if s.D < 1 {
		c.refuse("Attention", s.dims(), "D must be at least 1")
		return
	}
	n := area(s.B, s.T, s.H, s.D)
	if c.ok("Attention", s.dims(), out("y", y, n), out("stats", stats, area(s.B, s.H, s.T, 2)),
		in("qkv", qkv, area(3, n))) && n > 0 {
		c.Raw.Attention(y, stats, qkv, s)
	}
}

func (c *Checked) AttentionBackward(dqkv, dy, y, qkv, stats Buffer, s AttentionShape) {
	if s.D < 1 {
		c.refuse("AttentionBackward", s.dims(), "D must be at least 1")
		return
	}
	n := area(s.B, s.T, s.H, s.D)
	if c.ok("AttentionBackward", s.dims(), out("dqkv", dqkv, area(3, n)), in("dy", dy, n), in("y", y, n),
		in("qkv", qkv, area(3, n)), in("stats", stats, area(s.B, s.H, s.T, 2))) && n > 0 {
		c.Raw.AttentionBackward(dqkv, dy, y, qkv, stats, s)
	}
}

// wholeRows says whether table is a number of rows of cols elements.
func (c *Checked) wholeRows(op string, table Buffer, rows, cols int) bool {
	if cols < 0 || (cols == 0 && table.Len != 0) || (cols > 0 && table.Len%cols != 0) {
		c.refuse(op, rowsCols(rows, cols), "the table's length is not a multiple of cols")
		return false
	}
	return true
}

func (c *Checked) Embedding(y, table, ids Buffer, rows, cols int) {
	if c.wholeRows("Embedding", table, rows, cols) && c.ok("Embedding", rowsCols(rows, cols),
		out("y", y, area(rows, cols)), in("table", table, table.Len), in("ids", ids, rows).typed(I32)) {
		c.Raw.Embedding(y, table, ids, rows, cols)
	}
}

func (c *Checked) EmbeddingBackward(dtable, dy, ids Buffer, rows, cols int) {
	if c.wholeRows("EmbeddingBackward", dtable, rows, cols) && c.ok("EmbeddingBackward", rowsCols(rows, cols),
		out("dtable", dtable, dtable.Len), in("dy", dy, area(rows, cols)), in("ids", ids, rows).typed(I32)) {
		c.Raw.EmbeddingBackward(dtable, dy, ids, rows, cols)
	}
}

func (c *Checked) MeanRows(y, x Buffer, groups, n, cols int) {
	d := dims{"groups n cols", [5]int{groups, n, cols}}
	if n < 1 {
		c.refuse("MeanRows", d, "n must be at least 1")
		return
	}
	if c.ok("MeanRows", d, out("y", y, area(groups, cols)), in("x", x, area(groups, n, cols))) && y.Len > 0 {
		c.Raw.MeanRows(y, x, groups, n, cols)
	}
}

func (c *Checked) MeanRowsBackward(dx, dy Buffer, groups, n, cols int) {
	d := dims{"groups n cols", [5]int{groups, n, cols}}
	if n < 1 {
		c.refuse("MeanRowsBackward", d, "n must be at least 1")
		return
	}
	if c.ok("MeanRowsBackward", d, out("dx", dx, area(groups, n, cols)), in("dy", dy, area(groups, cols))) && dy.Len > 0 {
		c.Raw.MeanRowsBackward(dx, dy, groups, n, cols)
	}
}

func (c *Checked) CrossEntropy(loss, dlogits, logits, labels Buffer, rows, cols int) {
	n := area(rows, cols)
	grad := out("dlogits", dlogits, n)
	if dlogits.None() {
		grad.how = absent
	}
	if c.ok("CrossEntropy", rowsCols(rows, cols), out("loss", loss, rows), grad, inPlace("logits", logits, n),
		in("labels", labels, rows).typed(I32)) {
		c.Raw.CrossEntropy(loss, dlogits, logits, labels, rows, cols)
	}
}

func (c *Checked) Argmax(idx, x Buffer, rows, cols int) {
	if c.ok("Argmax", rowsCols(rows, cols), out("idx", idx, rows).typed(I32), in("x", x, area(rows, cols))) {
		c.Raw.Argmax(idx, x, rows, cols)
	}
}

func (c *Checked) Sum(dst, x Buffer) {
	if c.ok("Sum", lengths(x.Len), out("dst", dst, 1), in("x", x, x.Len)) {
		c.Raw.Sum(dst, x)
	}
}

func (c *Checked) MaxAbs(dst, x Buffer) {
	if c.ok("MaxAbs", lengths(x.Len), out("dst", dst, 1), in("x", x, x.Len)) {
		c.Raw.MaxAbs(dst, x)
	}
}

func (c *Checked) Quantize(acc, g Buffer, shift int) {
	if c.ok("Quantize", lengths(acc.Len), out("acc", acc, acc.Len).typed(I32), in("g", g, acc.Len)) {
		c.Raw.Quantize(acc, g, shift)
	}
}

func (c *Checked) QuantizeStochastic(acc, g Buffer, shift int, key uint64) {
	if c.ok("QuantizeStochastic", lengths(acc.Len), out("acc", acc, acc.Len).typed(I32), in("g", g, acc.Len)) {
		c.Raw.QuantizeStochastic(acc, g, shift, key)
	}
}

func (c *Checked) AddI32(acc, x Buffer) {
	if c.ok("AddI32", lengths(acc.Len), out("acc", acc, acc.Len).typed(I32), inPlace("x", x, acc.Len).typed(I32)) {
		c.Raw.AddI32(acc, x)
	}
}

func (c *Checked) SumSquares(dst, x Buffer) {
	if c.ok("SumSquares", lengths(x.Len), out("dst", dst, 4).typed(I32), in("x", x, x.Len).typed(I32)) {
		c.Raw.SumSquares(dst, x)
	}
}

func (c *Checked) AdamW(p, m, v, q Buffer, h AdamW) {
	t := I32
	if q.Mem != nil && q.Mem.DType() == F32 {
		t = F32
	}
	if c.ok("AdamW", lengths(p.Len), out("p", p, p.Len), out("m", m, p.Len), out("v", v, p.Len),
		in("q", q, p.Len).typed(t)) {
		c.Raw.AdamW(p, m, v, q, h)
	}
}

func (c *Checked) ToBF16(dst, src Buffer) {
	if c.ok("ToBF16", lengths(dst.Len), out("dst", dst, dst.Len).typed(BF16), in("src", src, dst.Len)) {
		c.Raw.ToBF16(dst, src)
	}
}

func (c *Checked) FromBF16(dst, src Buffer) {
	if c.ok("FromBF16", lengths(dst.Len), out("dst", dst, dst.Len), in("src", src, dst.Len).typed(BF16)) {
		c.Raw.FromBF16(dst, src)
	}
}
