package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	// DataProtocol is the protocol id of streams of parameters and gradients, DataVersion the version in their Hello.
	DataProtocol = "/shoal/1/data"
	DataVersion  = 2

	MaxRunID = 128 // bytes of a run id in a Hello
)

// ErrHello is wrapped by errors about a Hello that makes no sense.
var ErrHello = errors.New("wire: bad hello")

// Class is what a stream carries. Parameters and gradients have streams of their own, because the receiver makes
// parameters wait until it has asked for them, and never gradients. State has one so that a large fill doesn't delay
// gradients.
type Class uint8

const (
	Params    Class = 1
	Gradients Class = 2
	State     Class = 3

	Classes = 3 // how many there are
)

func (c Class) String() string {
	switch c {
	case Params:
		return "params"
	case Gradients:
		return "gradients"
	case State:
		return "state"
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}

// Hello is the first message on a data stream, from the side that opened it (control streams have their own handshake).
// It closes the cases in which an address leads to another run, to a process that has been restarted since, or to a
// member whose log began anew without this one.
type Hello struct {
	Run        string // run id, at most MaxRunID bytes
	From, To   uint64 // member ids
	Generation uint64 // of the log
	Class      Class
}

// The fixed part of a Hello, little-endian: magic, uint16 version, uint8 class, uint8 length of the run id, uint64
// From, uint64 To, uint64 Generation. The run id and a CRC-32C of everything before it follow.
const (
	helloMagic = "SHOA"
	helloFixed = 32
)

// AppendHello appends h as bytes to dst.
func AppendHello(dst []byte, h Hello) ([]byte, error) {
	if len(h.Run) > MaxRunID {
		return dst, fmt.Errorf("%w: a run id of %d bytes, at most %d are allowed", ErrHello, len(h.Run), MaxRunID)
	}
	start := len(dst)
	dst = append(dst, helloMagic...)
	dst = binary.LittleEndian.AppendUint16(dst, DataVersion)
	dst = append(dst, byte(h.Class), byte(len(h.Run)))
	dst = binary.LittleEndian.AppendUint64(dst, h.From)
	dst = binary.LittleEndian.AppendUint64(dst, h.To)
	dst = binary.LittleEndian.AppendUint64(dst, h.Generation)
	dst = append(dst, h.Run...)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli)), nil
}

// ReadHello reads one Hello and not a byte more.
func ReadHello(r io.Reader) (Hello, error) {
	var buf [helloFixed + MaxRunID + 4]byte
	if _, err := io.ReadFull(r, buf[:helloFixed]); err != nil {
		return Hello{}, fmt.Errorf("wire: reading a hello: %w", err)
	}
	version := binary.LittleEndian.Uint16(buf[4:])
	n := int(buf[7])
	switch {
	case string(buf[:4]) != helloMagic:
		return Hello{}, fmt.Errorf("%w: it starts with %q", ErrHello, buf[:4])
	case version != DataVersion:
		return Hello{}, fmt.Errorf("%w: data protocol version %d, this program speaks %d; use the same release on all peers", ErrHello, version, DataVersion)
	case n > MaxRunID:
		return Hello{}, fmt.Errorf("%w: a run id of %d bytes, at most %d are allowed", ErrHello, n, MaxRunID)
	}
	end := helloFixed + n
	if _, err := io.ReadFull(r, buf[helloFixed:end+4]); err != nil {
		return Hello{}, fmt.Errorf("wire: reading a hello: %w", noEOF(err))
	}
	if crc32.Checksum(buf[:end], castagnoli) != binary.LittleEndian.Uint32(buf[end:]) {
		return Hello{}, fmt.Errorf("%w: checksum differs", ErrHello)
	}
	h := Hello{
		Run:        string(buf[helloFixed:end]),
		From:       binary.LittleEndian.Uint64(buf[8:]),
		To:         binary.LittleEndian.Uint64(buf[16:]),
		Generation: binary.LittleEndian.Uint64(buf[24:]),
		Class:      Class(buf[6]),
	}
	if h.Class < Params || h.Class > State {
		return Hello{}, fmt.Errorf("%w: unknown class %d", ErrHello, h.Class)
	}
	return h, nil
}

// noEOF turns the end of a stream in the middle of a message into the error that it is.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
