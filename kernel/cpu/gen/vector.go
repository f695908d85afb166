package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vector is 16 float32: one register of AVX-512 or two of AVX2. They are also the 16 lanes of a row reduction. What works on
// its registers one by one takes more of them, too: so many vectors side by side.
type vector []reg.VecVirtual

// set is an instruction set.
type set struct {
	name   string
	zmm    bool
	labels int // numbers the loops of a function

	j, left reg.GPVirtual // byte offset in a row, and elements left, of the innermost loop
}

// mask says which elements of the last, partial vector exist: nil means all.
type mask struct {
	k      reg.OpmaskVirtual // AVX-512
	halves vector            // AVX2
}

func (s *set) vec() vector {
	if s.zmm {
		return vector{ZMM()}
	}
	return vector{YMM(), YMM()}
}

// registers are n new ones.
func (s *set) registers(n int) (v vector) {
	for range n {
		v = append(v, s.vec()[0])
	}
	return v
}

// bytes is the size of a register.
func (s *set) bytes() int {
	if s.zmm {
		return 64
	}
	return 32
}

// half is the part of operand b, a vector or a constant of the table, that belongs to the h-th register of a vector. A shorter
// vector serves again for each of those that are side by side.
func half(b any, h int) Op {
	switch b := b.(type) {
	case vector:
		return b[h%len(b)]
	case Mem:
		return b
	}
	panic(fmt.Sprintf("no operand: %T", b))
}

// each applies a three-operand instruction: the result is a new vector, b is a vector or a constant.
func (s *set) each(op func(...Op), a vector, b any) vector {
	n := len(a)
	if b, ok := b.(vector); ok {
		n = max(n, len(b))
	}
	v := s.registers(n)
	for h := range v {
		op(half(b, h), half(a, h), v[h])
	}
	return v
}

func (s *set) mul(a vector, b any) vector  { return s.each(VMULPS, a, b) }
func (s *set) plus(a vector, b any) vector { return s.each(VADDPS, a, b) }
func (s *set) sub(a vector, b any) vector  { return s.each(VSUBPS, a, b) }
func (s *set) div(a vector, b any) vector  { return s.each(VDIVPS, a, b) }

// minusProduct makes x - a*b of x, where a*b is exact: then it is the same in one rounding.
func (s *set) minusProduct(x, a vector, b any) vector {
	for h := range x {
		VFNMADD231PS(half(b, h), a[h], x[h])
	}
	return x
}

// above is "if x < lo { x = lo }", below "if x > hi { x = hi }", greater "if x > m { m = x }". Where there is no order,
// VMAXPS and VMINPS return their second source: so NaN in x stays in the first two and is passed over in the third.
func (s *set) above(x, lo vector) vector  { return s.each(VMAXPS, lo, x) }
func (s *set) below(x, hi vector) vector  { return s.each(VMINPS, hi, x) }
func (s *set) greater(m, x vector) vector { return s.each(VMAXPS, x, m) }

// addTo is acc += x, for each of the vectors that x has side by side; move is dst = src.
func (s *set) addTo(acc, x vector) {
	for h := range x {
		to := acc[h%len(acc)]
		VADDPS(x[h], to, to)
	}
}

func (s *set) move(dst vector, src any) {
	for h := range dst {
		VMOVUPS(half(src, h), dst[h])
	}
}

func (s *set) negate(x vector) vector {
	if s.zmm {
		return s.each(VPXORD, x, i(math.MinInt32))
	}
	return s.each(func(o ...Op) { VPXOR(o[0], o[1], o[2]) }, x, i(math.MinInt32))
}

// load reads a vector; elements that the mask excludes are 0 and not touched in memory.
func (s *set) load(from Mem, m *mask) vector { return s.loads(1, from, m) }

