package kerneltest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"shoal/kernel"
	"shoal/kernel/ref"
)

// call is one op call: data to upload, one buffer each, and the op on those buffers.
type call struct {
	name string
	data []any // []float32, []int32, []uint16, or outF32 and the like
	run  func(o kernel.Ops, b []kernel.Buffer)
}

// output is a buffer that the op must fill: it starts with different garbage on each device.
type output struct {
	t kernel.DType
	n int
}

func out(n int) output    { return output{kernel.F32, n} }
func outI32(n int) output { return output{kernel.I32, n} }

func runOps(t *testing.T, open func(t *testing.T) kernel.Device) {
	groups := []struct {
		name  string
		calls func(r *rand.Rand) []call
	}{
		{"MatMul", matmulCalls}, {"Elementwise", elementwiseCalls}, {"Rows", rowCalls}, {"LayerNorm", normCalls},
		{"Attention", attentionCalls}, {"Embedding", embeddingCalls}, {"CrossEntropy", lossCalls},
		{"Reductions", reductionCalls}, {"Update", updateCalls},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			dev, want := open(t), ref.New()
			defer func() { _, _ = dev.Close(), want.Close() }()
			for _, c := range g.calls(rand.New(rand.NewPCG(11, 12))) {
				compare(t, &c, dev, want)
			}
		})
	}
}

// compare runs c on both devices and fails at the first element that differs, guards around the buffers included.
func compare(t *testing.T, c *call, dev, want kernel.Device) {
	t.Helper()
	got, err := c.on(dev, 0x4b)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	exp, err := c.on(want, 0x4c)
	if err != nil {
		t.Fatalf("%s: ref: %v", c.name, err)
	}
	for i := range got {
		if at := differ(got[i], exp[i]); at >= 0 {
			t.Fatalf("%s: buffer %d, element %d (of %d): %s is %s, ref %s", c.name, i, at-guard, got[i].n-2*guard, dev.Name(),
				got[i].format(at), exp[i].format(at))
		}
	}
}

// guard elements on both sides of each buffer must stay as they were. It is odd, so that buffers start unaligned.
const guard = 3

// on runs c on d and returns what its buffers and their guards hold then.
func (c *call) on(d kernel.Device, garbage byte) ([]contents, error) {
	var whole, inner []kernel.Buffer
	for _, x := range c.data {
		h := hostData(x, garbage)
		b := d.Alloc(kernel.Other, h.t, h.n)
		d.Upload(b, h.bytes)
		whole, inner = append(whole, b), append(inner, b.Slice(guard, h.n-2*guard))
	}
	c.run(d, inner)
	res := make([]contents, len(whole))
	for i, b := range whole {
		res[i] = contents{t: b.Mem.DType(), n: b.Len, bytes: make([]byte, b.Len*b.Mem.DType().Size())}
		if err := d.Download(res[i].bytes, b); err != nil {
			return nil, err
		}
		d.Free(b)
	}
	return res, d.Sync()
}

// Shapes that are not multiples of anything, around the widths of vectors and groups.
var odd = []int{0, 1, 5, 7, 15, 16, 17, 33, 64}

func pick(r *rand.Rand) int { return odd[r.IntN(len(odd))] }

func matmulCalls(r *rand.Rand) (calls []call) {
	add := func(t kernel.Trans, m, n, k int, kind valueKind, acc bool) {
		var c any = floats(r, kind, m*n)
		if !acc {
			c = out(m * n)
		}
		calls = append(calls, call{fmt.Sprintf("MatMul %v %dx%dx%d accumulate=%v %v", t, m, n, k, acc, kind),
			[]any{c, floats(r, kind, m*k), floats(r, kind, k*n)},
			func(o kernel.Ops, b []kernel.Buffer) { o.MatMul(t, b[0], b[1], b[2], m, n, k, acc) }})
	}
	for _, t := range []kernel.Trans{kernel.NN, kernel.NT, kernel.TN} {
		for _, acc := range []bool{false, true} {
			for _, d := range odd {
				add(t, d, 17, 33, plain, acc)
				add(t, 7, d, 16, special, acc)
				add(t, 33, 5, d, wide, acc)
			}
			for range 20 {
				add(t, pick(r), pick(r), pick(r), valueKind(r.IntN(3)), acc)
			}
			add(t, 131, 70, 300, plain, acc)
			add(t, 40, 200, 261, special, acc)
		}
	}
	return calls
}

