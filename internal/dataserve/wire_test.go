package dataserve

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestHelloRefused(t *testing.T) {
	good, err := appendHello(nil, hello{"run", "secret"})
	if err != nil {
		t.Fatal(err)
	}
	if h, err := readHello(bytes.NewReader(good)); err != nil || h != (hello{"run", "secret"}) {
		t.Errorf("reads back as %+v, %v", h, err)
	}
	for at, want := range map[int]string{0: "begins with", 4: "version", 5: "at most", 6: "at most", 7: "begins with"} {
		bad := bytes.Clone(good)
		bad[at] = 200
		if _, err := readHello(bytes.NewReader(bad)); !errors.Is(err, errProtocol) || !strings.Contains(err.Error(), want) {
			t.Errorf("byte %d wrong: %v", at, err)
		}
	}
	if _, err := readHello(bytes.NewReader(good[:len(good)-1])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut short: %v", err)
	}
	if _, err := appendHello(nil, hello{run: strings.Repeat("r", maxText+1)}); err == nil {
		t.Error("a run id that is too long was written")
	}
}

func FuzzHello(f *testing.F) {
	b, _ := appendHello(nil, hello{"run", "secret"})
	f.Add(b)
	f.Add(b[:9])
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		h, err := readHello(r)
		if err != nil {
			return
		}
		if again, err := appendHello(nil, h); err != nil || !bytes.Equal(again, b[:len(b)-r.Len()]) {
			t.Fatalf("%x was read as %+v, which is %x, %v", b, h, again, err)
		}
	})
}

func FuzzRequest(f *testing.F) {
	f.Add(appendRequest(nil, request{kindHashes, 0, 10}), 10)
	f.Add(appendRequest(nil, request{kindChunk, 9, 1}), 10)
	f.Add(appendRequest(nil, request{kindChunk, 1<<32 - 1, 1<<32 - 1}), 10)
	f.Fuzz(func(t *testing.T, b []byte, total int) {
		total &= 1<<24 - 1
		q, err := readRequest(bytes.NewReader(b), total)
		if err != nil {
			return
		}
		if q.first < 0 || q.count < 1 || q.first+q.count > total || q.count > maxHashes {
			t.Fatalf("request %+v of %d chunks", q, total)
		}
		if again := appendRequest(nil, q); !bytes.Equal(again, b[:frameSize]) {
			t.Fatalf("%x was read as %+v, which is %x", b, q, again)
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add(appendReply(nil, kindChunk, 3, 1000), uint8(kindChunk), 3, 1000, 10)
	f.Add(appendReply(nil, kindHave, 3, 2), uint8(kindChunk), 3, 1000, 10)
	f.Add(appendReply(nil, kindRefused, 0, 100), uint8(0), 0, 0, 10)
	f.Add(appendReply(nil, kindChunk, 3, 1<<32-1), uint8(kindChunk), 3, 1000, 10)
	f.Fuzz(func(t *testing.T, b []byte, k uint8, first, want, total int) {
		want, total = want&(1<<20-1), total&(1<<24-1)
		r, err := readReply(bytes.NewReader(b), request{kind(k), first, 1}, want, total)
		if err != nil {
			return
		}
		if r.length < 0 || r.length > max(want, bitmapSize(total), maxReason) {
			t.Fatalf("%x is a reply of %d bytes, wanted were %d", b, r.length, want)
		}
		if r.kind != kindHave && r.kind != kindRefused && r.kind != kind(k) {
			t.Fatalf("%x is a reply of kind %d to a request of kind %d", b, r.kind, k)
		}
	})
}
