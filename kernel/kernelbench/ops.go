package kernelbench

import (
	"fmt"

	"shoal/kernel"
	"shoal/kernel/cpu"
	"shoal/kernel/ref"
)

// Op is one op at one size.
type Op struct {
	Name, Shape string
	FLOPs       float64                // of a call, where arithmetic is the limit; otherwise 0
	Bytes       float64                // that a call must read and write at least, where memory is
	setup       func(d *device) func() // makes its buffers, and returns one call of it
}

// device makes buffers that live as long as one op's measurement.
type device struct {
	*cpu.Device
	live []kernel.Buffer
	seed uint64
}

func (d *device) alloc(t kernel.DType, n int) kernel.Buffer {
	b := d.Alloc(kernel.Other, t, n)
	d.live = append(d.live, b)
	return b
}

// zeros is a buffer to be written.
func (d *device) zeros(t kernel.DType, n int) kernel.Buffer {
	b := d.alloc(t, n)
	d.Zero(b)
	return b
}

// floats are normally distributed.
func (d *device) floats(n int) kernel.Buffer {
	x := make([]float32, n)
	d.seed++
	ref.FillNormal(x, d.seed, 0, 1)
	b := d.alloc(kernel.F32, n)
	d.Upload(b, kernel.Bytes(x))
	return b
}

// ids are spread over 0 to below most.
func (d *device) ids(n, most int) kernel.Buffer {
	x := make([]int32, n)
	for i := range x {
		d.seed++
		x[i] = int32(ref.Counter(d.seed, uint64(i)) % uint64(most))
	}
	b := d.alloc(kernel.I32, n)
	d.Upload(b, kernel.Bytes(x))
	return b
}

func (d *device) free() {
	for _, b := range d.live {
		d.Free(b)
	}
	d.live = nil
}

const (
	elements = 1 << 18 // of the ops that go through buffers: a microbatch's activations, 1 MiB
	width    = 384     // of a row
	rows     = 512
	vocab    = 1024
)

// Ops are those that a training step spends its time in, at the sizes of small and of larger models.
func Ops() []Op {
	var list []Op
	for _, s := range [][3]int{{512, 512, 512}, {512, 1536, 384}, {1088, 192, 64}} {
		for _, t := range []kernel.Trans{kernel.NN, kernel.NT, kernel.TN} {
			list = append(list, Products(t, s[0], s[1], s[2], 1))
		}
	}
	for _, s := range []kernel.AttentionShape{{B: 64, T: 17, H: 4, D: 16}, {B: 2, T: 256, H: 6, D: 64, Causal: true}} {
		list = append(list, attention(s)...)
		list = append(list, softmax(s.B*s.H*s.T, s.T)...)
	}
	list = append(list, rowOps()...)
	return append(list, elementOps()...)
}

// Products are so many products of one size, each with matrices of its own: small ones come by the dozen, one for each head
// of an attention.
func Products(t kernel.Trans, m, n, k, count int) Op {
	shape := fmt.Sprintf("%dx%dx%d", m, n, k)
	if count > 1 {
		shape = fmt.Sprintf("%d of %s", count, shape)
	}
	return Op{"MatMul " + t.String(), shape, 2 * float64(m) * float64(n) * float64(k) * float64(count), 0, func(d *device) func() {
		c, a, b := d.zeros(kernel.F32, count*m*n), d.floats(count*m*k), d.floats(count*k*n)
		return func() {
			for i := range count {
				d.MatMul(t, c.Slice(i*m*n, m*n), a.Slice(i*m*k, m*k), b.Slice(i*k*n, k*n), m, n, k, false)
			}
		}
	}}
}

