package kernel

import "unsafe"

// Bytes views s as bytes without a copy. Every platform that Shoal runs on is little-endian.
func Bytes[T float32 | int32 | uint16](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}
