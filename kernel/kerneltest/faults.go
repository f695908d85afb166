package kerneltest

import (
	"strings"
	"testing"

	"shoal/kernel"
)

// memory for a call that must fail.
type operands struct {
	f, g, h, k kernel.Buffer // F32 of length 12
	i          kernel.Buffer // I32 of length 12
	w          kernel.Buffer // BF16 of length 12
	freed      kernel.Buffer
	foreign    kernel.Buffer // of another device
	none       kernel.Buffer
}

// faults are calls that break the contract, and what the message must name.
var faults = []struct {
	name string
	run  func(d kernel.Device, x *operands)
	want string
}{
	{"c too short", func(d kernel.Device, x *operands) { d.MatMul(kernel.NN, x.f, x.g, x.h, 4, 4, 3, false) }, "MatMul"},
	{"b too short", func(d kernel.Device, x *operands) { d.MatMul(kernel.NT, x.f, x.g, x.h, 3, 4, 4, true) }, "MatMul"},
	{"no such transposition", func(d kernel.Device, x *operands) { d.MatMul(7, x.f, x.g, x.h, 1, 12, 1, true) }, "MatMul"},
	{"negative size", func(d kernel.Device, x *operands) { d.MatMul(kernel.NN, x.f, x.g, x.h, -3, -4, 4, true) }, "MatMul"},
	{"sizes overflow", func(d kernel.Device, x *operands) {
		d.MatMul(kernel.NN, x.f, x.g, x.h, 1<<62, 4, 1<<62, true)
	}, "MatMul"},
	{"c is a", func(d kernel.Device, x *operands) { d.MatMul(kernel.NN, x.f, x.f, x.g.Slice(0, 9), 4, 3, 3, false) }, "MatMul"},
	{"period 0", func(d kernel.Device, x *operands) { d.AddRows(x.f, x.g, x.h, 3, 4, 0) }, "AddRows"},
	{"wrong table", func(d kernel.Device, x *operands) { d.AddRows(x.f, x.g, x.h, 3, 4, 1) }, "AddRows"},
	{"period 0", func(d kernel.Device, x *operands) { d.SumRows(x.f, x.g, 3, 4, 0) }, "SumRows"},
	{"wrong rows", func(d kernel.Device, x *operands) { d.SumRows(x.f, x.g, 3, 5, 1) }, "SumRows"},
	{"type", func(d kernel.Device, x *operands) { d.Add(x.f, x.g, x.i) }, "Add"},
	{"length", func(d kernel.Device, x *operands) { d.Add(x.f, x.g, x.h.Slice(0, 11)) }, "Add"},
	{"partial overlap", func(d kernel.Device, x *operands) { d.Add(x.f.Slice(0, 6), x.f.Slice(3, 6), x.g.Slice(0, 6)) }, "Add"},
	{"window outside", func(d kernel.Device, x *operands) { d.Add(x.f.Slice(0, 13), x.g, x.h) }, "Add"},
	{"forged window", func(d kernel.Device, x *operands) { d.Zero(kernel.Buffer{Mem: x.f.Mem, Off: 5, Len: 12}) }, "Zero"},
	{"negative offset", func(d kernel.Device, x *operands) { d.Zero(kernel.Buffer{Mem: x.f.Mem, Off: -5, Len: 12}) }, "Zero"},
	{"none", func(d kernel.Device, x *operands) { d.Zero(x.none) }, "Zero"},
	{"freed", func(d kernel.Device, x *operands) { d.Zero(x.freed) }, "Zero"},
	{"foreign", func(d kernel.Device, x *operands) { d.Zero(x.foreign) }, "Zero"},
	{"other types", func(d kernel.Device, x *operands) { d.Copy(x.f, x.i) }, "Copy"},
	{"onto itself", func(d kernel.Device, x *operands) { d.Copy(x.f, x.f) }, "Copy"},
	{"none", func(d kernel.Device, x *operands) { d.GELU(x.f, x.none) }, "GELU"},
	{"dx is x", func(d kernel.Device, x *operands) { d.GELUBackward(x.f, x.f, x.g) }, "GELUBackward"},
	{"type", func(d kernel.Device, x *operands) { d.ReLU(x.i, x.i) }, "ReLU"},
	{"dx is x", func(d kernel.Device, x *operands) { d.ReLUBackward(x.f, x.f, x.g) }, "ReLUBackward"},
	{"gamma too long", func(d kernel.Device, x *operands) {
		d.LayerNorm(x.f, x.k.Slice(0, 3), x.k.Slice(3, 3), x.g, x.h, x.h.Slice(0, 4), 3, 4)
	}, "LayerNorm"},
	{"mean is rstd", func(d kernel.Device, x *operands) {
		d.LayerNorm(x.f, x.k.Slice(0, 3), x.k.Slice(2, 3), x.g, x.h.Slice(0, 4), x.h.Slice(0, 4), 3, 4)
	}, "LayerNorm"},
	{"no dgamma", func(d kernel.Device, x *operands) {
		d.LayerNormBackward(x.f, x.none, x.k.Slice(0, 4), x.g, x.h, x.k.Slice(4, 3), x.k.Slice(7, 3), x.k.Slice(4, 4), 3, 4)
	}, "LayerNormBackward"},
	{"D = 0", func(d kernel.Device, x *operands) {
		d.Attention(x.f.Slice(0, 0), x.g, x.h.Slice(0, 0), kernel.AttentionShape{B: 2, T: 3, H: 1})
	}, "Attention"},
	{"qkv too short", func(d kernel.Device, x *operands) {
		d.Attention(x.f, x.g.Slice(0, 6), x.h, kernel.AttentionShape{B: 1, T: 3, H: 1, D: 4})
	}, "Attention"},
	{"no stats", func(d kernel.Device, x *operands) {
		d.AttentionBackward(x.f, x.g.Slice(0, 4), x.h.Slice(0, 4), x.k, x.none, kernel.AttentionShape{B: 1, T: 2, H: 1, D: 2})
	}, "AttentionBackward"},
	{"ids are floats", func(d kernel.Device, x *operands) { d.Embedding(x.f, x.g, x.h.Slice(0, 3), 3, 4) }, "Embedding"},
	{"ragged table", func(d kernel.Device, x *operands) { d.Embedding(x.f, x.g.Slice(0, 10), x.i.Slice(0, 3), 3, 4) }, "Embedding"},
	{"cols 0", func(d kernel.Device, x *operands) { d.Embedding(x.f.Slice(0, 0), x.g, x.i.Slice(0, 3), 3, 0) }, "Embedding"},
	{"ragged table", func(d kernel.Device, x *operands) {
		d.EmbeddingBackward(x.f.Slice(0, 10), x.g, x.i.Slice(0, 3), 3, 4)
	}, "EmbeddingBackward"},
	{"n = 0", func(d kernel.Device, x *operands) { d.MeanRows(x.f.Slice(0, 4), x.g.Slice(0, 0), 1, 0, 4) }, "MeanRows"},
	{"length", func(d kernel.Device, x *operands) { d.MeanRows(x.f.Slice(0, 4), x.g, 2, 2, 2) }, "MeanRows"},
	{"n = 0", func(d kernel.Device, x *operands) { d.MeanRowsBackward(x.f.Slice(0, 0), x.g.Slice(0, 4), 1, 0, 4) }, "MeanRowsBackward"},
	{"labels are floats", func(d kernel.Device, x *operands) {
		d.CrossEntropy(x.f.Slice(0, 3), x.g, x.h, x.k.Slice(0, 3), 3, 4)
	}, "CrossEntropy"},
	{"dlogits too short", func(d kernel.Device, x *operands) {
		d.CrossEntropy(x.f.Slice(0, 3), x.g.Slice(0, 4), x.h, x.i.Slice(0, 3), 3, 4)
	}, "CrossEntropy"},
	{"idx is float", func(d kernel.Device, x *operands) { d.Argmax(x.f.Slice(0, 3), x.g, 3, 4) }, "Argmax"},
	{"dst too long", func(d kernel.Device, x *operands) { d.Sum(x.f, x.g) }, "Sum"},
	{"dst in x", func(d kernel.Device, x *operands) { d.MaxAbs(x.f.Slice(2, 1), x.f) }, "MaxAbs"},
	{"acc is float", func(d kernel.Device, x *operands) { d.Quantize(x.f, x.g, 3) }, "Quantize"},
	{"g is int", func(d kernel.Device, x *operands) { d.QuantizeStochastic(x.i, x.i, 3, 1) }, "QuantizeStochastic"},
	{"length", func(d kernel.Device, x *operands) { d.AddI32(x.i, x.i.Slice(0, 5)) }, "AddI32"},
	{"dst too short", func(d kernel.Device, x *operands) { d.SumSquares(x.i.Slice(0, 3), x.i.Slice(4, 5)) }, "SumSquares"},
	{"m is v", func(d kernel.Device, x *operands) { d.AdamW(x.f, x.g, x.g, x.i, kernel.AdamW{}) }, "AdamW"},
	{"dst is float", func(d kernel.Device, x *operands) { d.ToBF16(x.f, x.g) }, "ToBF16"},
	{"src is float", func(d kernel.Device, x *operands) { d.FromBF16(x.f, x.g) }, "FromBF16"},
	{"size", func(d kernel.Device, x *operands) { d.Upload(x.f, make([]byte, 47)) }, "Upload"},
	{"none", func(d kernel.Device, x *operands) { d.Upload(x.none, nil) }, "Upload"},
	{"size", func(d kernel.Device, x *operands) { _ = d.Download(make([]byte, 49), x.f) }, "Download"},
	{"freed", func(d kernel.Device, x *operands) { _ = d.Download(make([]byte, 48), x.freed) }, "Download"},
	{"freed", func(d kernel.Device, x *operands) { d.Free(x.freed) }, "Free"},
	{"window", func(d kernel.Device, x *operands) { d.Free(x.f.Slice(0, 5)) }, "Free"},
	{"foreign", func(d kernel.Device, x *operands) { d.Free(x.foreign) }, "Free"},
	{"negative", func(d kernel.Device, x *operands) { d.Alloc(kernel.Other, kernel.F32, -1) }, "Alloc"},
	{"no such type", func(d kernel.Device, x *operands) { d.Alloc(kernel.Other, 9, 1) }, "Alloc"},
	{"no such class", func(d kernel.Device, x *operands) { d.Alloc(kernel.NumClasses, kernel.F32, 1) }, "Alloc"},
	{"huge", func(d kernel.Device, x *operands) { d.Alloc(kernel.Other, kernel.F32, 1<<62) }, "Alloc"},
}

