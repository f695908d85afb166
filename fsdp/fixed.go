package fsdp

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"

	"shoal/kernel"
	"shoal/kernel/ref"
)

// Gradients are summed as integers, in format fixed32: a float sum depends on the order of its summands, an integer sum does not. Tensor t
// has an exponent E_t with |g| <= 2^E_t, so that a microbatch's gradient becomes round(g * 2^(F-E_t)), where F leaves
// room for all microbatches and a 16-fold growth in 31 bits. In fixed16 each summand has that growth in 16 bits, so that
// sums travel in half the bytes; rounding to nearest would lose what is small for good, rounding at random keeps its mean.

// Values of an exponent that are no power of two.
const (
	expZero      = -1 << 14 // no nonzero gradient was ever seen
	expNotFinite = 1 << 14  // NaN or infinity
)

// headroom is the growth, as a power of two, that an exponent allows before the step must be tried again.
const headroom = 4

// fixed is the kind of format that sums integers.
type fixed struct {
	fraction int  // F
	random   bool // gradients are rounded at random, not to nearest
}

var _ format = (*fixed)(nil)

func (f *fixed) dtype() kernel.DType { return kernel.I32 }

func (f *fixed) collect(e *Engine, sum, g kernel.Buffer, s summand) {
	switch {
	case s.exp == expZero: // nothing is known about its range: should it not be zero, the step is tried again
	case f.random:
		e.dev.QuantizeStochastic(sum, g, f.fraction-int(s.exp), roundingKey(e.cfg.Hyper.Seed, e.step, s))
	default:
		e.dev.Quantize(sum, g, f.fraction-int(s.exp))
	}
}

// roundingKey is where the random numbers for rounding one gradient come from.
func roundingKey(seed uint64, step int, s summand) uint64 {
	key := ref.Hash64(seed, "rounding of ", s.tensor)
	for _, part := range []int{step, s.microbatch, s.stage} {
		key = ref.Counter(key, uint64(part))
	}
	return key
}

func (f *fixed) encode(kernel.Device, kernel.Buffer) {}

func (f *fixed) alone(e *Engine, u *unit) kernel.Buffer {
	if e.place.Size > 1 {
		return kernel.Buffer{} // others add to it at the same time
	}
	return e.shared(u.own.acc)
}

func (f *fixed) addHere(e *Engine, u *unit, sum kernel.Buffer) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	own := e.shared(u.own.acc)
	if own.None() {
		return false
	}
	defer e.dev.Free(own)
	at := 0
	for _, r := range u.own.runs {
		if r.off < u.Trained {
			e.dev.AddI32(own.Slice(at, r.n), sum.Slice(r.off, r.n))
			at += r.n
		}
	}
	return true
}

func (f *fixed) add(_ *unit, own []int32, _, offset int, data []byte) {
	addInto(own[offset:offset+len(data)/4], data)
}

func (f *fixed) finish(*unit, []int32) {}

func (f *fixed) forget(*unit) {}

func (f *fixed) measure(e *Engine, said *ready, parts []part) {
	squares := e.dev.Alloc(kernel.GradientWork, kernel.I32, 4*len(parts))
	for i, p := range parts {
		q := e.onDevice(p.sum)
		e.dev.SumSquares(squares.Slice(4*i, 4), q)
		e.dev.Free(q)
	}
	words := make([]int32, squares.Len)
	if e.dev.Download(kernel.Bytes(words), squares) == nil {
		for i, p := range parts {
			said.Squares[p.tensor] = said.Squares[p.tensor].add(u128Of([4]int32(words[4*i:])))
		}
	}
	e.dev.Free(squares)
}

// outgrown says whether a gradient did not fit: beyond the headroom, or in a tensor without history.
func (f *fixed) outgrown(exps, seen []int16) bool {
	for t, e := range seen {
		if e != expZero && (exps[t] == expZero || e > exps[t]+headroom) {
			return true
		}
	}
	return false
}

