package f64

import (
	"math"
	"math/rand/v2"
	"testing"

	"shoal/kernel"
	"shoal/kernel/ref"
)

// buffer is one argument of an op: n elements, integers from -1 to below ints if that is not 0.
type buffer struct{ n, ints int }

// Two independent implementations of every op, ref in float32 and this one in float64, must agree to float32's accuracy.
func TestAgreesWithRef(t *testing.T) {
	const r, c, k, g = 6, 5, 7, 3 // rows, columns, inner size, period or group
	attn := kernel.AttentionShape{B: 2, T: 4, H: 2, D: 3}
	causal := attn
	causal.Causal = true
	f := func(n int) buffer { return buffer{n: n} }
	for _, e := range []struct {
		name string
		args []buffer
		run  func(o kernel.Ops, b []kernel.Buffer)
	}{
		{"MatMul NN", []buffer{f(r * c), f(r * k), f(k * c)}, func(o kernel.Ops, b []kernel.Buffer) {
			o.MatMul(kernel.NN, b[0], b[1], b[2], r, c, k, false)
		}},
		{"MatMul NT", []buffer{f(r * c), f(r * k), f(k * c)}, func(o kernel.Ops, b []kernel.Buffer) {
			o.MatMul(kernel.NT, b[0], b[1], b[2], r, c, k, true)
		}},
		{"MatMul TN", []buffer{f(r * c), f(r * k), f(k * c)}, func(o kernel.Ops, b []kernel.Buffer) {
			o.MatMul(kernel.TN, b[0], b[1], b[2], r, c, k, true)
		}},
		{"AddRows", []buffer{f(r * c), f(r * c), f(g * c)}, func(o kernel.Ops, b []kernel.Buffer) { o.AddRows(b[0], b[1], b[2], r, c, g) }},
		{"SumRows", []buffer{f(g * c), f(r * c)}, func(o kernel.Ops, b []kernel.Buffer) { o.SumRows(b[0], b[1], r, c, g) }},
		{"Add", []buffer{f(r), f(r), f(r)}, func(o kernel.Ops, b []kernel.Buffer) { o.Add(b[0], b[1], b[2]) }},
		{"Zero", []buffer{f(r), {r, 9}}, func(o kernel.Ops, b []kernel.Buffer) { o.Zero(b[0]); o.Zero(b[1]) }},
		{"Copy", []buffer{f(r), f(r), {r, 9}, {r, 9}}, func(o kernel.Ops, b []kernel.Buffer) { o.Copy(b[0], b[1]); o.Copy(b[2], b[3]) }},
		{"GELU", []buffer{f(r), f(r)}, func(o kernel.Ops, b []kernel.Buffer) { o.GELU(b[0], b[1]) }},
		{"GELUBackward", []buffer{f(r), f(r), f(r)}, func(o kernel.Ops, b []kernel.Buffer) { o.GELUBackward(b[0], b[1], b[2]) }},
		{"ReLU", []buffer{f(r), f(r)}, func(o kernel.Ops, b []kernel.Buffer) { o.ReLU(b[0], b[1]) }},
		{"ReLUBackward", []buffer{f(r), f(r), f(r)}, func(o kernel.Ops, b []kernel.Buffer) { o.ReLUBackward(b[0], b[1], b[2]) }},
		{"LayerNorm and backward", []buffer{f(r * c), f(r), f(r), f(r * c), f(c), f(c), f(r * c), f(c), f(c)}, func(o kernel.Ops, b []kernel.Buffer) {
			o.LayerNorm(b[0], b[1], b[2], b[3], b[4], b[5], r, c)
			o.LayerNormBackward(b[6], b[7], b[8], b[0], b[3], b[1], b[2], b[4], r, c)
		}},
		{"Attention", []buffer{f(48), f(32), f(144), f(144), f(48)}, func(o kernel.Ops, b []kernel.Buffer) {
			o.Attention(b[0], b[1], b[2], attn)
			o.AttentionBackward(b[3], b[4], b[0], b[2], b[1], attn)
		}},
		{"causal attention", []buffer{f(48), f(32), f(144), f(144), f(48)}, func(o kernel.Ops, b []kernel.Buffer) {
			o.Attention(b[0], b[1], b[2], causal)
			o.AttentionBackward(b[3], b[4], b[0], b[2], b[1], causal)
		}},
		{"Embedding", []buffer{f(r * c), f(k * c), {r, k + 2}, f(k * c)}, func(o kernel.Ops, b []kernel.Buffer) {
			o.Embedding(b[0], b[1], b[2], r, c)
			o.EmbeddingBackward(b[3], b[0], b[2], r, c)
		}},
		{"MeanRows", []buffer{f(g * c), f(g * r * c), f(g * r * c)}, func(o kernel.Ops, b []kernel.Buffer) {
			o.MeanRows(b[0], b[1], g, r, c)
			o.MeanRowsBackward(b[2], b[0], g, r, c)
		}},
		{"CrossEntropy", []buffer{f(r), f(r * c), f(r * c), {r, c}, {r, 1}}, func(o kernel.Ops, b []kernel.Buffer) {
			o.CrossEntropy(b[0], b[1], b[2], b[3], r, c)
			o.Argmax(b[4], b[2], r, c)
		}},
		{"Sum and MaxAbs", []buffer{f(1), f(1), f(r * c)}, func(o kernel.Ops, b []kernel.Buffer) { o.Sum(b[0], b[2]); o.MaxAbs(b[1], b[2]) }},
		{"integers", []buffer{{r, 9}, f(r), {r, 9}, {4, 9}}, func(o kernel.Ops, b []kernel.Buffer) {
			o.Quantize(b[0], b[1], 29) // some are clamped
			o.QuantizeStochastic(b[0], b[1], 3, 7)
			o.AddI32(b[2], b[0])
			o.SumSquares(b[3], b[2])
		}},
		{"AdamW", []buffer{f(r), f(r), f(r), {r, 100}}, func(o kernel.Ops, b []kernel.Buffer) {
			o.Zero(b[2]) // v may not be negative
			h := kernel.AdamW{Scale: 1.0 / 64, LR: 0.1, Decay: 0.01, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, C1: 10, C2: 20}
			o.AdamW(b[0], b[1], b[2], b[3], h)
			o.AdamW(b[0], b[1], b[2], b[3], h)
		}},
		{"AdamW from floats", []buffer{f(r), f(r), f(r), f(r)}, func(o kernel.Ops, b []kernel.Buffer) {
			o.Zero(b[2])
			o.AdamW(b[0], b[1], b[2], b[3], kernel.AdamW{Scale: 0.5, LR: 0.1, Decay: 0.01, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, C1: 10, C2: 20})
		}},
	} {
		t.Run(e.name, func(t *testing.T) {
			exact, single := run(t, New(), e.args, e.run), run(t, ref.New(), e.args, e.run)
			for i := range e.args {
				for j := range exact[i] {
					if a, b := exact[i][j], single[i][j]; !(math.Abs(a-b) <= 1e-5*max(1, math.Abs(a))) {
						t.Errorf("buffer %d, element %d: %g in float64, %g on ref", i, j, a, b)
					}
				}
			}
		})
	}
}

