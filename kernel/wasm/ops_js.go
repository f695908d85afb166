package wasm

import (
	"math"

	"shoal/kernel"
)

// ops are the ops on checked buffers: each puts a command into the queue. The arguments are those of the method in order, as
// kern/kern.c wants them.
type ops struct {
	queue   *queue
	workers int
}

var _ kernel.Ops = ops{}

// The kernels' functions. A command's number is firstOp + one of these.
const (
	matMul = iota
	addRows
	sumRows
	add
	zero
	copyElements
	gelu
	geluBackward
	relu
	reluBackward
	layerNorm
	layerNormColumns
	layerNormBackward
	attention
	attentionBackward
	embedding
	embeddingBackward
	meanRows
	meanRowsBackward
	crossEntropy
	argmax
	sum
	maxAbs
	quantize
	quantizeStochastic
	addI32
	sumSquares
	adamW
	toBF16
	fromBF16
)

var names = [...]string{
	matMul: "mat_mul", addRows: "add_rows", sumRows: "sum_rows", add: "add", zero: "zero", copyElements: "copy", gelu: "gelu",
	geluBackward: "gelu_backward", relu: "relu", reluBackward: "relu_backward", layerNorm: "layer_norm",
	layerNormColumns: "layer_norm_columns", layerNormBackward: "layer_norm_backward", attention: "attention",
	attentionBackward: "attention_backward", embedding: "embedding", embeddingBackward: "embedding_backward", meanRows: "mean_rows",
	meanRowsBackward: "mean_rows_backward", crossEntropy: "cross_entropy", argmax: "argmax", sum: "sum", maxAbs: "max_abs",
	quantize: "quantize", quantizeStochastic: "quantize_stochastic", addI32: "add_i32", sumSquares: "sum_squares", adamW: "adam_w",
	toBF16: "to_bf16", fromBF16: "from_bf16",
}

// opNames are the functions, for JavaScript.
func opNames() []any {
	s := make([]any, len(names))
	for i, n := range names {
		s[i] = n
	}
	return s
}

// opName is the function of a command.
func opName(what int) string {
	if what < firstOp || what >= firstOp+len(names) {
		return "a command"
	}
	return names[what-firstOp]
}

// grain is how much work is worth a part of its own, in additions of two buffers' elements: about 10 us.
const grain = 1 << 15

// op begins the command of an op that does work such additions. Many workers take up to two parts each: if one has to wait for its
// core, the others do more.
func (o ops) op(number, work int) command {
	most := 1
	if o.workers > 1 {
		most = 2 * o.workers
	}
	c := newCommand(firstOp+number, min(max(work/grain, 1), most))
	c.long = work >= grain
	return c
}

func (c command) buffers(bs ...kernel.Buffer) command {
	for _, b := range bs {
		c = c.with(address(b), uint32(b.Len))
	}
	return c
}

// ints are sizes, each less than 2^31 wherever there is anything to compute.
func (c command) ints(vs ...int) command {
	for _, v := range vs {
		c = c.with(uint32(int32(min(v, math.MaxInt32))))
	}
	return c
}

func (c command) floats(vs ...float32) command {
	for _, v := range vs {
		c = c.with(math.Float32bits(v))
	}
	return c
}

func (c command) bool(b bool) command {
	if b {
		return c.with(1)
	}
	return c.with(0)
}

func (o ops) MatMul(t kernel.Trans, c, a, b kernel.Buffer, m, n, k int, accumulate bool) {
	o.queue.add(o.op(matMul, c.Len*k/8).ints(int(t)).buffers(c, a, b).ints(m, n, k).bool(accumulate))
}

func (o ops) AddRows(y, x, table kernel.Buffer, rows, cols, period int) {
	o.queue.add(o.op(addRows, y.Len).buffers(y, x, table).ints(rows, cols, period))
}

func (o ops) SumRows(dtable, dy kernel.Buffer, rows, cols, period int) {
	o.queue.add(o.op(sumRows, dy.Len).buffers(dtable, dy).ints(rows, cols, period))
}

func (o ops) Add(y, a, b kernel.Buffer) { o.queue.add(o.op(add, y.Len).buffers(y, a, b)) }

func (o ops) Zero(y kernel.Buffer) {
	o.queue.add(o.op(zero, y.Len/2).buffers(y).ints(y.Mem.DType().Size()))
}

func (o ops) Copy(dst, src kernel.Buffer) {
	o.queue.add(o.op(copyElements, dst.Len/2).buffers(dst, src).ints(dst.Mem.DType().Size()))
}

func (o ops) GELU(y, x kernel.Buffer) { o.queue.add(o.op(gelu, 4*y.Len).buffers(y, x)) }

func (o ops) GELUBackward(dx, x, dy kernel.Buffer) {
	o.queue.add(o.op(geluBackward, 6*dx.Len).buffers(dx, x, dy))
}

