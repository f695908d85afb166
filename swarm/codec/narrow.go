package codec

import (
	"encoding/binary"
	"slices"
)

// Form says which part of elements of 4 bytes holds all of them.
type Form uint8

const (
	Whole Form = iota // all 4 bytes
	Low               // the lower half: they are int32s from -2^15 to 2^15-1
	High              // the upper half: the lower ones are all 0, as in float32s that are bf16s
)

// Narrow appends to dst the half of each element of src that holds all of it, and says which one that is. It appends
// nothing and says Whole where there is none, or nothing in src. src holds elements of 4 bytes; it is only read.
func Narrow(dst, src []byte) ([]byte, Form) {
	f := formOf(src)
	if f == Whole {
		return dst, Whole
	}
	shift := 16 * int(f-Low)
	dst = slices.Grow(dst, len(src)/2)
	for len(src) >= 8 { // two elements
		v := binary.LittleEndian.Uint64(src) >> shift
		dst = binary.LittleEndian.AppendUint32(dst, uint32(v&0xffff|v>>16&0xffff0000))
		src = src[8:]
	}
	if len(src) > 0 {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(binary.LittleEndian.Uint32(src)>>shift))
	}
	return dst, f
}

// Widen is the reverse of Narrow, in place: it fills b with elements of 4 bytes from their halves in b's first half. With
// Whole it does nothing.
func Widen(b []byte, f Form) {
	if f == Whole {
		return
	}
	for i := len(b)/4 - 1; i >= 0; i-- {
		half := uint32(binary.LittleEndian.Uint16(b[2*i:]))
		v := half << 16
		if f == Low {
			v = uint32(int32(int16(half)))
		}
		binary.LittleEndian.PutUint32(b[4*i:], v)
	}
}

// formOf looks at a few elements at a time, so that most tensors that can't be narrowed cost next to nothing.
func formOf(src []byte) Form {
	if len(src) == 0 || len(src)%4 != 0 {
		return Whole
	}
	const some = 4 << 8
	low, high := true, true
	for len(src) > 0 {
		n := min(len(src), some)
		var over, under uint32 // bits outside of the lower and of the upper half
		for i := 0; i < n; i += 4 {
			v := binary.LittleEndian.Uint32(src[i:])
			over |= v + 1<<15
			under |= v
		}
		low, high = low && over>>16 == 0, high && under&0xffff == 0
		if !low && !high {
			return Whole
		}
		src = src[n:]
	}
	if low {
		return Low
	}
	return High
}