func elementwiseCalls(r *rand.Rand) (calls []call) {
	for _, n := range append(odd, 1000, 70_001) {
		for kind := plain; kind <= special; kind++ {
			x := func() []float32 { return floats(r, kind, n) }
			for _, op := range []struct {
				name string
				data []any
				run  func(o kernel.Ops, b []kernel.Buffer)
			}{
				{"Add", []any{out(n), x(), x()}, func(o kernel.Ops, b []kernel.Buffer) { o.Add(b[0], b[1], b[2]) }},
				{"Add y=a", []any{x(), x()}, func(o kernel.Ops, b []kernel.Buffer) { o.Add(b[0], b[0], b[1]) }},
				{"Add y=b", []any{x(), x()}, func(o kernel.Ops, b []kernel.Buffer) { o.Add(b[0], b[1], b[0]) }},
				{"Add y=a=b", []any{x()}, func(o kernel.Ops, b []kernel.Buffer) { o.Add(b[0], b[0], b[0]) }},
				{"Zero", []any{out(n)}, func(o kernel.Ops, b []kernel.Buffer) { o.Zero(b[0]) }},
				{"Copy", []any{out(n), x()}, func(o kernel.Ops, b []kernel.Buffer) { o.Copy(b[0], b[1]) }},
				{"GELU", []any{out(n), x()}, func(o kernel.Ops, b []kernel.Buffer) { o.GELU(b[0], b[1]) }},
				{"GELU y=x", []any{x()}, func(o kernel.Ops, b []kernel.Buffer) { o.GELU(b[0], b[0]) }},
				{"GELUBackward", []any{out(n), x(), x()},
					func(o kernel.Ops, b []kernel.Buffer) { o.GELUBackward(b[0], b[1], b[2]) }},
				{"GELUBackward dx=dy", []any{x(), x()},
					func(o kernel.Ops, b []kernel.Buffer) { o.GELUBackward(b[0], b[1], b[0]) }},
				{"ReLU", []any{out(n), x()}, func(o kernel.Ops, b []kernel.Buffer) { o.ReLU(b[0], b[1]) }},
				{"ReLU y=x", []any{x()}, func(o kernel.Ops, b []kernel.Buffer) { o.ReLU(b[0], b[0]) }},
				{"ReLUBackward", []any{out(n), x(), x()},
					func(o kernel.Ops, b []kernel.Buffer) { o.ReLUBackward(b[0], b[1], b[2]) }},
				{"ReLUBackward dx=dy", []any{x(), x()},
					func(o kernel.Ops, b []kernel.Buffer) { o.ReLUBackward(b[0], b[1], b[0]) }},
				{"ToBF16", []any{output{kernel.BF16, n}, x()},
					func(o kernel.Ops, b []kernel.Buffer) { o.ToBF16(b[0], b[1]) }},
				{"FromBF16", []any{out(n), halves(r, n)},
					func(o kernel.Ops, b []kernel.Buffer) { o.FromBF16(b[0], b[1]) }},
			} {
				calls = append(calls, call{fmt.Sprintf("%s n=%d %v", op.name, n, kind), op.data, op.run})
			}
		}
	}
	for _, x := range []any{words(r, 19), halves(r, 19)} {
		calls = append(calls,
			call{"Zero of another type", []any{x}, func(o kernel.Ops, b []kernel.Buffer) { o.Zero(b[0]) }},
			call{"Copy of another type", []any{x, x}, func(o kernel.Ops, b []kernel.Buffer) {
				o.Zero(b[0])
				o.Copy(b[0], b[1])
			}})
	}
	return calls
}

