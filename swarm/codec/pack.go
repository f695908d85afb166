package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/huff0"
)

// Packed bytes are blocks of up to blockElements elements, the last one shorter. A block is its planes, lowest byte
// first. A plane is a method byte and then
//
//	planeRaw     one byte per element
//	planeRepeat  the byte that all elements have
//	planeHuff0   uint32 length in little-endian, then so many bytes: a huff0 table and four bit streams
//
// The number of elements is not in there: whoever unpacks knows it.
const (
	planeRaw    = 0
	planeRepeat = 1
	planeHuff0  = 2

	blockElements = 64 << 10 // a plane must fit into a huff0 block (256 KiB - 1)
	// A plane that shrinks by less than 1/32 goes raw: undoing the code would cost more than the bytes.
	wantLogLess = 5
	// A plane that took no code is not tried again for so many blocks: mantissas stay what they are.
	skipBlocks = 7
)

// ErrWidth is returned for elements that are neither 2 nor 4 bytes wide.
var ErrWidth = errors.New("codec: elements must be 2 or 4 bytes wide")

// ErrCorrupt is wrapped by Unpack's errors about bytes that Pack did not make.
var ErrCorrupt = errors.New("codec: corrupt packed bytes")

// scratch is what one call of Pack or Unpack needs; bounded by the block size.
type scratch struct {
	bytes [4 * blockElements]byte
	huff  huff0.Scratch
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// planes cuts s.bytes into width planes of n bytes.
func (s *scratch) planes(width, n int) [][]byte {
	planes := make([][]byte, width)
	for p := range planes {
		planes[p] = s.bytes[p*n : (p+1)*n : (p+1)*n]
	}
	return planes
}

// MaxPacked is the largest number of bytes that Pack appends for n bytes.
func MaxPacked(n, width int) int {
	block := blockElements * width
	return n + (n+block-1)/block*width
}

// Pack appends the packed form of src to dst and returns it. src holds elements of width bytes (2 or 4); it is only
// read. The result may be longer than src, by a few bytes per block: the caller then sends src as it is.
func Pack(dst, src []byte, width int) ([]byte, error) {
	if err := checkWidth(len(src), width); err != nil {
		return dst, err
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	s.huff.Reuse = huff0.ReusePolicyNone // each plane carries its table
	s.huff.WantLogLess = wantLogLess
	var skip [4]int
	for len(src) > 0 {
		n := min(len(src)/width, blockElements)
		planes := s.planes(width, n)
		split(planes, src[:n*width])
		for p, plane := range planes {
			if skip[p] > 0 {
				skip[p]--
				dst = append(append(dst, planeRaw), plane...)
				continue
			}
			before := len(dst)
			dst = s.packPlane(dst, plane)
			if dst[before] == planeRaw {
				skip[p] = skipBlocks
			}
		}
		src = src[n*width:]
	}
	return dst, nil
}

func (s *scratch) packPlane(dst, plane []byte) []byte {
	const overhead = 4 // the length field
	coded, _, err := huff0.Compress4X(plane, &s.huff)
	switch {
	case errors.Is(err, huff0.ErrUseRLE):
		return append(dst, planeRepeat, plane[0])
	case err != nil || len(coded)+overhead >= len(plane):
		return append(append(dst, planeRaw), plane...)
	}
	dst = binary.LittleEndian.AppendUint32(append(dst, planeHuff0), uint32(len(coded)))
	return append(dst, coded...)
}

// Unpack fills dst with the elements of width bytes (2 or 4) that src was packed from. src must be exactly one result of
// Pack for len(dst) bytes; otherwise the error wraps ErrCorrupt and dst may hold anything. src is only read.
func Unpack(dst, src []byte, width int) error {
	if err := checkWidth(len(dst), width); err != nil {
		return err
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	for len(dst) > 0 {
		n := min(len(dst)/width, blockElements)
		planes := s.planes(width, n)
		for p := range planes {
			var err error
			if planes[p], src, err = s.unpackPlane(planes[p], src); err != nil {
				return err
			}
		}
		join(dst[:n*width], planes)
		dst = dst[n*width:]
	}
	if len(src) > 0 {
		return fmt.Errorf("%w: %d bytes too many", ErrCorrupt, len(src))
	}
	return nil
}

// unpackPlane returns the plane at the start of src, in room or within src, and the rest of src.
func (s *scratch) unpackPlane(room, src []byte) (plane, rest []byte, err error) {
	if len(src) == 0 {
		return nil, nil, fmt.Errorf("%w: a plane is missing", ErrCorrupt)
	}
	method, src := src[0], src[1:]
	switch {
	case method == planeRaw && len(src) >= len(room):
		return src[:len(room)], src[len(room):], nil
	case method == planeRepeat && len(src) >= 1:
		for i := range room {
			room[i] = src[0]
		}
		return room, src[1:], nil
	case method == planeHuff0 && len(src) >= 4:
		n := uint64(binary.LittleEndian.Uint32(src))
		if src = src[4:]; n > uint64(len(src)) {
			return nil, nil, fmt.Errorf("%w: a plane of %d bytes ends after %d", ErrCorrupt, n, len(src))
		}
		return room, src[n:], s.decode(room, src[:n])
	case method > planeHuff0:
		return nil, nil, fmt.Errorf("%w: unknown method %d", ErrCorrupt, method)
	}
	return nil, nil, fmt.Errorf("%w: a plane ends early", ErrCorrupt)
}

func (s *scratch) decode(plane, coded []byte) error {
	s.huff.MaxDecodedSize = len(plane)
	h, bits, err := huff0.ReadTable(coded, &s.huff)
	if err != nil {
		return fmt.Errorf("%w: table: %v", ErrCorrupt, err)
	}
	out, err := h.Decoder().Decompress4X(plane[:0], bits) // decodes cap(plane) bytes
	if err != nil {
		return fmt.Errorf("%w: plane: %v", ErrCorrupt, err)
	}
	if len(out) != len(plane) {
		return fmt.Errorf("%w: a plane of %d bytes decodes to %d", ErrCorrupt, len(plane), len(out))
	}
	return nil
}

func checkWidth(n, width int) error {
	if width != 2 && width != 4 {
		return fmt.Errorf("%w, not %d", ErrWidth, width)
	}
	if n%width != 0 {
		return fmt.Errorf("codec: %d bytes are no whole number of elements of %d bytes", n, width)
	}
	return nil
}
