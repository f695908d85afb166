package cpu_test

import (
	"testing"

	"shoal/kernel"
	"shoal/kernel/cpu"
	"shoal/kernel/ref"
)

// Sizes of one microbatch of the default run: 64 images of 17 positions, dim 64, mlp 256, 4 heads of 16.
const (
	rows  = 64 * 17
	dim   = 64
	mlp   = 256
	block = 50_000 // parameters of a block
)

func BenchmarkOps(b *testing.B) {
	s := kernel.AttentionShape{B: 64, T: 17, H: 4, D: 16}
	for _, c := range []struct {
		name string
		n    int // elements, for ns per element
		run  func(d kernel.Ops, f func(n int) kernel.Buffer) func()
	}{
		{"GELU", rows * mlp, func(d kernel.Ops, f func(int) kernel.Buffer) func() {
			y, x := f(rows*mlp), f(rows*mlp)
			return func() { d.GELU(y, x) }
		}},
		{"GELUBackward", rows * mlp, func(d kernel.Ops, f func(int) kernel.Buffer) func() {
			y, x, dy := f(rows*mlp), f(rows*mlp), f(rows*mlp)
			return func() { d.GELUBackward(y, x, dy) }
		}},
		{"Add", rows * dim, func(d kernel.Ops, f func(int) kernel.Buffer) func() {
			y, x := f(rows*dim), f(rows*dim)
			return func() { d.Add(y, x, y) }
		}},
		{"AddRows", rows * mlp, func(d kernel.Ops, f func(int) kernel.Buffer) func() {
			y, t := f(rows*mlp), f(mlp)
			return func() { d.AddRows(y, y, t, rows, mlp, 1) }
		}},
		{"SumRows", rows * mlp, func(d kernel.Ops, f func(int) kernel.Buffer) func() {
			y, t := f(rows*mlp), f(mlp)
			return func() { d.SumRows(t, y, rows, mlp, 1) }
		}},
		{"LayerNorm", rows * dim, func(d kernel.Ops, f func(int) kernel.Buffer) func() {
			y, m, r, x, g, bt := f(rows*dim), f(rows), f(rows), f(rows*dim), f(dim), f(dim)
			return func() { d.LayerNorm(y, m, r, x, g, bt, rows, dim) }
		}},
		{"LayerNormBackward", rows * dim, func(d kernel.Ops, f func(int) kernel.Buffer) func() {
			dx, dg, db, dy, x, m, r, g := f(rows*dim), f(dim), f(dim), f(rows*dim), f(rows*dim), f(rows), f(rows), f(dim)
			return func() { d.LayerNormBackward(dx, dg, db, dy, x, m, r, g, rows, dim) }
		}},
		{"Attention", rows * dim, func(d kernel.Ops, f func(int) kernel.Buffer) func() {
			y, st, qkv := f(rows*dim), f(64*4*17*2), f(3*rows*dim)
			return func() { d.Attention(y, st, qkv, s) }
		}},
		{"AttentionBackward", rows * dim, func(d kernel.Ops, f func(int) kernel.Buffer) func() {
			y, dy, st, qkv, dqkv := f(rows*dim), f(rows*dim), f(64*4*17*2), f(3*rows*dim), f(3*rows*dim)
			return func() { d.AttentionBackward(dqkv, dy, y, qkv, st, s) }
		}},
		{"MatMul-qkv", rows * 3 * dim, func(d kernel.Ops, f func(int) kernel.Buffer) func() {
			y, x, w := f(3*rows*dim), f(rows*dim), f(3*dim*dim)
			return func() { d.MatMul(kernel.NT, y, x, w, rows, 3*dim, dim, false) }
		}},
		{"MaxAbs", block, func(d kernel.Ops, f func(int) kernel.Buffer) func() {
			y, x := f(1), f(block)
			return func() { d.MaxAbs(y, x) }
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := open(b, cpu.Config{Threads: 1})
			defer d.Close()
			run := c.run(d, func(n int) kernel.Buffer { return filled(d, n) })
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				run()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.n), "ns/element")
			if err := d.Sync(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkUpdate is what happens to each gradient element of a microbatch, and to each parameter of a step.
func BenchmarkUpdate(b *testing.B) {
	d := open(b, cpu.Config{Threads: 1})
	defer d.Close()
	g, p, m, v := filled(d, block), filled(d, block), filled(d, block), filled(d, block)
	q, s, h := d.Alloc(kernel.Other, kernel.I32, block), d.Alloc(kernel.Other, kernel.I32, 4), d.Alloc(kernel.Other, kernel.BF16, block)
	d.Zero(q)
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"Quantize", func() { d.Quantize(q, g, 20) }},
		{"QuantizeStochastic", func() { d.QuantizeStochastic(q, g, 11, 1) }},
		{"SumSquares", func() { d.SumSquares(s, q) }},
		{"AdamW", func() {
			d.AdamW(p, m, v, q, kernel.AdamW{Scale: 1e-6, LR: 1e-3, Beta1: .9, Beta2: .999, Eps: 1e-8, C1: 1, C2: 1})
		}},
		{"ToBF16", func() { d.ToBF16(h, p) }},
		{"FromBF16", func() { d.FromBF16(p, h) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for range b.N {
				c.run()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/block, "ns/element")
		})
	}
}

// filled is a buffer of n normal values.
func filled(d kernel.Device, n int) kernel.Buffer {
	x := make([]float32, n)
	ref.FillNormal(x, 1, 0, 1)
	b := d.Alloc(kernel.Other, kernel.F32, n)
	d.Upload(b, kernel.Bytes(x))
	return b
}