func halves(r *rand.Rand, n int) []uint16 {
	x := make([]uint16, n)
	for i := range x {
		x[i] = uint16(r.Uint32())
	}
	return x
}

func rowCalls(r *rand.Rand) (calls []call) {
	for _, s := range [][3]int{{0, 5, 1}, {5, 0, 1}, {1, 1, 1}, {7, 5, 1}, {33, 17, 1}, {34, 16, 17}, {64, 33, 5},
		{3, 7, 5}, {300, 64, 1}, {700, 100, 3}, {20, 1500, 1}} {
		for kind := plain; kind <= special; kind++ {
			rows, cols, period := s[0], s[1], s[2]
			n := rows * cols
			name := func(op string) string { return fmt.Sprintf("%s %dx%d by %d %v", op, rows, cols, period, kind) }
			calls = append(calls,
				call{name("AddRows"), []any{out(n), floats(r, kind, n), floats(r, kind, period*cols)},
					func(o kernel.Ops, b []kernel.Buffer) { o.AddRows(b[0], b[1], b[2], rows, cols, period) }},
				call{name("AddRows y=x"), []any{floats(r, kind, n), floats(r, kind, period*cols)},
					func(o kernel.Ops, b []kernel.Buffer) { o.AddRows(b[0], b[0], b[1], rows, cols, period) }},
				call{name("SumRows"), []any{out(period * cols), floats(r, kind, n)},
					func(o kernel.Ops, b []kernel.Buffer) { o.SumRows(b[0], b[1], rows, cols, period) }},
				// a group of period rows each
				call{name("MeanRows"), []any{out(n), floats(r, kind, n*period)},
					func(o kernel.Ops, b []kernel.Buffer) { o.MeanRows(b[0], b[1], rows, period, cols) }},
				call{name("MeanRowsBackward"), []any{out(n * period), floats(r, kind, n)},
					func(o kernel.Ops, b []kernel.Buffer) { o.MeanRowsBackward(b[0], b[1], rows, period, cols) }})
		}
	}
	return calls
}

func normCalls(r *rand.Rand) (calls []call) {
	for _, s := range [][2]int{{0, 5}, {5, 0}, {1, 1}, {7, 5}, {5, 7}, {3, 15}, {3, 16}, {3, 17}, {9, 33}, {70, 64}, {600, 64}, {40, 1000}} {
		for kind := plain; kind <= special; kind++ {
			rows, cols := s[0], s[1]
			n := rows * cols
			name := func(op string) string { return fmt.Sprintf("%s %dx%d %v", op, rows, cols, kind) }
			x := func(n int) []float32 { return floats(r, kind, n) }
			calls = append(calls,
				call{name("LayerNorm"), []any{out(n), out(rows), out(rows), x(n), x(cols), x(cols)},
					func(o kernel.Ops, b []kernel.Buffer) {
						o.LayerNorm(b[0], b[1], b[2], b[3], b[4], b[5], rows, cols)
					}},
				call{name("LayerNormBackward"),
					[]any{out(n), out(cols), out(cols), x(n), x(n), x(rows), positive(r, kind, rows), x(cols)},
					func(o kernel.Ops, b []kernel.Buffer) {
						o.LayerNormBackward(b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], rows, cols)
					}},
				call{name("LayerNormBackward dx=dy"),
					[]any{x(n), out(cols), out(cols), x(n), x(rows), positive(r, kind, rows), x(cols)},
					func(o kernel.Ops, b []kernel.Buffer) {
						o.LayerNormBackward(b[0], b[1], b[2], b[0], b[3], b[4], b[5], b[6], rows, cols)
					}})
		}
	}
	return calls
}

