// Command gen writes the assembly of kernel/cpu/gemm: tiles by AVX-512 and AVX2 with FMA, a transposition and a copy.
// kernel/cpu/gemm/generate.sh runs it.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	// With two vectors per row a loaded element of A serves two multiplications; 24 accumulators of 32 registers.
	wideRows512 = 12
	// With one vector per row, as many rows as an attention block of 16 positions has.
	narrowRows512 = 16
	rows256       = 6 // 12 accumulators of 16 registers
)

func main() {
	ConstraintExpr("!noasm")
	for rows := 1; rows <= wideRows512; rows++ {
		tile512(rows, 2)
	}
	for rows := 1; rows <= narrowRows512; rows++ {
		tile512(rows, 1)
	}
	iota8()
	for rows := 1; rows <= rows256; rows++ {
		tile256(rows, 2)
	}
	for rows := 1; rows <= rows256; rows++ {
		tile256(rows, 1)
	}
	transpose8()
	copy16()
	spin("spin512", wideRows512*2, func() reg.VecVirtual { return ZMM() }, func(v reg.VecVirtual) { VPXORD(v, v, v) })
	spin("spin256", rows256*2, func() reg.VecVirtual { return YMM() }, func(v reg.VecVirtual) { VXORPS(v, v, v) })
	Generate()
}

const tileSignature = "func(k int, a *float32, ars, acs int, b *float32, brs int, c *float32, ldc, cols int, load bool)"

// tile is what the tiles of both instruction sets share: parameters, pointers and the order of the loop.
type tile struct {
	rows, vecs int
	bytes      int // of a vector
	acc        [][]reg.VecVirtual

	a          []reg.GPVirtual // one pointer for each four rows of A
	ars, ars3  reg.GPVirtual   // once and three times the distance of A's rows, in bytes
	acs, acs5  reg.GPVirtual   // once and five times the distance of A's columns
	b, brs     reg.GPVirtual
	c, ldc, k  reg.GPVirtual
	vec        func() reg.VecVirtual
	clear      func(v reg.VecVirtual)
	loadC      func(j int, from Mem, v reg.VecVirtual)
	storeC     func(j int, v reg.VecVirtual, to Mem)
	accumulate func(t *tile)
}

func load(param string, bytes bool) reg.GPVirtual {
	r := Load(Param(param), GP64()).(reg.GPVirtual)
	if bytes {
		SHLQ(Imm(2), r)
	}
	return r
}

// begin opens the function and loads the parameters, except cols.
func (t *tile) begin(name, doc string) {
	TEXT(name, NOSPLIT, tileSignature)
	Pragma("noescape")
	Doc(fmt.Sprintf("%s continues the chains of a tile of %d rows and %s.", name, t.rows, doc))
	t.k = load("k", false)
	t.ars, t.acs = load("ars", true), load("acs", true)
	t.a = []reg.GPVirtual{load("a", false)}
	for i := 4; i < t.rows; i += 4 {
		next := GP64()
		LEAQ(Mem{Base: t.a[len(t.a)-1], Index: t.ars, Scale: 4}, next)
		t.a = append(t.a, next)
	}
	t.ars3, t.acs5 = GP64(), GP64()
	LEAQ(Mem{Base: t.ars, Index: t.ars, Scale: 2}, t.ars3)
	LEAQ(Mem{Base: t.acs, Index: t.acs, Scale: 4}, t.acs5)
	t.b, t.brs = load("b", false), load("brs", true)
	t.c, t.ldc = load("c", false), load("ldc", true)
}

// rowA is the address of A's element in row i of the tile at the current step.
func (t *tile) rowA(i int) Mem {
	m := Mem{Base: t.a[i/4]}
	switch i % 4 {
	case 1:
		m.Index, m.Scale = t.ars, 1
	case 2:
		m.Index, m.Scale = t.ars, 2
	case 3:
		m.Index, m.Scale = t.ars3, 1
	}
	return m
}

