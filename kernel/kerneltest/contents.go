package kerneltest

import (
	"encoding/binary"
	"fmt"
	"math"

	"shoal/kernel"
)

// contents is what a buffer holds, as little-endian bytes.
type contents struct {
	t     kernel.DType
	n     int
	bytes []byte
}

// hostData is x (a call's datum) with guards around it. The guards are the same everywhere, an output's garbage is not.
func hostData(x any, garbage byte) contents {
	var c contents
	switch x := x.(type) {
	case []float32:
		c = contents{kernel.F32, len(x), kernel.Bytes(x)}
	case []int32:
		c = contents{kernel.I32, len(x), kernel.Bytes(x)}
	case []uint16:
		c = contents{kernel.BF16, len(x), kernel.Bytes(x)}
	case output:
		c = contents{x.t, x.n, fill(x.n*x.t.Size(), garbage)}
	default:
		panic(fmt.Sprintf("kerneltest: no buffer can hold a %T", x))
	}
	edge := fill(guard*c.t.Size(), 0x5a)
	return contents{c.t, c.n + 2*guard, append(append(edge[:len(edge):len(edge)], c.bytes...), edge...)}
}

func fill(n int, b byte) []byte {
	s := make([]byte, n)
	for i := range s {
		s[i] = b
	}
	return s
}

// differ is the first element at which a and b differ, or -1. Any NaN equals any NaN.
func differ(a, b contents) int {
	for i := range a.n {
		if x, y := a.element(i), b.element(i); x != y && !(a.t == kernel.F32 && isNaN(x) && isNaN(y)) {
			return i
		}
	}
	return -1
}

// element is the pattern of element i.
func (c *contents) element(i int) uint32 {
	if c.t == kernel.BF16 {
		return uint32(binary.LittleEndian.Uint16(c.bytes[2*i:]))
	}
	return binary.LittleEndian.Uint32(c.bytes[4*i:])
}

func isNaN(u uint32) bool { return u&0x7fffffff > 0x7f800000 }

func (c *contents) format(i int) string {
	u := c.element(i)
	if c.t == kernel.F32 {
		return fmt.Sprintf("%v (%#08x)", math.Float32frombits(u), u)
	}
	return fmt.Sprintf("%#x", u)
}
