package cpu

import (
	"shoal/kernel"
	"shoal/kernel/ref"
)

// Grains: elements per piece, for loops of about 0.5, 2 and 5 ns per element.
const (
	grainLight  = 1 << 15
	grainMedium = 1 << 13
	grainHeavy  = 1 << 11
)

// unary is an op whose f makes a piece of y from the same piece of x.
type unary[Y, X any] struct {
	f func(y []Y, x []X)
	y []Y
	x []X
}

func (a *unary[Y, X]) do(_, lo, hi int) { a.f(a.y[lo:hi], a.x[lo:hi]) }

// binary is an op whose f makes a piece of y from the same pieces of a and b.
type binary struct {
	f       func(y, a, b []float32)
	y, a, b []float32
}

func (a *binary) do(_, lo, hi int) { a.f(a.y[lo:hi], a.a[lo:hi], a.b[lo:hi]) }

func (o *ops) Add(y, a, b kernel.Buffer) {
	run(o, &o.args.binary, binary{o.loops.add, f32(y), f32(a), f32(b)}, y.Len, grainLight)
}

func (o *ops) GELU(y, x kernel.Buffer) {
	run(o, &o.args.f32Unary, unary[float32, float32]{o.loops.gelu, f32(y), f32(x)}, y.Len, grainHeavy)
}

func (o *ops) GELUBackward(dx, x, dy kernel.Buffer) {
	run(o, &o.args.binary, binary{o.loops.geluBackward, f32(dx), f32(x), f32(dy)}, dx.Len, grainHeavy)
}

func (o *ops) ReLU(y, x kernel.Buffer) {
	run(o, &o.args.f32Unary, unary[float32, float32]{o.loops.relu, f32(y), f32(x)}, y.Len, grainLight)
}

func (o *ops) ReLUBackward(dx, x, dy kernel.Buffer) {
	run(o, &o.args.binary, binary{o.loops.reluBackward, f32(dx), f32(x), f32(dy)}, dx.Len, grainLight)
}

func (o *ops) AddI32(acc, x kernel.Buffer) {
	run(o, &o.args.i32Unary, unary[int32, int32]{o.loops.addI32, i32(acc), i32(x)}, acc.Len, grainLight)
}

func (o *ops) ToBF16(dst, src kernel.Buffer) {
	run(o, &o.args.toBF16, unary[uint16, float32]{o.loops.toBF16, bf16(dst), f32(src)}, dst.Len, grainLight)
}

func (o *ops) FromBF16(dst, src kernel.Buffer) {
	run(o, &o.args.fromBF16, unary[float32, uint16]{o.loops.fromBF16, f32(dst), bf16(src)}, dst.Len, grainLight)
}

type zero struct{ y kernel.Buffer }

func (o *ops) Zero(y kernel.Buffer) { run(o, &o.args.zero, zero{y}, y.Len, grainLight) }

func (a *zero) do(_, lo, hi int) { ref.Ops{}.Zero(a.y.Slice(lo, hi-lo)) }

type copied struct{ dst, src kernel.Buffer }

func (o *ops) Copy(dst, src kernel.Buffer) {
	run(o, &o.args.copy, copied{dst, src}, dst.Len, grainLight)
}

func (a *copied) do(_, lo, hi int) { ref.Ops{}.Copy(a.dst.Slice(lo, hi-lo), a.src.Slice(lo, hi-lo)) }
