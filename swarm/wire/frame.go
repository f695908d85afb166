package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
)

const (
	// MaxChunk is the largest number of tensor bytes in a frame, before and after packing.
	MaxChunk = 1 << 20
	// MaxPart is the largest number of bytes that one member gives another in one collective.
	MaxPart uint64 = 1 << 38
	// MaxMicrobatches bounds how many microbatches are summed in a piece of gradient.
	MaxMicrobatches = 1 << 24
	// HeaderSize is the length of a frame's header in bytes.
	HeaderSize = 52
)

// ErrFrame is wrapped by errors about frames that make no sense.
var ErrFrame = errors.New("wire: bad frame")

// ErrChecksum is wrapped by errors about frames that were damaged on their way.
var ErrChecksum = errors.New("wire: checksum differs")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Kind says what a frame is. Numbers are append-only.
type Kind uint8

const (
	KindParams   Kind = 1 // a piece of what its sender gives in an all-gather
	KindGradient Kind = 2 // a piece of what its sender gives in a reduce-scatter
	KindAck      Kind = 3 // from the receiver of a part to its sender: all of it is here
	KindForward  Kind = 4 // a piece of a reduced gradient, from an owner to a backup
	KindState    Kind = 5 // a piece of an owner's state, which makes its receiver a holder
)

// Counted says whether frames of this kind say how many microbatches are summed in them, and are added on arrival.
func (k Kind) Counted() bool { return k == KindGradient || k == KindForward || k == KindState }

// Class is the stream on which parts of this kind travel, or 0.
func (k Kind) Class() Class {
	switch k {
	case KindParams:
		return Params
	case KindGradient, KindForward:
		return Gradients
	case KindState:
		return State
	}
	return 0
}

// Codec says how a frame's payload was narrowed and packed. Numbers are append-only.
type Codec uint8

const (
	CodecRaw        Codec = 0 // the tensor bytes themselves
	CodecPlanes     Codec = 1 // codec.Pack
	CodecLow        Codec = 2 // the lower halves of elements of 4 bytes: codec.Low
	CodecLowPlanes  Codec = 3 // the same, packed
	CodecHigh       Codec = 4 // the upper halves: codec.High
	CodecHighPlanes Codec = 5 // the same, packed
)

// Packed says whether codec.Pack made the payload.
func (c Codec) Packed() bool { return c&1 == 1 }

// Narrowed says whether only a half of each element travels.
func (c Codec) Narrowed() bool { return c >= CodecLow }

// Header precedes a frame's payload. A part is what one member gives another in one collective, and goes in chunks of
// at most MaxChunk bytes with ascending offsets.
type Header struct {
	Kind         Kind
	Codec        Codec
	Of           Kind   // in an acknowledgement: the kind of the part; else 0
	Tag          uint32 // names the collective within its attempt: an all-gather's tag, a gradient's unit, a state's range
	Fence        uint64 // names the attempt
	Part         uint64 // bytes of the whole part
	Offset       uint64 // where the chunk starts in the part, in bytes
	Raw          uint32 // bytes of the chunk
	Wire         uint32 // bytes of the payload that carries it
	Microbatches uint32 // summed in a piece of gradient, 1 for a piece of state, else 0
	sum          uint32 // CRC-32C of the payload
}

// Last says whether the chunk is its part's last one.
func (h *Header) Last() bool { return h.Offset+uint64(h.Raw) == h.Part }

// Bytes is the number of tensor bytes before packing: of the chunk, or half of that where its elements are narrowed.
func (h *Header) Bytes() uint32 {
	if h.Codec.Narrowed() {
		return h.Raw / 2
	}
	return h.Raw
}

// Seal completes a frame in place: the payload is frame[HeaderSize:]; the header is written before it, with its Wire
// set to the payload's length. The header must be one that ReadHeader accepts.
func Seal(frame []byte, h Header) error {
	payload := frame[HeaderSize:]
	if len(payload) > MaxChunk {
		return fmt.Errorf("%w: a payload of %d bytes, at most %d are allowed", ErrFrame, len(payload), MaxChunk)
	}
	h.Wire = uint32(len(payload))
	h.sum = crc32.Checksum(payload, castagnoli)
	if err := h.check(); err != nil {
		return err
	}
	h.put(frame[:HeaderSize])
	return nil
}