// loads reads so many vectors.
func (s *set) loads(vectors int, from Mem, m *mask) vector {
	v := s.registers(vectors * len(s.vec()))
	for h := range v {
		switch at := from.Offset(s.bytes() * h); {
		case m == nil:
			VMOVUPS(at, v[h])
		case s.zmm:
			VMOVUPS_Z(at, m.k, v[h])
		default:
			VMASKMOVPS(at, m.halves[h], v[h])
		}
	}
	return v
}

func (s *set) store(v vector, to Mem, m *mask) {
	for h := range v {
		switch at := to.Offset(s.bytes() * h); {
		case m == nil:
			VMOVUPS(v[h], at)
		case s.zmm:
			VMOVUPS(v[h], m.k, at)
		default:
			VMASKMOVPS(v[h], m.halves[h], at)
		}
	}
}

// keep is x where the mask has elements, other elsewhere.
func (s *set) keep(x, other vector, m *mask) vector {
	if m == nil {
		return x
	}
	v := s.vec()
	for h := range v {
		if s.zmm {
			VBLENDMPS(x[h], other[h], m.k, v[h])
		} else {
			VBLENDVPS(m.halves[h], x[h], other[h], v[h])
		}
	}
	return v
}

// exists is x where the mask has elements, 0 elsewhere.
func (s *set) exists(x vector, m *mask) vector {
	if m == nil {
		return x
	}
	v := s.vec()
	for h := range v {
		if s.zmm {
			VMOVUPS_Z(x[h], m.k, v[h])
		} else {
			VANDPS(m.halves[h], x[h], v[h])
		}
	}
	return v
}

// Comparisons, as VCMPPS numbers them. Only unordered, notBelow and notBelowOrEqual are true of NaN.
const (
	equal           = 0
	unordered       = 3
	notBelow        = 5
	notBelowOrEqual = 6
	ordered         = 7
	above           = 30
)

// where is x where a compares so with b, other elsewhere.
func (s *set) where(a vector, compare uint64, b, x, other vector) vector {
	v := s.vec()
	for h := range v {
		if s.zmm {
			k := K()
			VCMPPS(Imm(compare), b[h], a[h], k)
			VBLENDMPS(x[h], other[h], k, v[h])
		} else {
			k := YMM()
			VCMPPS(Imm(compare), b[h], a[h], k)
			VBLENDVPS(k, x[h], other[h], v[h])
		}
	}
	return v
}

// constant keeps a constant in a register, which both halves share. zeros is a new accumulator.
func (s *set) constant(m Mem) vector {
	if s.zmm {
		return s.load(m, nil)
	}
	y := YMM()
	VMOVUPS(m, y)
	return vector{y, y}
}

func (s *set) zeros() vector {
	v := s.vec()
	s.move(v, f(0))
	return v
}

// spread copies one float32, in memory or in the low lane of a register, to all lanes.
func (s *set) spread(from Op) vector {
	if s.zmm {
		z := ZMM()
		VBROADCASTSS(from, z)
		return vector{z}
	}
	y := YMM()
	VBROADCASTSS(from, y)
	return vector{y, y}
}

// fold reduces the lanes by the tree 16 -> 8 -> 4 -> 2 -> 1 with op(high, low, result).
func (s *set) fold(v vector, op func(high, low, to Op)) reg.VecVirtual {
	y, x := YMM(), XMM()
	if s.zmm {
		VEXTRACTF64X4(Imm(1), v[0], y)
		op(y, v[0].AsY(), y)
	} else {
		op(v[1], v[0], y)
	}
	VEXTRACTF128(Imm(1), y, x)
	op(x, y.AsX(), x)
	for _, order := range []uint64{0b1110, 0b01} {
		high := XMM()
		VPERMILPS(Imm(order), x, high)
		op(high, x, x)
	}
	return x
}

func sum(high, low, to Op)     { VADDPS(high, low, to) }
func maximum(high, low, to Op) { VMAXPS(low, high, to) }