func (o ops) ReLU(y, x kernel.Buffer) { o.queue.add(o.op(relu, y.Len).buffers(y, x)) }

func (o ops) ReLUBackward(dx, x, dy kernel.Buffer) {
	o.queue.add(o.op(reluBackward, dx.Len).buffers(dx, x, dy))
}

func (o ops) LayerNorm(y, mean, rstd, x, gamma, beta kernel.Buffer, rows, cols int) {
	o.queue.add(o.op(layerNorm, 3*x.Len).buffers(y, mean, rstd, x, gamma, beta).ints(rows, cols))
}

// LayerNormBackward is two commands: the second may overwrite dy, which the first reads.
func (o ops) LayerNormBackward(dx, dgamma, dbeta, dy, x, mean, rstd, gamma kernel.Buffer, rows, cols int) {
	for _, op := range []int{layerNormColumns, layerNormBackward} {
		o.queue.add(o.op(op, 3*x.Len).buffers(dx, dgamma, dbeta, dy, x, mean, rstd, gamma).ints(rows, cols))
	}
}

func (o ops) Attention(y, stats, qkv kernel.Buffer, s kernel.AttentionShape) {
	o.queue.add(o.op(attention, y.Len*s.T/2).buffers(y, stats, qkv).ints(s.B, s.T, s.H, s.D).bool(s.Causal))
}

func (o ops) AttentionBackward(dqkv, dy, y, qkv, stats kernel.Buffer, s kernel.AttentionShape) {
	o.queue.add(o.op(attentionBackward, y.Len*s.T).buffers(dqkv, dy, y, qkv, stats).ints(s.B, s.T, s.H, s.D).bool(s.Causal))
}

func (o ops) Embedding(y, table, ids kernel.Buffer, rows, cols int) {
	o.queue.add(o.op(embedding, y.Len/2).buffers(y, table, ids).ints(rows, cols))
}

func (o ops) EmbeddingBackward(dtable, dy, ids kernel.Buffer, rows, cols int) {
	o.queue.add(o.op(embeddingBackward, dtable.Len+dy.Len).buffers(dtable, dy, ids).ints(rows, cols))
}

func (o ops) MeanRows(y, x kernel.Buffer, groups, n, cols int) {
	o.queue.add(o.op(meanRows, x.Len).buffers(y, x).ints(groups, n, cols))
}

func (o ops) MeanRowsBackward(dx, dy kernel.Buffer, groups, n, cols int) {
	o.queue.add(o.op(meanRowsBackward, dx.Len).buffers(dx, dy).ints(groups, n, cols))
}

func (o ops) CrossEntropy(loss, dlogits, logits, labels kernel.Buffer, rows, cols int) {
	o.queue.add(o.op(crossEntropy, 6*logits.Len).buffers(loss, dlogits, logits, labels).ints(rows, cols))
}

func (o ops) Argmax(idx, x kernel.Buffer, rows, cols int) {
	o.queue.add(o.op(argmax, x.Len).buffers(idx, x).ints(rows, cols))
}

// The results of these three are one element each, which one worker computes.

func (o ops) Sum(dst, x kernel.Buffer)        { o.queue.add(o.op(sum, 0).buffers(dst, x)) }
func (o ops) MaxAbs(dst, x kernel.Buffer)     { o.queue.add(o.op(maxAbs, 0).buffers(dst, x)) }
func (o ops) SumSquares(dst, x kernel.Buffer) { o.queue.add(o.op(sumSquares, 0).buffers(dst, x)) }

// shiftMost is beyond all shifts that make a difference.
const shiftMost = 1000

func (o ops) Quantize(acc, g kernel.Buffer, shift int) {
	o.queue.add(o.op(quantize, 2*g.Len).buffers(acc, g).ints(min(max(shift, -shiftMost), shiftMost)))
}

func (o ops) QuantizeStochastic(acc, g kernel.Buffer, shift int, key uint64) {
	o.queue.add(o.op(quantizeStochastic, 6*g.Len).buffers(acc, g).ints(min(max(shift, -shiftMost), shiftMost)).with(uint32(key), uint32(key>>32)))
}

func (o ops) AddI32(acc, x kernel.Buffer) { o.queue.add(o.op(addI32, x.Len).buffers(acc, x)) }

func (o ops) AdamW(p, m, v, q kernel.Buffer, h kernel.AdamW) {
	o.queue.add(o.op(adamW, 8*p.Len).buffers(p, m, v, q).bool(q.Mem.DType() == kernel.F32).
		floats(h.Scale, h.LR, h.Decay, h.Beta1, h.Beta2, h.Eps, h.C1, h.C2))
}

func (o ops) ToBF16(dst, src kernel.Buffer)   { o.queue.add(o.op(toBF16, dst.Len).buffers(dst, src)) }
func (o ops) FromBF16(dst, src kernel.Buffer) { o.queue.add(o.op(fromBF16, dst.Len).buffers(dst, src)) }