func attentionCalls(r *rand.Rand) (calls []call) {
	for _, s := range [][4]int{{0, 5, 2, 4}, {1, 0, 1, 4}, {2, 5, 0, 4}, {1, 1, 1, 1}, {2, 1, 3, 5}, {2, 16, 2, 7}, {3, 17, 4, 16}, {1, 33, 2, 15},
		{1, 64, 1, 8}, {1, 65, 2, 5}, {1, 130, 1, 7}, {9, 17, 4, 16}} {
		for _, causal := range []bool{false, true} {
			for kind := plain; kind <= special; kind++ {
				s := kernel.AttentionShape{B: s[0], T: s[1], H: s[2], D: s[3], Causal: causal}
				n, st := s.B*s.T*s.H*s.D, s.B*s.H*s.T*2
				name := func(op string) string { return fmt.Sprintf("%s %+v %v", op, s, kind) }
				x := func(n int) []float32 { return floats(r, kind, n) }
				calls = append(calls,
					call{name("Attention"), []any{out(n), out(st), x(3 * n)},
						func(o kernel.Ops, b []kernel.Buffer) { o.Attention(b[0], b[1], b[2], s) }},
					call{name("AttentionBackward"), []any{out(3 * n), x(n), x(n), x(3 * n), positive(r, kind, st)},
						func(o kernel.Ops, b []kernel.Buffer) { o.AttentionBackward(b[0], b[1], b[2], b[3], b[4], s) }})
			}
		}
	}
	return calls
}

func embeddingCalls(r *rand.Rand) (calls []call) {
	for _, s := range [][3]int{{0, 5, 3}, {5, 0, 0}, {4, 7, 0}, {1, 1, 1}, {33, 17, 5}, {300, 64, 65}, {2000, 33, 10}} {
		rows, cols, vocab := s[0], s[1], s[2]
		for kind := plain; kind <= special; kind++ {
			ids := below(r, -2, vocab+3, rows)
			if rows > 4 {
				ids[1], ids[2] = 1<<31-1, -1<<31
			}
			name := func(op string) string { return fmt.Sprintf("%s %dx%d of %d %v", op, rows, cols, vocab, kind) }
			calls = append(calls,
				call{name("Embedding"), []any{out(rows * cols), floats(r, kind, vocab*cols), ids},
					func(o kernel.Ops, b []kernel.Buffer) { o.Embedding(b[0], b[1], b[2], rows, cols) }},
				call{name("EmbeddingBackward"), []any{out(vocab * cols), floats(r, kind, rows*cols), ids},
					func(o kernel.Ops, b []kernel.Buffer) { o.EmbeddingBackward(b[0], b[1], b[2], rows, cols) }})
		}
	}
	return calls
}

func lossCalls(r *rand.Rand) (calls []call) {
	for _, s := range [][2]int{{0, 5}, {5, 0}, {1, 1}, {7, 10}, {33, 16}, {17, 17}, {64, 65}, {300, 33}} {
		for kind := plain; kind <= special; kind++ {
			rows, cols := s[0], s[1]
			n, labels := rows*cols, below(r, -2, cols+2, rows)
			name := func(op string) string { return fmt.Sprintf("%s %dx%d %v", op, rows, cols, kind) }
			calls = append(calls,
				call{name("CrossEntropy"), []any{out(rows), out(n), floats(r, kind, n), labels},
					func(o kernel.Ops, b []kernel.Buffer) { o.CrossEntropy(b[0], b[1], b[2], b[3], rows, cols) }},
				call{name("CrossEntropy dlogits=logits"), []any{out(rows), floats(r, kind, n), labels},
					func(o kernel.Ops, b []kernel.Buffer) { o.CrossEntropy(b[0], b[1], b[1], b[2], rows, cols) }},
				call{name("CrossEntropy loss only"), []any{out(rows), floats(r, kind, n), labels},
					func(o kernel.Ops, b []kernel.Buffer) {
						o.CrossEntropy(b[0], kernel.Buffer{}, b[1], b[2], rows, cols)
					}},
				call{name("Argmax"), []any{outI32(rows), floats(r, kind, n)},
					func(o kernel.Ops, b []kernel.Buffer) { o.Argmax(b[0], b[1], rows, cols) }})
		}
	}
	return calls
}