// begin opens a function and returns its parameters that are pointers or integers.
func (s *set) begin(name, signature, doc string, params ...string) []reg.GPVirtual {
	TEXT(name+s.name, NOSPLIT, "func"+signature)
	Pragma("noescape")
	Doc(fmt.Sprintf("%s%s is %sGeneric: %s", name, s.name, name, doc))
	var regs []reg.GPVirtual
	for _, q := range params {
		regs = append(regs, Load(Param(q), GP64()).(reg.GPVirtual))
	}
	s.j, s.left, s.labels = GP64(), GP64(), 0
	return regs
}

func (s *set) end() {
	VZEROUPPER()
	RET()
}

// param is a float32 parameter in all lanes.
func (s *set) param(name string) vector { return s.spread(paramAddr(name)) }

func paramAddr(name string) Mem {
	p, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return p.Addr
}

// row calls body for each vector of a row of n elements, and once with a mask if n is not a multiple of 16; s.j is the
// offset of the vector.
func (s *set) row(n reg.GPVirtual, body func(m *mask)) {
	s.rowBy(n, 1, func(_ int, m *mask) { body(m) })
}

// rowBy is row, but with so many vectors in a call of body as long as there are as many whole ones, then with one.
func (s *set) rowBy(n reg.GPVirtual, many int, body func(vectors int, m *mask)) {
	s.labels++
	label := func(name string) string { return fmt.Sprintf("%s%d", name, s.labels) }
	done, tail := label("done"), label("tail")
	XORQ(s.j, s.j)
	MOVQ(n, s.left)
	for vectors := many; vectors > 0; vectors /= 2 {
		loop, next := label(fmt.Sprintf("vectors%d", vectors)+"x"), tail
		if vectors > 1 {
			next = label(fmt.Sprintf("fewer%dx", vectors))
		}
		SUBQ(Imm(uint64(16*vectors)), s.left)
		JLT(LabelRef(next))
		Label(loop)
		body(vectors, nil)
		ADDQ(U32(uint32(64*vectors)), s.j) // Imm would take 16 bits for 256 and more, and ADDQ does not
		SUBQ(Imm(uint64(16*vectors)), s.left)
		JGE(LabelRef(loop))
		Label(next)
		ADDQ(Imm(uint64(16*vectors)), s.left)
	}
	JZ(LabelRef(done))
	body(1, s.mask())
	Label(done)
}

// rowWide is rowBy where there are registers for it, and otherwise row: so that an exponential, which is a long chain, need not wait
// for itself.
func (s *set) rowWide(n reg.GPVirtual, many int, body func(vectors int, m *mask)) {
	if !s.zmm {
		many = 1
	}
	s.rowBy(n, many, body)
}

// wholes calls body for each vector of n elements, a positive multiple of 16.
func (s *set) wholes(n reg.GPVirtual, body func()) {
	s.labels++
	loop := fmt.Sprintf("wholes%d", s.labels)
	XORQ(s.j, s.j)
	Label(loop)
	body()
	ADDQ(Imm(64), s.j)
	SUBQ(Imm(16), n)
	JNZ(LabelRef(loop))
}

// mask covers s.left elements.
func (s *set) mask() *mask {
	at := GP64()
	LEAQ(NewDataAddr(NewStaticSymbol(masksName), 64), at)
	SHLQ(Imm(2), s.left)
	SUBQ(s.left, at)
	if s.zmm {
		z, k := ZMM(), K()
		VMOVDQU32(Mem{Base: at}, z)
		VPTESTMD(z, z, k)
		return &mask{k: k}
	}
	return &mask{halves: s.load(Mem{Base: at}, nil)}
}

// at is the current vector of the row that p points to.
func (s *set) at(p reg.GPVirtual) Mem { return Mem{Base: p, Index: s.j, Scale: 1} }

// times calls body count times; count is used up. count must be positive.
func (s *set) times(count reg.GPVirtual, body func()) {
	s.labels++
	loop := fmt.Sprintf("rows%d", s.labels)
	Label(loop)
	body()
	DECQ(count)
	JNZ(LabelRef(loop))
}