func (f *fixed) norm(sum *ready, exps []int16) *big.Float {
	return gradientNorm(sum.Squares, exps, f.fraction, sum.Count)
}

func (f *fixed) factor(o *Outcome, tensor int) float32 {
	if o.Used[tensor] == expZero {
		return 0
	}
	return float32(math.Ldexp(float64(o.Scale), int(o.Used[tensor])-f.fraction))
}

// fractionBits is F for a global batch of m microbatches in a model in which up to uses stages share one tensor: at most
// top, and so that the sum fits.
func fractionBits(top, m, uses int) int { return min(top, 26-bits.Len(uint(m*max(uses, 1)-1))) }

// exponentOf is the smallest E with x <= 2^E, for x >= 0.
func exponentOf(x float32) int16 {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return expNotFinite
	}
	if x == 0 {
		return expZero
	}
	frac, exp := math.Frexp(float64(x)) // x = frac * 2^exp, frac in [0.5, 1)
	if frac == 0.5 {
		exp--
	}
	return int16(exp)
}

// u128 is an unsigned 128-bit integer.
type u128 struct{ Hi, Lo uint64 }

func (a u128) add(b u128) u128 {
	lo, carry := bits.Add64(a.Lo, b.Lo, 0)
	hi, _ := bits.Add64(a.Hi, b.Hi, carry)
	return u128{hi, lo}
}

// u128Of is the number that SumSquares writes as four words, the lowest first.
func u128Of(words [4]int32) u128 {
	two := func(lo, hi int32) uint64 { return uint64(uint32(hi))<<32 | uint64(uint32(lo)) }
	return u128{two(words[2], words[3]), two(words[0], words[1])}
}

// addInto adds little-endian int32 data to acc.
func addInto(acc []int32, data []byte) {
	for ; len(acc) >= 4 && len(data) >= 16; acc, data = acc[4:], data[16:] {
		x, y := binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:])
		acc[0] += int32(x)
		acc[1] += int32(x >> 32)
		acc[2] += int32(y)
		acc[3] += int32(y >> 32)
	}
	for i := range acc {
		acc[i] += int32(binary.LittleEndian.Uint32(data[4*i:]))
	}
}

// gradientNorm is the Euclidean norm of the mean gradient: sqrt(sum over tensors of squares[t] * 2^(2(exps[t]-f))) /
// count, exact but for the one rounding to prec bits at the end.
func gradientNorm(squares []u128, exps []int16, f int, count int64) *big.Float {
	var sum, square, low big.Int
	base := math.MaxInt
	for t, e := range exps {
		if e != expZero && squares[t] != (u128{}) {
			base = min(base, 2*(int(e)-f))
		}
	}
	for t, e := range exps {
		if e != expZero && squares[t] != (u128{}) {
			square.Lsh(square.SetUint64(squares[t].Hi), 64)
			square.Or(&square, low.SetUint64(squares[t].Lo))
			sum.Add(&sum, square.Lsh(&square, uint(2*(int(e)-f)-base)))
		}
	}
	norm := new(big.Float).SetPrec(128)
	if sum.Sign() == 0 || count == 0 {
		return norm
	}
	x := new(big.Float).SetPrec(uint(max(128, sum.BitLen()))).SetInt(&sum)
	norm.Sqrt(x)
	norm.SetMantExp(norm, base/2)
	return norm.Quo(norm, new(big.Float).SetInt64(count))
}

// lossBits is the fixed-point position in which losses are summed.
const lossBits = 24

// fixedLoss turns one microbatch's sum of losses into an integer; ok is false if it is not finite or absurdly large.
func fixedLoss(x float32) (q int64, ok bool) {
	v := math.RoundToEven(math.Ldexp(float64(x), lossBits))
	if !(math.Abs(v) < 1<<62) {
		return 0, false
	}
	return int64(v), true
}
