package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quad is four rows of 17 to 20 elements side by side, as attention over 4 x 4 patches and a class has them. Five registers hold
// them, in this order: the first 16 elements of each row, and the tails of all, four lanes for each row. Their exponentials are five
// then, not eight. It needs AVX-512.
type quad struct {
	s     *set
	tails [4]reg.OpmaskVirtual // the lanes of each row's tail; those of the first row are also where it meets the row's lanes
	ld3   reg.GPVirtual
}

// quads calls body for four rows at a time, as many as there are, if rows are alike and of such a length. The others are left:
// without any the function returns.
func (s *set) quads(rows, n, grow reg.GPVirtual, body func(q *quad)) {
	if !s.zmm {
		return
	}
	const least, most = 17, 20
	tail := GP64()
	LEAQ(Mem{Base: n, Disp: -least}, tail)
	CMPQ(tail, Imm(most-least))
	JHI(LabelRef("single"))
	TESTQ(grow, grow)
	JNZ(LabelRef("single"))
	SUBQ(Imm(4), rows)
	JLT(LabelRef("few"))
	q := &quad{s: s, ld3: GP64()}
	ld := Load(Param("ld"), GP64()).(reg.GPVirtual)
	LEAQ(Mem{Base: ld, Index: ld, Scale: 2}, q.ld3)
	SHLQ(Imm(2), q.ld3)
	ones := GP64()
	LEAQ(Mem{Base: tail, Disp: 1}, reg.RCX)
	MOVQ(I32(1), ones)
	SHLQ(reg.CL, ones)
	DECQ(ones)
	for i := range q.tails {
		q.tails[i] = K()
		KMOVW(ones.As32(), q.tails[i])
		SHLQ(Imm(4), ones)
	}
	Label("quad")
	body(q)
	SUBQ(Imm(4), rows)
	JGE(LabelRef("quad"))
	Label("few")
	ADDQ(Imm(4), rows)
	JNZ(LabelRef("single"))
	s.end()
	Label("single")
}

// rows are where the rows begin, the first at p.
func (q *quad) rows(p, ld reg.GPVirtual) [4]Mem {
	return [4]Mem{{Base: p}, {Base: p, Index: ld, Scale: 1}, {Base: p, Index: ld, Scale: 2}, {Base: p, Index: q.ld3, Scale: 1}}
}

func (q *quad) goOn(ld reg.GPVirtual, pointers ...reg.GPVirtual) {
	for _, p := range pointers {
		LEAQ(Mem{Base: p, Index: ld, Scale: 4}, p)
	}
}

func (q *quad) load(p, ld reg.GPVirtual) vector {
	x := q.s.registers(5)
	for i, row := range q.rows(p, ld) {
		VMOVUPS(row, x[i])
		if i == 0 {
			VBROADCASTF32X4_Z(row.Offset(64), q.tails[i], x[4])
		} else {
			VBROADCASTF32X4(row.Offset(64), q.tails[i], x[4])
		}
	}
	return x
}

func (q *quad) store(x vector, p, ld reg.GPVirtual) {
	for i, row := range q.rows(p, ld) {
		VMOVUPS(x[i], row)
		VEXTRACTF32X4(Imm(uint64(i)), x[4], q.tails[0], row.Offset(64))
	}
}

// withTails applies op to each row's vector of v and the row's tail, in the lanes that the tail has.
func (q *quad) withTails(v, x vector, op func(tail, v reg.VecVirtual, lanes reg.OpmaskVirtual)) {
	for i, row := range v {
		tail := x[4]
		if i > 0 {
			tail = q.quarters(uint64(i), x[4], x[4])
		}
		op(tail, row, q.tails[0])
	}
}

// quarters takes two quarters of a, then two of b, by their numbers, two bits each.
func (q *quad) quarters(numbers uint64, a, b reg.VecVirtual) reg.VecVirtual {
	v := ZMM()
	VSHUFF32X4(Imm(numbers), b, a, v)
	return v
}

// fold4 is fold of four vectors at once. The first lane of each quarter has a result.
func (s *set) fold4(v vector, op func(high, low, to Op)) reg.VecVirtual {
	halve := func(low, high uint64, a, b reg.VecVirtual) reg.VecVirtual {
		l, h := ZMM(), ZMM()
		VSHUFF32X4(Imm(low), b, a, l)
		VSHUFF32X4(Imm(high), b, a, h)
		op(h, l, l)
		return l
	}
	x := halve(0b10_00_10_00, 0b11_01_11_01, halve(0b01_00_01_00, 0b11_10_11_10, v[0], v[1]), halve(0b01_00_01_00, 0b11_10_11_10, v[2], v[3]))
	for _, order := range []uint64{0b1110, 0b01} {
		high := ZMM()
		VPERMILPS(Imm(order), x, high)
		op(high, x, x)
	}
	return x
}

// spread makes of the first lanes of x's quarters an operand for all elements: one number for each row.
func (q *quad) spread(x reg.VecVirtual) vector {
	all := ZMM()
	VPERMILPS(Imm(0), x, all)
	var v vector
	for i := range uint64(4) {
		v = append(v, q.quarters(i*0b01_01_01_01, all, all))
	}
	return append(v, all)
}

// each is spread of four numbers in memory, the first at p, so many bytes apart.
func (q *quad) each(p Mem, apart int) vector {
	var v vector
	for i := range 4 {
		v = append(v, q.s.spread(p.Offset(apart*i))...)
	}
	return append(v, q.quarterly(p, apart))
}

// quarterly has one of four numbers in memory in the lanes of each tail.
func (q *quad) quarterly(p Mem, apart int) reg.VecVirtual {
	v := ZMM()
	VBROADCASTSS_Z(p, q.tails[0], v)
	for i, k := range q.tails[1:] {
		VBROADCASTSS(p.Offset(apart*(i+1)), k, v)
	}
	return v
}

// storeStats writes each row's maximum and sum, which the first lanes of the quarters have.
func (q *quad) storeStats(maxima vector, sums reg.VecVirtual, stats reg.GPVirtual) {
	pairs := ZMM()
	VUNPCKLPS(sums, maxima[4], pairs)
	for i := range 4 {
		pair := pairs
		if i > 0 {
			pair = q.quarters(uint64(i), pairs, pairs)
		}
		VMOVLPS(pair.AsX(), Mem{Base: stats, Disp: 8 * i})
	}
}