// run calls an op on arguments that are the same on every device, and downloads them all afterwards.
func run(t *testing.T, dev kernel.Device, args []buffer, op func(kernel.Ops, []kernel.Buffer)) [][]float64 {
	t.Helper()
	defer dev.Close()
	rng := rand.New(rand.NewPCG(3, 4))
	bufs, out := make([]kernel.Buffer, len(args)), make([][]float64, len(args))
	for i, a := range args {
		floats, ints := make([]float32, a.n), make([]int32, a.n)
		for j := range a.n {
			floats[j], ints[j] = float32(rng.NormFloat64()), int32(rng.IntN(max(a.ints, 1)+1)-1)
		}
		if a.ints != 0 {
			bufs[i] = dev.Alloc(kernel.Other, kernel.I32, a.n)
			dev.Upload(bufs[i], kernel.Bytes(ints))
		} else {
			bufs[i] = dev.Alloc(kernel.Other, kernel.F32, a.n)
			dev.Upload(bufs[i], kernel.Bytes(floats))
		}
	}
	op(dev, bufs)
	for i, a := range args {
		floats, ints := make([]float32, a.n), make([]int32, a.n)
		to := kernel.Bytes(floats)
		if a.ints != 0 {
			to = kernel.Bytes(ints)
		}
		if err := dev.Download(to, bufs[i]); err != nil {
			t.Fatal(err)
		}
		out[i] = make([]float64, a.n)
		for j := range a.n {
			out[i][j] = float64(floats[j]) + float64(ints[j])
		}
	}
	return out
}

