package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"runtime"
	"strings"
	"testing"
)

// frame is a sealed frame of payload.
func frame(t testing.TB, h Header, payload []byte) []byte {
	t.Helper()
	b := append(make([]byte, HeaderSize), payload...)
	if err := Seal(b, h); err != nil {
		t.Fatal(err)
	}
	return b
}

// headerBytes writes h as it is, valid or not, with a right checksum.
func headerBytes(h Header) []byte {
	b := make([]byte, HeaderSize)
	h.put(b)
	return b
}

func TestFrameSurvives(t *testing.T) {
	chunk := bytes.Repeat([]byte("tensor"), 100)
	for name, c := range map[string]struct {
		h       Header
		payload []byte
	}{
		"params":           {Header{Kind: KindParams, Tag: 7, Fence: 1 << 63, Part: 4000, Offset: 100, Raw: 600}, chunk},
		"last":             {Header{Kind: KindParams, Tag: 7, Fence: 9, Part: 700, Offset: 100, Raw: 600}, chunk},
		"packed":           {Header{Kind: KindParams, Codec: CodecPlanes, Part: 4000, Raw: 1000}, chunk},
		"narrowed":         {Header{Kind: KindGradient, Codec: CodecLow, Part: 4000, Raw: 1200, Microbatches: 1}, chunk},
		"narrowed, packed": {Header{Kind: KindGradient, Codec: CodecHighPlanes, Part: 4000, Raw: 4000, Microbatches: 1}, chunk},
		"gradient":         {Header{Kind: KindGradient, Part: MaxPart, Offset: MaxPart - 600, Raw: 600, Microbatches: 3}, chunk},
		"forward":          {Header{Kind: KindForward, Part: 600, Raw: 600, Microbatches: 9}, chunk},
		"state":            {Header{Kind: KindState, Part: 4000, Raw: 600, Microbatches: 1}, chunk},
		"ack":              {Header{Kind: KindAck, Of: KindForward, Tag: 1<<32 - 1, Fence: 5, Part: 12}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := bytes.NewReader(frame(t, c.h, c.payload))
			got, err := ReadHeader(r)
			if err != nil {
				t.Fatal(err)
			}
			want := c.h
			want.Wire, want.sum = uint32(len(c.payload)), got.sum
			if got != want {
				t.Fatalf("read %+v, want %+v", got, want)
			}
			if got.Last() != (got.Offset+uint64(got.Raw) == got.Part) {
				t.Errorf("Last is %v for %+v", got.Last(), got)
			}
			payload := make([]byte, got.Wire)
			if err := ReadPayload(r, &got, payload); err != nil || !bytes.Equal(payload, c.payload) {
				t.Fatalf("payload: %v, equal %v", err, bytes.Equal(payload, c.payload))
			}
			if _, err := ReadHeader(r); err != io.EOF {
				t.Fatalf("after the last frame: %v, want io.EOF itself", err)
			}
		})
	}
}

func TestHeaderRefused(t *testing.T) {
	good := Header{Kind: KindGradient, Part: 4000, Offset: 100, Raw: 600, Wire: 600, Microbatches: 1}
	for name, c := range map[string]struct {
		edit func(h *Header)
		says string
	}{
		"kind 0":               {func(h *Header) { h.Kind = 0 }, "kind 0"},
		"kind 9":               {func(h *Header) { h.Kind = 9 }, "kind 9"},
		"codec":                {func(h *Header) { h.Codec = 8 }, "codec 8"},
		"part of 2^40":         {func(h *Header) { h.Part = 1 << 40 }, "part of 1099511627776"},
		"offset of 2^40":       {func(h *Header) { h.Offset = 1 << 40 }, "at 1099511627776"},
		"offset wraps":         {func(h *Header) { h.Offset = 1<<64 - 100 }, "in a part of 4000"},
		"chunk beyond part":    {func(h *Header) { h.Offset = 3500 }, "at 3500"},
		"chunk too large":      {func(h *Header) { h.Raw, h.Wire, h.Part = MaxChunk+1, MaxChunk+1, MaxPart }, "chunk of 1048577"},
		"empty chunk":          {func(h *Header) { h.Raw, h.Wire = 0, 0 }, "chunk of 0"},
		"packed grows":         {func(h *Header) { h.Codec, h.Wire = CodecPlanes, 601 }, "601 bytes of payload"},
		"raw shrinks":          {func(h *Header) { h.Wire = 599 }, "599 bytes of raw"},
		"narrowed in whole":    {func(h *Header) { h.Codec = CodecLow }, "600 bytes of payload for a chunk of 300"},
		"narrowed too much":    {func(h *Header) { h.Codec, h.Wire = CodecHigh, 299 }, "299 bytes of raw"},
		"narrowed halves":      {func(h *Header) { h.Codec, h.Raw, h.Wire = CodecLowPlanes, 602, 100 }, "602 bytes whose elements"},
		"no payload":           {func(h *Header) { h.Wire = 0 }, "0 bytes of payload"},
		"no microbatches":      {func(h *Header) { h.Microbatches = 0 }, "0 microbatches"},
		"too many":             {func(h *Header) { h.Microbatches = MaxMicrobatches + 1 }, "16777217"},
		"microbatches, params": {func(h *Header) { h.Kind = KindParams }, "1 microbatches"},
		"no count of state":    {func(h *Header) { h.Kind, h.Microbatches = KindState, 0 }, "0 microbatches"},
		"ack with payload":     {func(h *Header) { h.Kind, h.Of, h.Microbatches = KindAck, KindParams, 0 }, "acknowledgement"},
		"ack of nothing":       {func(h *Header) { h.Kind, h.Microbatches = KindAck, 0 }, "kind 3 of kind 0"},
		"ack of an ack":        {func(h *Header) { h.Kind, h.Of, h.Microbatches = KindAck, KindAck, 0 }, "kind 3 of kind 3"},
		"gradient of a kind":   {func(h *Header) { h.Of = KindParams }, "kind 2 of kind 1"},
	} {
		h := good
		c.edit(&h)
		if _, err := ReadHeader(bytes.NewReader(headerBytes(h))); !errors.Is(err, ErrFrame) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want ErrFrame that says %q", name, err, c.says)
		}
	}
	reserved := headerBytes(good)
	reserved[3] = 1
	binary.LittleEndian.PutUint32(reserved[48:], crc32.Checksum(reserved[:48], castagnoli))
	if _, err := ReadHeader(bytes.NewReader(reserved)); !errors.Is(err, ErrFrame) {
		t.Errorf("reserved bytes: %v, want ErrFrame", err)
	}
	if err := Seal(make([]byte, HeaderSize+10), Header{Kind: KindParams, Part: 4, Raw: 4}); !errors.Is(err, ErrFrame) {
		t.Errorf("Seal of a payload longer than its chunk: %v, want ErrFrame", err)
	}
	if err := Seal(make([]byte, HeaderSize+MaxChunk+1), good); !errors.Is(err, ErrFrame) {
		t.Errorf("Seal of a huge payload: %v, want ErrFrame", err)
	}
}