// eachC calls f for every vector of the tile of C, row by row.
func (t *tile) eachC(f func(i, j int, at Mem)) {
	row := GP64()
	MOVQ(t.c, row)
	for i := range t.rows {
		for j := range t.vecs {
			f(i, j, Mem{Base: row, Disp: j * t.bytes})
		}
		if i < t.rows-1 {
			ADDQ(t.ldc, row)
		}
	}
}

// ahead has the tile below this one fetched, which comes next: its old values would be waited for, or its stores.
func (t *tile) ahead() {
	row := GP64()
	IMUL3Q(Imm(uint64(t.rows)), t.ldc, row)
	ADDQ(t.c, row)
	for i := range t.rows {
		for at := 0; at < t.vecs*t.bytes; at += 64 {
			PREFETCHT1(Mem{Base: row, Disp: at})
		}
		if i < t.rows-1 {
			ADDQ(t.ldc, row)
		}
	}
}

// aheadA has fetched what this tile needs of A twenty steps later, and the tile below eight steps later, if A is stored by columns:
// they may be pages apart, where no processor expects the next one to be.
func (t *tile) aheadA() {
	const least = 6 // rows; a lower tile has nothing below it that is worth it
	if t.rows >= least {
		PREFETCHT0(Mem{Base: t.a[0], Index: t.acs5, Scale: 4, Disp: 4*t.rows - 4})
		PREFETCHT1(Mem{Base: t.a[0], Index: t.acs, Scale: 8, Disp: 4 * t.rows})
	}
}

// body emits the rest of the function: old values or 0, the steps of k, the stores.
func (t *tile) body() {
	for range t.rows {
		var row []reg.VecVirtual
		for range t.vecs {
			row = append(row, t.vec())
		}
		t.acc = append(t.acc, row)
	}
	flag := Load(Param("load"), GP8())
	TESTB(flag, flag)
	JZ(LabelRef("zero"))
	t.eachC(func(i, j int, at Mem) { t.loadC(j, at, t.acc[i][j]) })
	JMP(LabelRef("start"))
	Label("zero")
	for _, row := range t.acc {
		for _, v := range row {
			t.clear(v)
		}
	}
	Label("start")
	t.ahead()
	TESTQ(t.k, t.k)
	JZ(LabelRef("store"))
	Label("step")
	t.accumulate(t)
	t.aheadA()
	for _, p := range t.a {
		ADDQ(t.acs, p)
	}
	ADDQ(t.brs, t.b)
	DECQ(t.k)
	JNZ(LabelRef("step"))
	Label("store")
	t.eachC(func(i, j int, at Mem) { t.storeC(j, t.acc[i][j], at) })
	VZEROUPPER()
	RET()
}

// tile512 is a tile of 16*vecs columns, the last 16 of which may be partly masked.
func tile512(rows, vecs int) {
	t := &tile{rows: rows, vecs: vecs, bytes: 64}
	t.begin(fmt.Sprintf("tile512x%dx%d", rows, 16*vecs), fmt.Sprintf("cols <= %d columns, by AVX-512", 16*vecs))
	mask := GP64()
	Load(Param("cols"), reg.RCX)
	MOVQ(I32(1), mask)
	SHLQ(reg.CL, mask)
	DECQ(mask)
	var masks []reg.OpmaskVirtual
	for range vecs {
		m := K()
		KMOVW(mask.As32(), m)
		SHRQ(Imm(16), mask)
		masks = append(masks, m)
	}
	t.vec = func() reg.VecVirtual { return ZMM() }
	t.clear = func(v reg.VecVirtual) { VPXORD(v, v, v) }
	t.loadC = func(j int, from Mem, v reg.VecVirtual) { VMOVUPS_Z(from, masks[j], v) }
	t.storeC = func(j int, v reg.VecVirtual, to Mem) { VMOVUPS(v, masks[j], to) }
	t.accumulate = func(t *tile) {
		var b []reg.VecVirtual
		for j := range vecs {
			b = append(b, ZMM())
			VMOVUPS_Z(Mem{Base: t.b, Disp: j * t.bytes}, masks[j], b[j])
		}
		for i, row := range t.acc {
			if vecs == 1 {
				VFMADD231PS_BCST(t.rowA(i), b[0], row[0])
				continue
			}
			a := ZMM()
			VBROADCASTSS(t.rowA(i), a)
			for j := range row {
				VFMADD231PS(a, b[j], row[j])
			}
		}
	}
	t.body()
}