// runFaults makes each wrong call on a fresh device: it must name itself in the error of Sync, change nothing, and the
// error must stay.
func runFaults(t *testing.T, open func(t *testing.T) kernel.Device) {
	for _, f := range faults {
		t.Run(f.want+" "+f.name, func(t *testing.T) {
			d, other := open(t), open(t)
			defer func() { _, _ = d.Close(), other.Close() }()
			x := &operands{foreign: other.Alloc(kernel.Other, kernel.F32, 12)}
			for _, b := range []*kernel.Buffer{&x.f, &x.g, &x.h, &x.k, &x.freed} {
				*b = d.Alloc(kernel.Other, kernel.F32, 12)
				d.Upload(*b, fill(48, 1))
			}
			x.i = d.Alloc(kernel.Other, kernel.I32, 12)
			x.w = d.Alloc(kernel.Other, kernel.BF16, 12)
			d.Zero(x.i)
			d.Zero(x.w)
			d.Free(x.freed)
			if err := d.Sync(); err != nil {
				t.Fatalf("before the fault: %v", err)
			}
			f.run(d, x)
			err := d.Sync()
			if err == nil || !strings.Contains(err.Error(), f.want) {
				t.Fatalf("Sync: %v, want an error that names %s", err, f.want)
			}
			d.Zero(x.none) // a second fault doesn't replace the first
			if again := d.Sync(); again == nil || again.Error() != err.Error() {
				t.Errorf("Sync then: %v, want %v", again, err)
			}
			if err := d.Download(make([]byte, 48), x.f); err == nil {
				t.Error("Download after a fault returned no error")
			}
		})
	}
}
