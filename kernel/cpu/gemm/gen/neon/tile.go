package main

import (
	"fmt"

	"shoal/kernel/cpu/internal/a64"
)

// General registers of a tile. R18 belongs to some systems, R27 and R28 to Go.
const (
	steps    = "R0"
	ars, acs = "R2", "R3"
	b, brs   = "R4", "R5"
	c, ldc   = "R6", "R7"
	old      = "R9"  // whether to begin from what C holds
	at       = "R20" // the current step's distance from the first in A's rows
)

var rowsA = []string{"R1", "R10", "R11", "R12", "R13", "R14", "R15", "R19"}

// Vector registers of a tile: accumulators from V0 on, then a row of B, then elements of A, each in lane 0.
const (
	vectorB  = 24
	elementA = 28
	ahead    = 4 // so many rows' elements of A are loaded before they are used
)

// tile is a tile of rows <= 8 rows of vecs vectors: 2 or 4.
func (w writer) tile(rows, vecs int) {
	w.Func(fmt.Sprintf("tile128x%dx%d", rows, 4*vecs),
		fmt.Sprintf("continues the chains of a tile of %d rows and %d columns, by NEON.", rows, 4*vecs),
		a64.In("k", "int", steps), a64.In("a", "*float32", rowsA[0]), a64.In("ars", "int", ars), a64.In("acs", "int", acs),
		a64.In("b", "*float32", b), a64.In("brs", "int", brs), a64.In("c", "*float32", c), a64.In("ldc", "int", ldc),
		a64.In("cols", "int", ""), a64.In("load", "bool", old))
	w.Bytes(ars, acs, brs, ldc)
	for i := 1; i < rows; i++ {
		w.Op("ADD %s, %s, %s", ars, rowsA[i-1], rowsA[i])
	}
	w.Op("MOVD $0, %s", at)
	w.begin(rows, vecs)
	w.Op("CBZ %s, store", steps)
	w.Label("step")
	w.step(rows, vecs)
	w.CountDown(steps, 1, "step")
	w.Label("store")
	w.eachRow(rows, func(i int) {
		pairs(vecs, func(j, disp int) { w.Op("FSTPQ (F%d, F%d), %d(%s)", i*vecs+j, i*vecs+j+1, disp, c) })
	})
	w.Op("RET")
}

// begin sets the accumulators to what C holds, or to 0.
func (w writer) begin(rows, vecs int) {
	w.Op("CBZ %s, zero", old)
	w.Op("MOVD %s, R21", c)
	w.eachRow(rows, func(i int) {
		pairs(vecs, func(j, disp int) { w.Op("FLDPQ %d(%s), (F%d, F%d)", disp, c, i*vecs+j, i*vecs+j+1) })
	})
	w.Op("MOVD R21, %s", c)
	w.Op("B start")
	w.Label("zero")
	for v := range rows * vecs {
		w.Clear(v)
	}
	w.Label("start")
}

// eachRow calls f for each row of C; the register c goes along.
func (w writer) eachRow(rows int, f func(i int)) {
	for i := range rows {
		f(i)
		if i < rows-1 {
			w.Op("ADD %s, %s", ldc, c)
		}
	}
}

// step multiplies a column of A's rows and a row of B.
func (w writer) step(rows, vecs int) {
	element := func(i int) {
		if i < rows {
			w.Op("FMOVS (%s)(%s), F%d", rowsA[i], at, elementA+i%ahead)
		}
	}
	pairs(vecs, func(j, disp int) { w.Op("FLDPQ %d(%s), (F%d, F%d)", disp, b, vectorB+j, vectorB+j+1) })
	for i := range ahead {
		element(i)
	}
	w.Op("ADD %s, %s", brs, b)
	for i := range rows {
		for j := range vecs {
			w.Vector(a64.FMLALow, i*vecs+j, vectorB+j, elementA+i%ahead)
		}
		element(i + ahead)
	}
	w.Op("ADD %s, %s", acs, at)
}

// spin does nothing but multiply and add, on as many accumulators as the largest tile has.
func (w writer) spin() {
	const accumulators, factor = wideRows * 4, vectorB
	w.Func("spin128", fmt.Sprintf("does n times %d fused multiply-adds of whole registers. n must be at least 1.",
		accumulators), a64.In("n", "int", steps))
	for v := range accumulators + 1 {
		w.Clear(v)
	}
	w.Label("spin")
	for v := range accumulators {
		w.Vector(a64.FMLALow, v, factor, factor)
	}
	w.CountDown(steps, 1, "spin")
	w.Op("RET")
}
