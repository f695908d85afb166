package main

import (
	"fmt"
	"math"
	"slices"

	"shoal/kernel/cpu/internal/a64"
)

// vector is 8 elements in two values, which stand for registers until the loop is written. Two chains of operations side
// by side keep an in-order processor busy, too.
type vector [2]value

type value int

// loop is a function whose loop does the same to each 8 of n elements. Registers from V0 on are fixed, for what the loop
// only reads; values get the rest when it is known how long each is needed.
type loop struct {
	f     *a64.File
	fixed int
	next  value
	body  []instruction
}

// instruction is one of the loop's body. write gets the registers of the results, then those of the sources.
type instruction struct {
	results, sources []value
	write            func(regs []int)
}

const registers = 32

// begin opens a function and loads its parameters: pointers and n into R0, R1, ... in order, floats into fixed vectors.
func begin(f *a64.File, name, doc string, params ...a64.Param) *loop {
	l := &loop{f: f, next: registers}
	pointers := 0
	for i, p := range params {
		if p.Type == "float32" {
			params[i].Reg = fmt.Sprintf("F%d", l.fixed)
			l.fixed++
		} else {
			params[i].Reg = fmt.Sprintf("R%d", pointers)
			pointers++
		}
	}
	f.Func(name+"128", doc+" n is a positive multiple of 8.", params...)
	for v := range l.fixed {
		f.Op("VDUP V%d.S[0], V%d.S4", v, v)
	}
	return l
}

// all is the fixed register v for both halves.
func all(v int) vector { return vector{value(v), value(v)} }

// constant has x in all lanes.
func (l *loop) constant(x float64) vector {
	l.f.Op("MOVD $%#08x, R19 // %g", math.Float32bits(float32(x)), x)
	return l.spread("R19")
}

// integer has n in all lanes.
func (l *loop) integer(n int) vector {
	l.f.Op("MOVD $%d, R19", n)
	return l.spread("R19")
}

func (l *loop) spread(reg string) vector {
	l.f.Op("VDUP %s, V%d.S4", reg, l.fixed)
	l.fixed++
	return all(l.fixed - 1)
}

// scalars are n float32 at reg, each in all lanes.
func (l *loop) scalars(reg string, n int) []vector {
	var s []vector
	for range n {
		l.f.Op("VLD1R.P 4(%s), [V%d.S4]", reg, l.fixed)
		s = append(s, all(l.fixed))
		l.fixed++
	}
	return s
}

func (l *loop) fresh() vector {
	l.next += 2
	return vector{l.next - 2, l.next - 1}
}

// do applies a code to the halves of vectors.
func (l *loop) do(c a64.Code, x vector, y ...vector) vector {
	to := l.fresh()
	for h := range to {
		sources := []value{x[h]}
		for _, v := range y {
			sources = append(sources, v[h])
		}
		l.body = append(l.body, instruction{[]value{to[h]}, sources, func(r []int) { l.f.Vector(c, r[0], r[1], r[2:]...) }})
	}
	return to
}

func (l *loop) plus(x, y vector) vector { return l.do(a64.FADD, x, y) }
func (l *loop) sub(x, y vector) vector  { return l.do(a64.FSUB, x, y) }
func (l *loop) mul(x, y vector) vector  { return l.do(a64.FMUL, x, y) }
func (l *loop) div(x, y vector) vector  { return l.do(a64.FDIV, x, y) }

// clamp leaves NaN as it is.
func (l *loop) clamp(x, lo, hi vector) vector { return l.do(a64.FMAX, l.do(a64.FMIN, x, hi), lo) }

// load reads the vector that reg points to.
func (l *loop) load(reg string) vector {
	to := l.fresh()
	l.body = append(l.body, instruction{to[:], nil, func(r []int) { l.f.Op("FLDPQ (%s), (F%d, F%d)", reg, r[0], r[1]) }})
	return to
}

// take is load, and goes on to the next vector; so does store.
func (l *loop) take(reg string) vector {
	to := l.fresh()
	l.body = append(l.body, instruction{to[:], nil, func(r []int) { l.f.Op("FLDPQ.P 32(%s), (F%d, F%d)", reg, r[0], r[1]) }})
	return to
}

func (l *loop) store(v vector, reg string) {
	l.body = append(l.body, instruction{nil, v[:], func(r []int) { l.f.Op("FSTPQ.P (F%d, F%d), 32(%s)", r[0], r[1], reg) }})
}

// end writes the loop, for as many elements as the register n says.
func (l *loop) end(n string) {
	last := map[value]int{} // where each value is needed for the last time
	for i, in := range l.body {
		for _, v := range in.sources {
			last[v] = i
		}
	}
	var free []int
	for r := registers - 1; r >= l.fixed; r-- {
		free = append(free, r)
	}
	at := map[value]int{}
	reg := func(v value) int {
		if v < registers {
			return int(v)
		}
		return at[v]
	}
	l.f.Label("loop")
	for i, in := range l.body {
		var sources, results []int
		for _, v := range in.sources {
			sources = append(sources, reg(v))
			if v >= registers && last[v] == i && !slices.Contains(free, at[v]) {
				free = append(free, at[v])
			}
		}
		for _, v := range in.results {
			at[v] = free[len(free)-1] // panics where a loop needs more registers than there are
			free = free[:len(free)-1]
			results = append(results, at[v])
		}
		in.write(append(results, sources...))
	}
	l.f.CountDown(n, 8, "loop")
	l.f.Op("RET")
}
