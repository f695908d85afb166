package model

import "slices"

// Encoder is an optional interface of a Model that wants a sample's floats in another order or scale than the data set
// has them. Whoever runs the model applies it to each sample on the host, before upload (see EncodeBatch).
type Encoder interface {
	// Encode writes to dst what the model wants to see of src. Both are one sample's Spec.Floats values and don't
	// overlap. It must be a pure function of src, the same bits on every machine.
	Encode(dst, src []float32)
}

// EncodeBatch replaces the floats of b by what m's Encoder makes of them; the old slice is left unchanged until the next
// EncodeBatch of b, which may write to it. Without an Encoder it does nothing.
func EncodeBatch(m Model, b *Batch) {
	e, ok := m.(Encoder)
	n := m.Sample().Floats
	if !ok || n == 0 {
		return
	}
	src, dst := b.Floats, slices.Grow(b.spare[:0], len(b.Floats))[:len(b.Floats)]
	for lo := 0; lo+n <= len(src); lo += n {
		e.Encode(dst[lo:lo+n:lo+n], src[lo:lo+n:lo+n])
	}
	b.Floats, b.spare = dst, src
}
