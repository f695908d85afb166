package dataserve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"shoal/internal/data"
)

// On a stream of Protocol the side that opened it says a hello, which is answered by have or refused. Then it asks one
// thing after another, and each request has one reply. Numbers are little endian:
//
//	hello    magic "SHOD", version u8, length of run u8, length of secret u8, 0 u8, run, secret
//	request  kind u8, 0 u8 (3 times), first u32, count u32
//	reply    kind u8, 0 u8 (3 times), first u32, length u32, body of that length
//
// There is no checksum: connections are authenticated, and what a reply says is checked by its hash.

const (
	// Protocol is the protocol id of streams of chunks, Version the version in their hello.
	Protocol = "/shoal/1/chunks"
	Version  = 1

	maxText   = 128     // bytes of a run id and of a secret
	maxReason = 512     // bytes of a refusal
	maxHashes = 1 << 15 // hashes of a reply
	hashSize  = len(data.Hash{})
	headSize  = 8  // of a hello
	frameSize = 12 // of a request, and of a reply without its body
	magic     = "SHOD"
)

// kind says what a request asks, and what a reply brings.
type kind uint8

const (
	kindHashes  kind = 1 // the hashes of chunks first to first + count - 1
	kindChunk   kind = 2 // chunk first; count is 1
	kindHave    kind = 3 // reply: a bit for each chunk that this peer has; no bits: all
	kindRefused kind = 4 // reply: the reason as text
)

// errProtocol is wrapped by errors about messages that make no sense: whoever sends them is asked no more.
var errProtocol = errors.New("a message that makes no sense")

type hello struct{ run, secret string }

func appendHello(b []byte, h hello) ([]byte, error) {
	if len(h.run) > maxText || len(h.secret) > maxText {
		return b, fmt.Errorf("dataserve: a run id of %d bytes and a secret of %d, at most %d are allowed", len(h.run), len(h.secret), maxText)
	}
	b = append(b, magic...)
	b = append(b, Version, byte(len(h.run)), byte(len(h.secret)), 0)
	b = append(b, h.run...)
	return append(b, h.secret...), nil
}

func readHello(r io.Reader) (hello, error) {
	var b [headSize + 2*maxText]byte
	if _, err := io.ReadFull(r, b[:headSize]); err != nil {
		return hello{}, err
	}
	run, secret := int(b[5]), int(b[6])
	switch {
	case string(b[:4]) != magic || b[7] != 0:
		return hello{}, fmt.Errorf("%w: a hello begins with %x", errProtocol, b[:headSize])
	case b[4] != Version:
		return hello{}, fmt.Errorf("%w: version %d of %s, not %d: use the same release on all peers", errProtocol, b[4], Protocol, Version)
	case run > maxText || secret > maxText:
		return hello{}, fmt.Errorf("%w: a run id of %d bytes and a secret of %d, at most %d are allowed", errProtocol, run, secret, maxText)
	}
	text := b[headSize : headSize+run+secret]
	if _, err := io.ReadFull(r, text); err != nil {
		return hello{}, noEOF(err)
	}
	return hello{string(text[:run]), string(text[run:])}, nil
}

type request struct {
	kind         kind
	first, count int
}

func appendRequest(b []byte, q request) []byte {
	b = append(b, byte(q.kind), 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(q.first))
	return binary.LittleEndian.AppendUint32(b, uint32(q.count))
}

// readRequest reads a request about a data set of total chunks. At the end of the stream it returns io.EOF.
func readRequest(r io.Reader, total int) (request, error) {
	var b [frameSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return request{}, err
	}
	first, count := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	q := request{kind(b[0]), int(first), int(count)}
	most := map[kind]uint32{kindHashes: maxHashes, kindChunk: 1}[q.kind]
	if b[1] != 0 || b[2] != 0 || b[3] != 0 || count < 1 || count > most || uint64(first)+uint64(count) > uint64(total) {
		return request{}, fmt.Errorf("%w: request %x about %d chunks", errProtocol, b, total)
	}
	return q, nil
}

func appendReply(b []byte, k kind, first int, length int) []byte {
	b = append(b, byte(k), 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(first))
	return binary.LittleEndian.AppendUint32(b, uint32(length))
}

// reply is an answer without its body, which is still to be read.
type reply struct {
	kind   kind
	length int
}

// readReply reads the head of the reply to a request whose answer has want bytes, about a data set of total chunks. A
// have or refused may come instead of any answer.
func readReply(r io.Reader, q request, want, total int) (reply, error) {
	var b [frameSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return reply{}, noEOF(err)
	}
	k, first, length := kind(b[0]), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	ok := false
	switch k {
	case kindHave:
		ok = length == 0 || length == uint32(bitmapSize(total))
	case kindRefused:
		ok = length <= maxReason
	case kindHashes, kindChunk:
		ok = k == q.kind && length == uint32(want)
	}
	if !ok || b[1] != 0 || b[2] != 0 || b[3] != 0 || first != uint32(q.first) {
		return reply{}, fmt.Errorf("%w: reply %x to a request for %d bytes of chunk %d", errProtocol, b, want, q.first)
	}
	return reply{k, int(length)}, nil
}

// bitmapSize is the length in bytes of the bits of n chunks.
func bitmapSize(n int) int { return (n + 7) / 8 }

func hasBit(bits []byte, i int) bool { return bits[i/8]&(1<<(i%8)) != 0 }

// noEOF turns the end of a stream in the middle of a message into the error that it is.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