// Each flipped bit and each missing byte is noticed.
func TestFrameDamaged(t *testing.T) {
	good := frame(t, Header{Kind: KindGradient, Part: 40, Raw: 40, Microbatches: 1}, bytes.Repeat([]byte{5}, 40))
	read := func(b []byte) error {
		r := bytes.NewReader(b)
		h, err := ReadHeader(r)
		if err != nil {
			return err
		}
		return ReadPayload(r, &h, make([]byte, h.Wire))
	}
	if err := read(good); err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(good) {
		b := bytes.Clone(good)
		b[bit/8] ^= 1 << (bit % 8)
		if err := read(b); !errors.Is(err, ErrChecksum) {
			t.Errorf("bit %d flipped: %v, want ErrChecksum", bit, err)
		}
	}
	for n := 1; n < len(good); n++ {
		if err := read(good[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the first %d bytes: %v, want io.ErrUnexpectedEOF", n, err)
		}
	}
	h := Header{Wire: 3}
	if err := ReadPayload(bytes.NewReader(good), &h, make([]byte, 4)); err == nil {
		t.Error("ReadPayload took room of another size")
	}
}

func TestHugeLengthsCostNoMemory(t *testing.T) {
	h := Header{Kind: KindGradient, Part: 1 << 40, Offset: 1 << 39, Raw: 1<<32 - 1, Wire: 1<<32 - 1, Microbatches: 1}
	b := headerBytes(h)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, err := ReadHeader(bytes.NewReader(b)); err == nil {
			t.Fatal("accepted")
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / 100; got > 4096 {
		t.Errorf("refusing a header took %d bytes of memory", got)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add(frame(f, Header{Kind: KindParams, Part: 4, Raw: 4}, []byte("abcd")))
	f.Add(frame(f, Header{Kind: KindGradient, Codec: CodecPlanes, Part: 9, Offset: 1, Raw: 4, Microbatches: 1}, []byte("ab")))
	f.Add(frame(f, Header{Kind: KindGradient, Codec: CodecLow, Part: 8, Raw: 8, Microbatches: 1}, []byte("abcd")))
	f.Add(frame(f, Header{Kind: KindAck, Of: KindParams, Tag: 1, Fence: 2, Part: 3}, nil))
	f.Add(frame(f, Header{Kind: KindState, Part: 8, Raw: 4, Microbatches: 1}, []byte("abcd")))
	f.Fuzz(func(t *testing.T, b []byte) {
		// The checksum is made right, so that the fuzzer gets past it.
		if len(b) >= HeaderSize {
			binary.LittleEndian.PutUint32(b[48:], crc32.Checksum(b[:48], castagnoli))
		}
		r := bytes.NewReader(b)
		h, err := ReadHeader(r)
		if err != nil {
			return
		}
		if h.Raw > MaxChunk || h.Wire > MaxChunk || h.Part > MaxPart || h.Offset+uint64(h.Raw) > h.Part {
			t.Fatalf("beyond the caps: %+v", h)
		}
		payload := make([]byte, h.Wire)
		if ReadPayload(r, &h, payload) != nil {
			return
		}
		again := append(make([]byte, HeaderSize), payload...)
		if err := Seal(again, h); err != nil || !bytes.HasPrefix(b, again) {
			t.Fatalf("%x was read as %+v, which is written as %x (%v)", b, h, again, err)
		}
	})
}

func BenchmarkFrame(b *testing.B) {
	buf := make([]byte, HeaderSize+MaxChunk)
	payload := make([]byte, MaxChunk)
	b.SetBytes(MaxChunk)
	for b.Loop() {
		if err := Seal(buf, Header{Kind: KindParams, Part: MaxChunk, Raw: MaxChunk}); err != nil {
			b.Fatal(err)
		}
		r := bytes.NewReader(buf)
		h, err := ReadHeader(r)
		if err != nil {
			b.Fatal(err)
		}
		if err := ReadPayload(r, &h, payload); err != nil {
			b.Fatal(err)
		}
	}
}