// put writes h, little-endian, and a CRC-32C of it at the end. A header has a checksum of its own because a receiver
// acts on it before it reads the payload.
func (h *Header) put(b []byte) {
	le := binary.LittleEndian
	b[0], b[1] = byte(h.Kind), byte(h.Codec)
	b[2], b[3] = byte(h.Of), 0
	le.PutUint32(b[4:], h.Tag)
	le.PutUint64(b[8:], h.Fence)
	le.PutUint64(b[16:], h.Part)
	le.PutUint64(b[24:], h.Offset)
	le.PutUint32(b[32:], h.Raw)
	le.PutUint32(b[36:], h.Wire)
	le.PutUint32(b[40:], h.Microbatches)
	le.PutUint32(b[44:], h.sum)
	le.PutUint32(b[48:], crc32.Checksum(b[:48], castagnoli))
}

// headers are what headers are read into.
var headers = sync.Pool{New: func() any { return new([HeaderSize]byte) }}

// ReadHeader reads a frame's header and checks it: after that, its lengths are within their caps and its chunk within
// its part. io.EOF means that the stream ended between two frames.
func ReadHeader(r io.Reader) (Header, error) {
	b := headers.Get().(*[HeaderSize]byte)
	defer headers.Put(b)
	if _, err := io.ReadFull(r, b[:]); err != nil {
		if err == io.EOF {
			return Header{}, err
		}
		return Header{}, fmt.Errorf("wire: reading a frame's header: %w", err)
	}
	le := binary.LittleEndian
	if crc32.Checksum(b[:48], castagnoli) != le.Uint32(b[48:]) {
		return Header{}, fmt.Errorf("%w: in a frame's header", ErrChecksum)
	}
	if b[3] != 0 {
		return Header{}, fmt.Errorf("%w: the reserved byte is %d", ErrFrame, b[3])
	}
	h := Header{
		Kind: Kind(b[0]), Codec: Codec(b[1]), Of: Kind(b[2]), Tag: le.Uint32(b[4:]), Fence: le.Uint64(b[8:]),
		Part: le.Uint64(b[16:]), Offset: le.Uint64(b[24:]), Raw: le.Uint32(b[32:]), Wire: le.Uint32(b[36:]),
		Microbatches: le.Uint32(b[40:]), sum: le.Uint32(b[44:]),
	}
	return h, h.check()
}

// check says which field of h makes no sense.
func (h *Header) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrFrame, fmt.Sprintf(format, args...))
	}
	switch {
	case h.Kind < KindParams || h.Kind > KindState:
		return bad("unknown kind %d", h.Kind)
	case h.Codec > CodecHighPlanes:
		return bad("unknown codec %d", h.Codec)
	case h.Part > MaxPart:
		return bad("a part of %d bytes, at most %d are allowed", h.Part, MaxPart)
	case h.Microbatches > MaxMicrobatches:
		return bad("%d microbatches, at most %d are allowed", h.Microbatches, MaxMicrobatches)
	case h.Kind.Counted() != (h.Microbatches > 0):
		return bad("kind %d with %d microbatches", h.Kind, h.Microbatches)
	case (h.Kind == KindAck) != (h.Of.Class() != 0):
		return bad("kind %d of kind %d", h.Kind, h.Of)
	}
	if h.Kind == KindAck {
		if h.Codec != CodecRaw || h.Offset != 0 || h.Raw != 0 || h.Wire != 0 {
			return bad("an acknowledgement with a payload")
		}
		return nil
	}
	switch {
	case h.Raw == 0 || h.Raw > MaxChunk:
		return bad("a chunk of %d bytes, 1 to %d are allowed", h.Raw, MaxChunk)
	case h.Offset > h.Part || uint64(h.Raw) > h.Part-h.Offset:
		return bad("a chunk of %d bytes at %d in a part of %d", h.Raw, h.Offset, h.Part)
	case h.Codec.Narrowed() && h.Raw%4 != 0:
		return bad("a chunk of %d bytes whose elements of 4 are narrowed", h.Raw)
	case h.Wire == 0 || h.Wire > h.Bytes():
		return bad("%d bytes of payload for a chunk of %d", h.Wire, h.Bytes())
	case !h.Codec.Packed() && h.Wire != h.Bytes():
		return bad("%d bytes of raw payload for a chunk of %d", h.Wire, h.Bytes())
	}
	return nil
}

// ReadPayload reads the payload that follows h into dst, whose length must be h.Wire, and compares its checksum.
func ReadPayload(r io.Reader, h *Header, dst []byte) error {
	if len(dst) != int(h.Wire) {
		return fmt.Errorf("wire: %d bytes of room for a payload of %d", len(dst), h.Wire)
	}
	if _, err := io.ReadFull(r, dst); err != nil {
		return fmt.Errorf("wire: reading a frame's payload: %w", noEOF(err))
	}
	if crc32.Checksum(dst, castagnoli) != h.sum {
		return fmt.Errorf("%w: in a frame's payload", ErrChecksum)
	}
	return nil
}
