package main

import "shoal/kernel/cpu/internal/a64"

// transpose8 turns 8 rows of 8*blocks elements into 8*blocks rows of 8.
func (w writer) transpose8() {
	const dst, dstStride, src, srcStride, blocks, row = "R0", "R1", "R2", "R3", "R4", "R5"
	w.Func("transpose8",
		"copies the transpose of src (8, 8*blocks) to dst (8*blocks, 8), by NEON. blocks must be at least 1.",
		a64.In("dst", "*float32", dst), a64.In("dstStride", "int", dstStride), a64.In("src", "*float32", src),
		a64.In("srcStride", "int", srcStride), a64.In("blocks", "int", blocks))
	w.Bytes(dstStride, srcStride)
	w.Label("block")
	w.Op("MOVD %s, %s", src, row)
	for i := range 8 { // row i: elements 0..3 in V(2i), 4..7 in V(2i+1)
		w.Op("FLDPQ (%s), (F%d, F%d)", row, 2*i, 2*i+1)
		w.Op("ADD %s, %s", srcStride, row)
	}
	for half := range 2 {
		w.transpose4([4]int{half, 2 + half, 4 + half, 6 + half}, 24)
		w.transpose4([4]int{8 + half, 10 + half, 12 + half, 14 + half}, 28)
		for i := range 4 {
			w.Op("FSTPQ (F%d, F%d), (%s)", 24+i, 28+i, dst)
			w.Op("ADD %s, %s", dstStride, dst)
		}
	}
	w.Op("ADD $32, %s", src)
	w.CountDown(blocks, 1, "block")
	w.Op("RET")
}

// transpose4 makes of four vectors, the rows of a matrix, its columns in out..out+3. V16 to V19 are used.
func (w writer) transpose4(rows [4]int, out int) {
	for i := 0; i < 4; i += 2 { // pairs of rows: even columns, odd columns
		w.Op("VTRN1 V%d.S4, V%d.S4, V%d.S4", rows[i+1], rows[i], 16+i)
		w.Op("VTRN2 V%d.S4, V%d.S4, V%d.S4", rows[i+1], rows[i], 17+i)
	}
	for i := range 2 {
		w.Op("VTRN1 V%d.D2, V%d.D2, V%d.D2", 18+i, 16+i, out+i)
		w.Op("VTRN2 V%d.D2, V%d.D2, V%d.D2", 18+i, 16+i, out+2+i)
	}
}
