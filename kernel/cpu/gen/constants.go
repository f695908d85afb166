package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// constants is a table of float32 or int32, each repeated 16 times, so that instructions take them from memory.
type constants struct {
	index map[uint32]int
	order []uint32
}

const tableName, masksName = "constants", "masks"

var table = constants{index: map[uint32]int{}}

func (c *constants) bits(u uint32) Mem {
	i, ok := c.index[u]
	if !ok {
		i = len(c.order)
		c.index[u] = i
		c.order = append(c.order, u)
	}
	return NewDataAddr(NewStaticSymbol(tableName), i*64)
}

func (c *constants) emit() {
	GLOBL(tableName, RODATA|NOPTR)
	for i, u := range c.order {
		for j := range 16 {
			DATA(i*64+j*4, U32(u))
		}
	}
}

// masks is 16 words of ones, then 16 of zeros: 16 words from 16-n on are the mask of n elements.
func masks() {
	GLOBL(masksName, RODATA|NOPTR)
	for j := range 32 {
		ones := uint32(0)
		if j < 16 {
			ones = math.MaxUint32
		}
		DATA(j*4, U32(ones))
	}
}

// f is the float32 constant x, i the int32 constant n.
func f(x float64) Mem { return table.bits(math.Float32bits(float32(x))) }
func i(n int32) Mem   { return table.bits(uint32(n)) }