func reductionCalls(r *rand.Rand) (calls []call) {
	for _, n := range append(odd, 31, 32, 100_003) {
		for kind := plain; kind <= special; kind++ {
			calls = append(calls,
				call{fmt.Sprintf("Sum n=%d %v", n, kind), []any{out(1), floats(r, kind, n)},
					func(o kernel.Ops, b []kernel.Buffer) { o.Sum(b[0], b[1]) }},
				call{fmt.Sprintf("MaxAbs n=%d %v", n, kind), []any{out(1), floats(r, kind, n)},
					func(o kernel.Ops, b []kernel.Buffer) { o.MaxAbs(b[0], b[1]) }})
		}
		calls = append(calls, call{fmt.Sprintf("SumSquares n=%d", n), []any{outI32(4), words(r, n)},
			func(o kernel.Ops, b []kernel.Buffer) { o.SumSquares(b[0], b[1]) }})
	}
	extreme := make([]int32, 9000)
	for i := range extreme {
		extreme[i] = -1 << 31
	}
	return append(calls, call{"SumSquares beyond 64 bits", []any{outI32(4), extreme},
		func(o kernel.Ops, b []kernel.Buffer) { o.SumSquares(b[0], b[1]) }})
}

func updateCalls(r *rand.Rand) (calls []call) {
	for _, n := range append(odd, 50_001) {
		for kind := plain; kind <= special; kind++ {
			for _, shift := range []int{0, 1, 20, -20, 24, 149, -149, 200, 300, -300, 1 << 40, -1 << 40} {
				if n > 1000 && shift != 20 && shift != 24 {
					continue
				}
				calls = append(calls, call{fmt.Sprintf("Quantize n=%d shift=%d %v", n, shift, kind),
					[]any{words(r, n), floats(r, kind, n)},
					func(o kernel.Ops, b []kernel.Buffer) { o.Quantize(b[0], b[1], shift) }},
					call{fmt.Sprintf("QuantizeStochastic n=%d shift=%d %v", n, shift, kind),
						[]any{words(r, n), floats(r, kind, n)},
						func(o kernel.Ops, b []kernel.Buffer) { o.QuantizeStochastic(b[0], b[1], shift, uint64(shift)) }})
			}
			for _, decay := range []float32{0, 1e-4} {
				h := kernel.AdamW{Scale: 0x1p-20, LR: 1e-3, Decay: decay, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8,
					C1: ref.BiasCorrection(0.9, 3), C2: ref.BiasCorrection(0.999, 3)}
				calls = append(calls, call{fmt.Sprintf("AdamW n=%d decay=%v %v", n, decay, kind),
					[]any{floats(r, kind, n), floats(r, kind, n), positive(r, kind, n), words(r, n)},
					func(o kernel.Ops, b []kernel.Buffer) { o.AdamW(b[0], b[1], b[2], b[3], h) }},
					call{fmt.Sprintf("AdamW n=%d decay=%v %v, float sums", n, decay, kind),
						[]any{floats(r, kind, n), floats(r, kind, n), positive(r, kind, n), floats(r, kind, n)},
						func(o kernel.Ops, b []kernel.Buffer) { o.AdamW(b[0], b[1], b[2], b[3], h) }})
			}
		}
		calls = append(calls,
			call{fmt.Sprintf("AddI32 n=%d", n), []any{words(r, n), words(r, n)},
				func(o kernel.Ops, b []kernel.Buffer) { o.AddI32(b[0], b[1]) }},
			call{fmt.Sprintf("AddI32 n=%d acc=x", n), []any{words(r, n)},
				func(o kernel.Ops, b []kernel.Buffer) { o.AddI32(b[0], b[0]) }})
	}
	return calls
}