func TestBF16(t *testing.T) {
	dev := New()
	f, h := dev.Alloc(kernel.Other, kernel.F32, 4), dev.Alloc(kernel.Other, kernel.BF16, 4)
	dev.Upload(f, kernel.Bytes([]float32{1, -2.5, 1 + 1.0/256, float32(math.NaN())}))
	dev.ToBF16(h, f)
	got := make([]uint16, 4)
	if err := dev.Download(kernel.Bytes(got), h); err != nil {
		t.Fatal(err)
	}
	if got[0] != 0x3f80 || got[1] != 0xc020 || got[2] != 0x3f80 || got[3]&0x7fc0 != 0x7fc0 {
		t.Errorf("got %#04x", got)
	}
	dev.Upload(h, kernel.Bytes([]uint16{0x4040, 0, 0, 0}))
	dev.FromBF16(f, h)
	if v := dev.Values(f); v[0] != 3 {
		t.Errorf("bf16 0x4040 is %g, want 3", v[0])
	}
}

// A device reports the first misuse, however late, and memory is undefined until it is written.
func TestMisuse(t *testing.T) {
	for name, misuse := range map[string]func(*Device){
		"negative length": func(d *Device) { d.Alloc(kernel.Other, kernel.F32, -1) },
		"free twice": func(d *Device) {
			b := d.Alloc(kernel.Other, kernel.F32, 2)
			d.Free(b)
			d.Free(b)
		},
		"free a window":  func(d *Device) { d.Free(d.Alloc(kernel.Other, kernel.F32, 2).Slice(0, 1)) },
		"use after free": func(d *Device) { b := d.Alloc(kernel.Other, kernel.F32, 2); d.Free(b); d.Zero(b) },
		"short upload":   func(d *Device) { d.Upload(d.Alloc(kernel.Other, kernel.F32, 2), make([]byte, 4)) },
		"foreign memory": func(d *Device) { d.Zero(New().Alloc(kernel.Other, kernel.F32, 2)) },
		"label": func(d *Device) {
			x, l := d.Alloc(kernel.Other, kernel.F32, 2), d.Alloc(kernel.Other, kernel.I32, 1)
			d.Upload(l, kernel.Bytes([]int32{2}))
			d.CrossEntropy(d.Alloc(kernel.Other, kernel.F32, 1), kernel.Buffer{}, x, l, 1, 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := New()
			misuse(d)
			if d.Sync() == nil {
				t.Error("Sync reports nothing")
			}
			if d.Download(nil, d.Alloc(kernel.Other, kernel.F32, 0)) == nil {
				t.Error("Download reports nothing")
			}
		})
	}
	d := New()
	if v := d.Values(d.Alloc(kernel.Activations, kernel.F32, 1)); !math.IsNaN(v[0]) {
		t.Errorf("new memory holds %g", v[0])
	}
	if d.Meter().Live(kernel.Activations) != 4 {
		t.Error("the meter does not count 4 bytes of a float32")
	}
}
