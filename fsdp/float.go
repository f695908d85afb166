package fsdp

import (
	"maps"
	"math"
	"math/big"
	"slices"

	"shoal/kernel"
)

// float is the kind of format that sums in float32: each member its own microbatches in their order, the owner the
// members' sums in rank order once all are there. So the result is the same on a mesh of the same members, and only there.
type float struct {
	half  bool // members' sums are rounded to bf16
	meter *kernel.Meter

	spare byteList
}

var _ format = (*float)(nil)

func (f *float) dtype() kernel.DType { return kernel.F32 }

func (f *float) collect(e *Engine, sum, g kernel.Buffer, _ summand) { e.dev.Add(sum, sum, g) }

// encode rounds the own sum of what is owned here too, so that who owns an element makes no difference.
func (f *float) encode(dev kernel.Device, sum kernel.Buffer) {
	if !f.half {
		return
	}
	half := dev.Alloc(kernel.GradientWork, kernel.BF16, sum.Len)
	dev.ToBF16(half, sum)
	dev.FromBF16(sum, half)
	dev.Free(half)
}

func (f *float) alone(*Engine, *unit) kernel.Buffer { return kernel.Buffer{} }

func (f *float) addHere(*Engine, *unit, kernel.Buffer) bool { return false }

// add keeps what came until every member's sum is there.
func (f *float) add(u *unit, own []int32, source, offset int, data []byte) {
	if u.given[source] == nil {
		u.given[source] = f.take(4 * len(own))
	}
	copy(u.given[source][4*offset:], data)
}

func (f *float) finish(u *unit, own []int32) {
	sum := kernel.Floats(kernel.Bytes(own))
	for _, source := range slices.Sorted(maps.Keys(u.given)) {
		g := u.given[source]
		for i, x := range kernel.Floats(g) {
			sum[i] += x
		}
		f.give(g)
	}
	clear(u.given)
}

func (f *float) forget(u *unit) {
	for _, g := range u.given {
		f.give(g)
	}
	clear(u.given)
	f.spare.clear() // shards of another size may follow
}

func (f *float) take(n int) []byte {
	f.meter.Add(kernel.GradientWork, int64(n))
	return f.spare.take(n)
}

func (f *float) give(b []byte) {
	f.meter.Add(kernel.GradientWork, -int64(len(b)))
	f.spare.give(b)
}

// measure also finds sums that are not finite though each summand was.
func (f *float) measure(_ *Engine, said *ready, parts []part) {
	for _, p := range parts {
		var s float64
		for _, x := range kernel.Floats(kernel.Bytes(p.sum)) {
			s += float64(x) * float64(x) // the product is exact
		}
		said.Square += s
		if math.IsNaN(s) || math.IsInf(s, 0) {
			said.Max[p.tensor] = expNotFinite
		}
	}
}

func (f *float) outgrown(_, _ []int16) bool { return false }

func (f *float) norm(sum *ready, _ []int16) *big.Float {
	norm := new(big.Float).SetPrec(128)
	if sum.Count == 0 {
		return norm
	}
	norm.SetFloat64(math.Sqrt(sum.Square))
	return norm.Quo(norm, new(big.Float).SetInt64(sum.Count))
}

func (f *float) factor(o *Outcome, _ int) float32 { return o.Scale }
