// Package codec turns tensor bytes into wire bytes and back.
//
// The elements of a tensor are written little-endian, 2 bytes each (bf16) or 4 (float32, and the int32 of gradients in
// fixed point). Pack and Unpack shorten such bytes without loss: they split them into byte planes (all lowest bytes, all second bytes, ...), because the planes
// that hold signs and exponents repeat themselves and those of mantissas don't, and give each plane an entropy code by
// itself. Before that, Narrow halves elements of 4 bytes that fit in 2, without loss too. Chooser says whether that pays on a given link.
//
// All functions may be called from several goroutines at once. Nothing here changes a value: a run's result does not
// depend on whether its bytes were packed.
package codec
