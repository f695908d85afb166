package cpu

import "shoal/kernel"

// Grains: elements per piece, for loops of about 0.5, 2 and 5 ns per element.
const (
	grainLight  = 1 << 15
	grainMedium = 1 << 13
	grainHeavy  = 1 << 11
)

func (o *ops) Add(y, a, b kernel.Buffer) {
	ys, as, bs := f32(y), f32(a), f32(b)
	o.crew.split(len(ys), grainLight, func(_, lo, hi int) {
		o.loops.add(ys[lo:hi], as[lo:hi], bs[lo:hi])
	})
}

func (o *ops) Zero(y kernel.Buffer) {
	o.crew.split(y.Len, grainLight, func(_, lo, hi int) { o.Ops.Zero(y.Slice(lo, hi-lo)) })
}

func (o *ops) Copy(dst, src kernel.Buffer) {
	o.crew.split(dst.Len, grainLight, func(_, lo, hi int) { o.Ops.Copy(dst.Slice(lo, hi-lo), src.Slice(lo, hi-lo)) })
}

func (o *ops) GELU(y, x kernel.Buffer) {
	ys, xs := f32(y), f32(x)
	o.crew.split(len(ys), grainHeavy, func(_, lo, hi int) { o.loops.gelu(ys[lo:hi], xs[lo:hi]) })
}

func (o *ops) GELUBackward(dx, x, dy kernel.Buffer) {
	dxs, xs, dys := f32(dx), f32(x), f32(dy)
	o.crew.split(len(dxs), grainHeavy, func(_, lo, hi int) { o.loops.geluBackward(dxs[lo:hi], xs[lo:hi], dys[lo:hi]) })
}

func (o *ops) ReLU(y, x kernel.Buffer) {
	ys, xs := f32(y), f32(x)
	o.crew.split(len(ys), grainLight, func(_, lo, hi int) { o.loops.relu(ys[lo:hi], xs[lo:hi]) })
}

func (o *ops) ReLUBackward(dx, x, dy kernel.Buffer) {
	dxs, xs, dys := f32(dx), f32(x), f32(dy)
	o.crew.split(len(dxs), grainLight, func(_, lo, hi int) { o.loops.reluBackward(dxs[lo:hi], xs[lo:hi], dys[lo:hi]) })
}

func (o *ops) ToBF16(dst, src kernel.Buffer) {
	ds, ss := bf16(dst), f32(src)
	o.crew.split(len(ds), grainLight, func(_, lo, hi int) { o.loops.toBF16(ds[lo:hi], ss[lo:hi]) })
}

func (o *ops) FromBF16(dst, src kernel.Buffer) {
	ds, ss := f32(dst), bf16(src)
	o.crew.split(len(ds), grainLight, func(_, lo, hi int) { o.loops.fromBF16(ds[lo:hi], ss[lo:hi]) })
}