// attention counts the products: two forward, five backward. Causal rows see half of the positions.
func attention(s kernel.AttentionShape) []Op {
	n := s.B * s.T * s.H * s.D
	product := 2 * float64(n) * float64(s.T)
	shape := fmt.Sprintf("%dx%dx%dx%d", s.B, s.T, s.H, s.D)
	if s.Causal {
		product /= 2
		shape += " causal"
	}
	return []Op{
		{"Attention", shape, 2 * product, 0, func(d *device) func() {
			y, stats, qkv := d.zeros(kernel.F32, n), d.zeros(kernel.F32, 2*s.B*s.H*s.T), d.floats(3*n)
			return func() { d.Attention(y, stats, qkv, s) }
		}},
		{"AttentionBackward", shape, 5 * product, 0, func(d *device) func() {
			y, stats, qkv := d.zeros(kernel.F32, n), d.zeros(kernel.F32, 2*s.B*s.H*s.T), d.floats(3*n)
			d.Attention(y, stats, qkv, s)
			dqkv, dy := d.zeros(kernel.F32, 3*n), d.floats(n)
			return func() { d.AttentionBackward(dqkv, dy, y, qkv, stats, s) }
		}},
	}
}

// softmax is what attention does between its products, on so many rows of scores.
func softmax(rows, cols int) []Op {
	n, room, shape := rows*cols, cpu.SoftmaxLen(rows, cols), fmt.Sprintf("%dx%d", rows, cols)
	const scale = 0.125
	return []Op{
		{"Softmax", shape, 0, 8 * float64(n), func(d *device) func() {
			e, stats := d.floats(room), d.zeros(kernel.F32, 2*rows)
			return func() { d.Softmax(e, stats, rows, cols, scale) }
		}},
		{"SoftmaxBackward", shape, 0, 16 * float64(n), func(d *device) func() {
			e, ds, stats, delta := d.floats(room), d.floats(room), d.zeros(kernel.F32, 2*rows), d.floats(rows)
			d.Softmax(e, stats, rows, cols, scale)
			return func() { d.SoftmaxBackward(e, ds, stats, delta, rows, cols, scale) }
		}},
	}
}

func rowOps() []Op {
	n := rows * width
	shape := fmt.Sprintf("%dx%d", rows, width)
	logits := fmt.Sprintf("%dx%d", rows, vocab)
	return []Op{
		{"LayerNorm", shape, 0, 8 * float64(n), func(d *device) func() {
			y, mean, rstd := d.zeros(kernel.F32, n), d.zeros(kernel.F32, rows), d.zeros(kernel.F32, rows)
			x, gamma, beta := d.floats(n), d.floats(width), d.floats(width)
			return func() { d.LayerNorm(y, mean, rstd, x, gamma, beta, rows, width) }
		}},
		{"LayerNormBackward", shape, 0, 12 * float64(n), func(d *device) func() {
			y, mean, rstd := d.zeros(kernel.F32, n), d.zeros(kernel.F32, rows), d.zeros(kernel.F32, rows)
			x, gamma, beta := d.floats(n), d.floats(width), d.floats(width)
			d.LayerNorm(y, mean, rstd, x, gamma, beta, rows, width)
			dgamma, dbeta, dy := d.zeros(kernel.F32, width), d.zeros(kernel.F32, width), d.floats(n)
			return func() { d.LayerNormBackward(y, dgamma, dbeta, dy, x, mean, rstd, gamma, rows, width) }
		}},
		{"AddRows", shape, 0, 8 * float64(n), func(d *device) func() {
			y, x, table := d.zeros(kernel.F32, n), d.floats(n), d.floats(width)
			return func() { d.AddRows(y, x, table, rows, width, 1) }
		}},
		{"SumRows", shape, 0, 4 * float64(n), func(d *device) func() {
			table, dy := d.zeros(kernel.F32, width), d.floats(n)
			return func() { d.SumRows(table, dy, rows, width, 1) }
		}},
		{"CrossEntropy", logits, 0, 8 * float64(rows*vocab), func(d *device) func() {
			loss, dlogits, x, labels := d.zeros(kernel.F32, rows), d.zeros(kernel.F32, rows*vocab), d.floats(rows*vocab), d.ids(rows, vocab)
			return func() { d.CrossEntropy(loss, dlogits, x, labels, rows, vocab) }
		}},
		{"Embedding", shape, 0, 8 * float64(n), func(d *device) func() {
			y, table, ids := d.zeros(kernel.F32, n), d.floats(vocab*width), d.ids(rows, vocab)
			return func() { d.Embedding(y, table, ids, rows, width) }
		}},
		{"EmbeddingBackward", shape, 0, 4 * float64(n+vocab*width), func(d *device) func() {
			table, dy, ids := d.zeros(kernel.F32, vocab*width), d.floats(n), d.ids(rows, vocab)
			return func() { d.EmbeddingBackward(table, dy, ids, rows, width) }
		}},
	}
}

