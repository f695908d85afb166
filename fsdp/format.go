package fsdp

import (
	"fmt"
	"math/big"

	"shoal/kernel"
)

// Format says how gradients are summed: over a member's microbatches, on their way to their owner, and there.
type Format string

const (
	Fixed32  Format = "fixed32" // as integers of 32 bits; the default
	Fixed16  Format = "fixed16" // as integers on a grid of 16 bits, rounded at random
	Float32  Format = "fp32"    // in float32, members in rank order
	BFloat16 Format = "bf16"    // the same, each member's sum rounded to bf16
)

// Exact says whether a sum depends on its summands alone: not on who computed them, nor on any order. The other formats
// are there to compare with, and give up that a run's result is one hash for any number of members.
func (f Format) Exact() bool { return f == Fixed32 || f == Fixed16 || f == "" }

// Warning says in words what a run in a format that is not exact gives up; it is empty for the others.
func (f Format) Warning() string {
	if f.Exact() {
		return ""
	}
	return fmt.Sprintf("precision.reduce %s: the result depends on the peers, other ones end with another state hash", string(f))
}

// valid says whether f is one of the formats, or empty for the default.
func (f Format) valid() error {
	if f.Exact() || f == Float32 || f == BFloat16 {
		return nil
	}
	return fmt.Errorf("fsdp: gradients summed as %q: want fixed32, fixed16, fp32 or bf16", f)
}

// wire is the number of bytes that an element of a member's sum takes on its way, and one of the sum of all.
func (f Format) wire() (own, all int64) {
	switch f {
	case Fixed16:
		return 2, 2
	case BFloat16:
		return 2, 4
	}
	return 4, 4
}

// format is what a Format does. There are two kinds of it, fixed and float. Elements of sums have 4 bytes, and are kept as
// int32 on the host, whatever they are.
type format interface {
	// dtype is the type of sums on a device.
	dtype() kernel.DType
	// collect adds the gradient g of one tensor in one microbatch to the own sum.
	collect(e *Engine, sum, g kernel.Buffer, s summand)
	// encode rounds an own sum to what travels.
	encode(dev kernel.Device, sum kernel.Buffer)
	// alone is the sum of all of what is owned of u, if the only member can collect its gradients right there.
	alone(e *Engine, u *unit) kernel.Buffer
	// addHere adds the own sum of what is owned of u to the sum of all without a way through the host's memory, if it can.
	addHere(e *Engine, u *unit, sum kernel.Buffer) bool
	// add takes a piece of a member's sum of what is owned of u, from element offset on. own is the sum of all. u is
	// locked.
	add(u *unit, own []int32, source, offset int, data []byte)
	// finish makes own whole once every member's sum is there. u is locked.
	finish(u *unit, own []int32)
	// forget drops what add has kept, since the attempt is over.
	forget(u *unit)
	// measure tells the leader about parts of tensors' sums.
	measure(e *Engine, said *ready, parts []part)

	// outgrown says whether gradients as large as seen do not fit, so that the step must be tried again.
	outgrown(exps, seen []int16) bool
	// norm is the Euclidean norm of the mean gradient.
	norm(sum *ready, exps []int16) *big.Float
	// factor turns a tensor's sum into its clipped mean gradient.
	factor(o *Outcome, tensor int) float32
}

// summand names a gradient in a step: a tensor's in a stage and a microbatch of the global batch.
type summand struct {
	tensor            string
	exp               int16
	stage, microbatch int
}

// part is a part of a tensor's sum.
type part struct {
	tensor int
	sum    []int32
}

// newFormat is what h.Reduce names, for the model of l. What it holds for a while is counted by meter.
func newFormat(h *Hyper, l *Layout, meter *kernel.Meter) format {
	m := len(microbatches(h.Batch, h.Microbatch))
	switch h.Reduce {
	case Fixed16:
		return &fixed{fraction: fractionBits(11, m, l.uses), random: true}
	case Float32, BFloat16:
		return &float{half: h.Reduce == BFloat16, meter: meter}
	}
	return &fixed{fraction: fractionBits(24, m, l.uses)}
}
