package safetensors

import (
	"fmt"
	"math"
	"math/bits"
)

// DType is a tensor's type by its name in the file.
type DType string

// The types of the format whose elements are whole bytes.
const (
	Bool   DType = "BOOL"
	U8     DType = "U8"
	I8     DType = "I8"
	F8E5M2 DType = "F8_E5M2"
	F8E4M3 DType = "F8_E4M3"
	F8E8M0 DType = "F8_E8M0"

	F8E5M2FNUZ DType = "F8_E5M2FNUZ"
	F8E4M3FNUZ DType = "F8_E4M3FNUZ"

	U16  DType = "U16"
	I16  DType = "I16"
	F16  DType = "F16"
	BF16 DType = "BF16"
	U32  DType = "U32"
	I32  DType = "I32"
	F32  DType = "F32"
	U64  DType = "U64"
	I64  DType = "I64"
	F64  DType = "F64"
	C64  DType = "C64" // two float32
)

var sizes = map[DType]int{
	Bool: 1, U8: 1, I8: 1, F8E5M2: 1, F8E4M3: 1, F8E8M0: 1, F8E5M2FNUZ: 1, F8E4M3FNUZ: 1,
	U16: 2, I16: 2, F16: 2, BF16: 2,
	U32: 4, I32: 4, F32: 4,
	U64: 8, I64: 8, F64: 8, C64: 8,
}

// Size is the number of bytes of one element, 0 if the type is not known.
func (d DType) Size() int { return sizes[d] }

// Tensor says what a tensor is, not what is in it.
type Tensor struct {
	Name  string
	DType DType
	Shape []int // empty: a single element
}

// Elements is the number of elements. It is right for tensors of a File and for those that Create took.
func (t Tensor) Elements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Bytes is the number of bytes of the data, under the same condition.
func (t Tensor) Bytes() int64 { return int64(t.Elements()) * int64(t.DType.Size()) }

// check returns the number of bytes of the data, or what is wrong with the tensor.
func (t Tensor) check() (int64, error) {
	size := uint64(t.DType.Size())
	switch {
	case t.Name == metadataKey || len(t.Name) > maxName:
		return 0, fmt.Errorf("a tensor can't have the name %.80q", t.Name)
	case size == 0:
		return 0, fmt.Errorf("tensor %.80q has the dtype %.20q, which is not supported", t.Name, string(t.DType))
	case len(t.Shape) > maxDims:
		return 0, fmt.Errorf("tensor %.80q has %d dimensions, at most %d", t.Name, len(t.Shape), maxDims)
	}
	// A product with a zero in it must not hide that the other dimensions overflow: strides would.
	n, zero := size, false
	for _, d := range t.Shape {
		if d < 0 {
			return 0, fmt.Errorf("tensor %.80q has a negative dimension: %d", t.Name, d)
		}
		if d == 0 {
			zero = true
			continue
		}
		high, low := bits.Mul64(n, uint64(d))
		if high != 0 || low > math.MaxInt64 {
			return 0, fmt.Errorf("tensor %.80q of shape %v is larger than any file", t.Name, t.Shape)
		}
		n = low
	}
	if zero {
		n = 0
	}
	return int64(n), nil
}