// elementOps go through whole buffers. size is the bytes of an element, of all operands together.
func elementOps() []Op {
	shape := fmt.Sprint(elements)
	through := func(name string, size int, setup func(d *device) func()) Op {
		return Op{name, shape, 0, float64(size) * elements, setup}
	}
	f32, bf16, i32 := kernel.F32, kernel.BF16, kernel.I32
	return []Op{
		through("GELU", 8, func(d *device) func() {
			y, x := d.zeros(f32, elements), d.floats(elements)
			return func() { d.GELU(y, x) }
		}),
		through("GELUBackward", 12, func(d *device) func() {
			dx, x, dy := d.zeros(f32, elements), d.floats(elements), d.floats(elements)
			return func() { d.GELUBackward(dx, x, dy) }
		}),
		through("ReLU", 8, func(d *device) func() {
			y, x := d.zeros(f32, elements), d.floats(elements)
			return func() { d.ReLU(y, x) }
		}),
		through("Add", 12, func(d *device) func() {
			y, a, b := d.zeros(f32, elements), d.floats(elements), d.floats(elements)
			return func() { d.Add(y, a, b) }
		}),
		through("MaxAbs", 4, func(d *device) func() {
			top, x := d.zeros(f32, 1), d.floats(elements)
			return func() { d.MaxAbs(top, x) }
		}),
		through("Quantize", 12, func(d *device) func() {
			acc, g := d.zeros(i32, elements), d.floats(elements)
			return func() { d.Quantize(acc, g, 20) }
		}),
		through("QuantizeStochastic", 12, func(d *device) func() {
			acc, g := d.zeros(i32, elements), d.floats(elements)
			return func() { d.QuantizeStochastic(acc, g, 11, 1) }
		}),
		through("AddI32", 12, func(d *device) func() {
			acc, x := d.zeros(i32, elements), d.ids(elements, 1<<20)
			return func() { d.AddI32(acc, x) }
		}),
		through("SumSquares", 4, func(d *device) func() {
			total, x := d.zeros(i32, 4), d.ids(elements, 1<<20)
			return func() { d.SumSquares(total, x) }
		}),
		through("AdamW", 28, func(d *device) func() {
			p, m, v, q := d.floats(elements), d.zeros(f32, elements), d.zeros(f32, elements), d.ids(elements, 1<<20)
			h := kernel.AdamW{Scale: 1e-6, LR: 1e-3, Beta1: .9, Beta2: .999, Eps: 1e-8, C1: 1, C2: 1}
			return func() { d.AdamW(p, m, v, q, h) }
		}),
		through("ToBF16", 6, func(d *device) func() {
			h, x := d.zeros(bf16, elements), d.floats(elements)
			return func() { d.ToBF16(h, x) }
		}),
		through("FromBF16", 6, func(d *device) func() {
			x, h := d.zeros(f32, elements), d.zeros(bf16, elements)
			return func() { d.FromBF16(x, h) }
		}),
	}
}

// Copy is what the ops that go through buffers are compared with.
func Copy() Op {
	return Op{"Copy", fmt.Sprint(elements), 0, 8 * elements, func(d *device) func() {
		dst, src := d.zeros(kernel.F32, elements), d.floats(elements)
		return func() { d.Copy(dst, src) }
	}}
}