// iota8 is the constant 0..7, from which AVX2 makes its masks.
func iota8() {
	GLOBL("iota8", RODATA|NOPTR)
	for i := range 8 {
		DATA(4*i, U32(i))
	}
}

// tile256 is a tile of 16 whole columns (vecs 2) or of 1 to 8 columns (vecs 1).
func tile256(rows, vecs int) {
	t := &tile{rows: rows, vecs: vecs, bytes: 32}
	doc := "16 columns, by AVX2 and FMA"
	if vecs == 1 {
		doc = "cols <= 8 columns, by AVX2 and FMA"
	}
	t.begin(fmt.Sprintf("tile256x%dx%d", rows, 8*vecs), doc)
	t.vec = func() reg.VecVirtual { return YMM() }
	t.clear = func(v reg.VecVirtual) { VXORPS(v, v, v) }
	move := func(j int, from Mem, v reg.VecVirtual) { VMOVUPS(from, v) }
	t.loadC = move
	t.storeC = func(j int, v reg.VecVirtual, to Mem) { VMOVUPS(v, to) }
	if vecs == 1 {
		mask, x := YMM(), XMM()
		MOVQ(load("cols", false), x)
		VPBROADCASTD(x, mask)
		VPCMPGTD(NewDataAddr(NewStaticSymbol("iota8"), 0), mask, mask)
		move = func(j int, from Mem, v reg.VecVirtual) { VMASKMOVPS(from, mask, v) }
		t.loadC = move
		t.storeC = func(j int, v reg.VecVirtual, to Mem) { VMASKMOVPS(v, mask, to) }
	}
	t.accumulate = func(t *tile) {
		var b []reg.VecVirtual
		for j := range vecs {
			b = append(b, YMM())
			move(j, Mem{Base: t.b, Disp: j * t.bytes}, b[j])
		}
		for i, row := range t.acc {
			a := YMM()
			VBROADCASTSS(t.rowA(i), a)
			for j := range row {
				VFMADD231PS(a, b[j], row[j])
			}
		}
	}
	t.body()
}

// spin does nothing but multiply and add, on as many accumulators as the largest tile has.
func spin(name string, accumulators int, vec func() reg.VecVirtual, clear func(v reg.VecVirtual)) {
	TEXT(name, NOSPLIT, "func(n int)")
	Doc(fmt.Sprintf("%s does n times %d fused multiply-adds of whole registers. n must be at least 1.", name, accumulators))
	n := load("n", false)
	factor := vec()
	clear(factor)
	var acc []reg.VecVirtual
	for range accumulators {
		v := vec()
		clear(v)
		acc = append(acc, v)
	}
	Label("spin")
	for _, v := range acc {
		VFMADD231PS(factor, factor, v)
	}
	DECQ(n)
	JNZ(LabelRef("spin"))
	VZEROUPPER()
	RET()
}

