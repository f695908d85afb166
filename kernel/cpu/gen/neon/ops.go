package main

import (
	"shoal/kernel/cpu/internal/a64"
	"shoal/kernel/cpu/internal/coeff"
)

// floats are parameters, all pointers to float32, and n behind them.
func floats(names ...string) []a64.Param {
	var p []a64.Param
	for _, name := range names {
		p = append(p, a64.In(name, "*float32", ""))
	}
	return append(p, a64.In("n", "int", ""))
}

func add(f *a64.File) {
	l := begin(f, "add", "is addGeneric: y = a + b.", floats("y", "a", "b")...)
	l.store(l.plus(l.take("R1"), l.take("R2")), "R0")
	l.end("R3")
}

func scale(f *a64.File) {
	l := begin(f, "scale", "is scaleGeneric: y = x * by.", append(floats("y", "x"), a64.In("by", "float32", ""))...)
	l.store(l.mul(l.take("R1"), all(0)), "R0")
	l.end("R2")
}

// exponential holds the constants of e^x.
type exponential struct {
	*loop
	lo, hi, log2e, roundBit, ln2Hi, ln2Lo, one, bias vector
	poly                                             [5]vector // the coefficients of r^6 to r^2
}

func newExponential(l *loop) *exponential {
	e := &exponential{loop: l, lo: l.constant(coeff.ExpMin), hi: l.constant(coeff.ExpMax), log2e: l.constant(coeff.Log2e),
		roundBit: l.constant(coeff.RoundBit), ln2Hi: l.constant(coeff.Ln2Hi), ln2Lo: l.constant(coeff.Ln2Lo), one: l.constant(1), bias: l.integer(127)}
	for i, c := range []float64{coeff.Exp6, coeff.Exp5, coeff.Exp4, coeff.Exp3, coeff.Exp2} {
		e.poly[i] = l.constant(c)
	}
	return e
}

// of is e^x.
func (e *exponential) of(x vector) vector {
	x = e.clamp(x, e.lo, e.hi)
	t := e.plus(e.mul(x, e.log2e), e.roundBit)
	n := e.sub(t, e.roundBit)
	r := e.sub(e.sub(x, e.mul(n, e.ln2Hi)), e.mul(n, e.ln2Lo))
	q := e.poly[0]
	for _, c := range e.poly[1:] {
		q = e.plus(e.mul(q, r), c)
	}
	y := e.plus(e.plus(e.mul(q, e.mul(r, r)), r), e.one)
	k := e.do(a64.SUB, t, e.roundBit)
	half := e.do(a64.SSHR1, k)
	rest := e.do(a64.SUB, k, half)
	return e.mul(e.mul(y, e.pow2(half)), e.pow2(rest))
}

// pow2 is 2^k of integers.
func (e *exponential) pow2(k vector) vector { return e.do(a64.SHL23, e.do(a64.ADD, k, e.bias)) }

func exp(f *a64.File) {
	l := begin(f, "exp", "is expGeneric: e = exp(x - sub).", append(floats("e", "x"), a64.In("sub", "float32", ""))...)
	e := newExponential(l)
	l.store(e.of(l.sub(l.take("R1"), all(0))), "R0")
	l.end("R2")
}

// minusU2 is -2u of GELU; sq is x*x.
func (l *loop) minusU2(x, sq, a, b vector) vector {
	return l.do(a64.FNEG, l.mul(x, l.plus(l.mul(b, sq), a)))
}

func gelu(f *a64.File) {
	l := begin(f, "gelu", "is geluGeneric: y = gelu(x).", floats("y", "x")...)
	e, a, b := newExponential(l), l.constant(coeff.GeluA), l.constant(coeff.GeluB)
	x := l.take("R1")
	v := e.of(l.minusU2(x, l.mul(x, x), a, b))
	l.store(l.div(x, l.plus(e.one, v)), "R0")
	l.end("R2")
}

func geluBackward(f *a64.File) {
	l := begin(f, "geluBackward", "is geluBackwardGeneric: dx = dy * gelu'(x).", floats("dx", "x", "dy")...)
	e, a, b, c := newExponential(l), l.constant(coeff.GeluA), l.constant(coeff.GeluB), l.constant(coeff.GeluC)
	x := l.clamp(l.take("R1"), l.constant(-coeff.GeluX), l.constant(coeff.GeluX))
	sq := l.mul(x, x)
	v := e.of(l.minusU2(x, sq, a, b))
	sigmoid := l.div(e.one, l.plus(e.one, v))
	slope := l.plus(l.mul(sq, c), a)
	d := l.plus(e.one, l.mul(l.mul(x, l.mul(v, sigmoid)), slope))
	l.store(l.mul(l.take("R2"), l.mul(sigmoid, d)), "R0")
	l.end("R3")
}

func quantize(f *a64.File) {
	l := begin(f, "quantize", "is quantizeGeneric: acc += x*a*b, rounded to nearest even, clamped to +-2^30, 0 for NaN.",
		a64.In("acc", "*int32", ""), a64.In("x", "*float32", ""), a64.In("n", "int", ""),
		a64.In("a", "float32", ""), a64.In("b", "float32", ""))
	v := l.mul(l.mul(l.take("R1"), all(0)), all(1))
	v = l.clamp(v, l.constant(-1<<30), l.constant(1<<30))
	l.store(l.do(a64.ADD, l.load("R0"), l.do(a64.FCVTNS, v)), "R0")
	l.end("R2")
}

func adamW(f *a64.File) {
	l := begin(f, "adamW", "is adamWGeneric; h are the scalars in the order of adamScalars.",
		a64.In("p", "*float32", ""), a64.In("m", "*float32", ""), a64.In("v", "*float32", ""),
		a64.In("q", "*int32", ""), a64.In("n", "int", ""), a64.In("h", "*float32", ""))
	const p, m, v, q, n = "R0", "R1", "R2", "R3", "R4"
	h := l.scalars("R5", 10)
	g := l.mul(l.do(a64.SCVTF, l.take(q)), h[0])
	mi := l.plus(l.mul(l.load(m), h[1]), l.mul(g, h[2]))
	l.store(mi, m)
	vi := l.plus(l.mul(l.load(v), h[3]), l.mul(l.mul(g, g), h[4]))
	l.store(vi, v)
	x := l.load(p)
	x = l.sub(x, l.mul(x, h[5]))
	root := l.do(a64.FSQRT, l.mul(vi, h[8]))
	step := l.mul(l.mul(mi, h[7]), h[6])
	l.store(l.sub(x, l.div(step, l.plus(root, h[9]))), p)
	l.end(n)
}
