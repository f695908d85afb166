package kernel

import "unsafe"

// Floats is View of float32.
func Floats(b []byte) []float32 { return View[float32](b) }

// View views little-endian bytes as elements without a copy. len(b) must be a multiple of an element's size, and b aligned as
// Go's allocator aligns what is at least that long.
func View[T float32 | int32 | uint16](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	p := (*T)(unsafe.Pointer(&b[0]))
	return unsafe.Slice(p, len(b)/int(unsafe.Sizeof(*p)))
}

// Bytes views s as bytes without a copy. Every platform that Shoal runs on is little-endian.
func Bytes[T float32 | int32 | uint16](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}
