// Package wire says how messages between members look as bytes: frames of tensor data (frame.go) behind a Hello
// (hello.go), and control messages (control.go). docs/wire.md describes the same for readers of other programs.
//
// Decoders believe nothing: every length has a named cap, no memory is taken on the word of a length, and a fault is an
// error that says which field is wrong. There is no I/O here but reading from an io.Reader, and no state.
package wire
