package kernel

import "unsafe"

// Floats views little-endian bytes as float32 without a copy. len(b) must be a multiple of 4, and b aligned as Go's
// allocator aligns what is at least that long.
func Floats(b []byte) []float32 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}

// Bytes views s as bytes without a copy. Every platform that Shoal runs on is little-endian.
func Bytes[T float32 | int32 | uint16](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}