// copy16 copies rows of 16*blocks elements.
func copy16() {
	TEXT("copy16", NOSPLIT, "func(dst *float32, dstStride int, src *float32, srcStride int, rows, blocks int)")
	Pragma("noescape")
	Doc("copy16 copies src (rows, 16*blocks) to dst, by AVX2. rows and blocks must be at least 1.")
	dst, dstStride := load("dst", false), load("dstStride", true)
	src, srcStride := load("src", false), load("srcStride", true)
	rows, blocks := load("rows", false), load("blocks", false)
	SHLQ(Imm(6), blocks) // bytes of a row
	distance := GP64()
	Comment("Rows that are far apart no processor fetches by itself.")
	LEAQ(Mem{Base: srcStride, Index: srcStride, Scale: 8}, distance)
	at, next := GP64(), GP64()
	Label("row")
	LEAQ(Mem{Base: src, Index: distance, Scale: 1}, next)
	XORQ(at, at)
	Label("block")
	low, high := YMM(), YMM()
	PREFETCHT0(Mem{Base: next, Index: at, Scale: 1})
	VMOVUPS(Mem{Base: src, Index: at, Scale: 1}, low)
	VMOVUPS(Mem{Base: src, Index: at, Scale: 1, Disp: 32}, high)
	VMOVUPS(low, Mem{Base: dst, Index: at, Scale: 1})
	VMOVUPS(high, Mem{Base: dst, Index: at, Scale: 1, Disp: 32})
	ADDQ(Imm(64), at)
	CMPQ(at, blocks)
	JNE(LabelRef("block"))
	ADDQ(srcStride, src)
	ADDQ(dstStride, dst)
	DECQ(rows)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// transpose8 turns 8 rows of 8*blocks elements into 8*blocks rows of 8.
func transpose8() {
	TEXT("transpose8", NOSPLIT, "func(dst *float32, dstStride int, src *float32, srcStride int, blocks int)")
	Pragma("noescape")
	Doc("transpose8 copies the transpose of src (8, 8*blocks) to dst (8*blocks, 8), by AVX2. blocks must be at least 1.")
	dst, dstStride := load("dst", false), load("dstStride", true)
	src, srcStride := load("src", false), load("srcStride", true)
	blocks := load("blocks", false)
	dst3, src3 := GP64(), GP64()
	LEAQ(Mem{Base: dstStride, Index: dstStride, Scale: 2}, dst3)
	LEAQ(Mem{Base: srcStride, Index: srcStride, Scale: 2}, src3)
	rows := func(base, base4, stride, stride3 reg.Register) []Mem {
		var m []Mem
		for _, b := range []reg.Register{base, base4} {
			m = append(m, Mem{Base: b}, Mem{Base: b, Index: stride, Scale: 1}, Mem{Base: b, Index: stride, Scale: 2},
				Mem{Base: b, Index: stride3, Scale: 1})
		}
		return m
	}
	base4 := GP64()
	Label("block")
	LEAQ(Mem{Base: src, Index: srcStride, Scale: 4}, base4)
	from := rows(src, base4, srcStride, src3)
	// half[i]: elements 0..3 of row i below those of row i+4; half[i+4]: elements 4..7.
	var half [8]reg.VecVirtual
	for i := range 4 {
		for h := range 2 {
			v := YMM()
			low, high := from[i], from[i+4]
			low.Disp, high.Disp = 16*h, 16*h
			VMOVUPS(low, v.AsX())
			VINSERTF128(Imm(1), high, v, v)
			half[i+4*h] = v
		}
	}
	// 4x4 transpositions within the 128-bit lanes.
	var out []reg.VecVirtual
	for h := 0; h < 8; h += 4 {
		t0, t1, t2, t3 := YMM(), YMM(), YMM(), YMM()
		VUNPCKLPS(half[h+1], half[h], t0)
		VUNPCKHPS(half[h+1], half[h], t1)
		VUNPCKLPS(half[h+3], half[h+2], t2)
		VUNPCKHPS(half[h+3], half[h+2], t3)
		for _, pair := range [][2]reg.VecVirtual{{t0, t2}, {t1, t3}} {
			low, high := YMM(), YMM()
			VUNPCKLPD(pair[1], pair[0], low)
			VUNPCKHPD(pair[1], pair[0], high)
			out = append(out, low, high)
		}
	}
	LEAQ(Mem{Base: dst, Index: dstStride, Scale: 4}, base4)
	for i, to := range rows(dst, base4, dstStride, dst3) {
		VMOVUPS(out[i], to)
	}
	ADDQ(Imm(32), src)
	LEAQ(Mem{Base: dst, Index: dstStride, Scale: 8}, dst)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}
