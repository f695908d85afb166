package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func TestControlRoundTrip(t *testing.T) {
	for _, m := range []*Control{
		{Kind: ControlDescribe, Version: 1, Run: "r", Secret: "s"},
		{Kind: ControlJoin, Version: 1, Run: "r", Secret: "s", Addrs: []string{"/a", "/b"}, Offer: &Offer{Kind: "daemon", Weight: 3, Cores: 2, ModelHash: "m"}},
		{Kind: ControlHello, From: 1<<64 - 3, To: 7},
		{Kind: ControlRun, Body: bytes.Repeat([]byte{7}, 100_000)},
		{Kind: ControlBeat, Fence: 9, Index: 11, Have: true, Reason: "interrupted", Phase: "reduce", Unit: 3, IDs: []uint64{5, 1 << 63}, Saved: "a hash"},
		{Kind: ControlCarried, Version: 2, Run: "r", From: 4, To: 5, Peer: "p", Protocol: ControlProtocol, Generation: 2},
		{Kind: 200, Reason: "a kind of a later version"},
	} {
		b, err := AppendControl([]byte("x"), m)
		if err != nil {
			t.Fatal(err)
		}
		r := bytes.NewReader(b[1:])
		got, err := ReadControl(r, MaxControl)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("kind %d: got %+v, %v", m.Kind, got, err)
		}
		if _, err := ReadControl(r, MaxControl); err != io.EOF {
			t.Errorf("kind %d: at the end: %v", m.Kind, err)
		}
	}
}

func TestControlCaps(t *testing.T) {
	long := strings.Repeat("x", MaxText+1)
	for name, m := range map[string]*Control{
		"reason":    {Kind: ControlGone, Reason: long},
		"secret":    {Kind: ControlJoin, Secret: long},
		"offer":     {Kind: ControlJoin, Offer: &Offer{Backend: long}},
		"address":   {Kind: ControlJoin, Addrs: []string{long}},
		"phase":     {Kind: ControlBeat, Phase: long},
		"protocol":  {Kind: ControlRelay, Protocol: long},
		"ids":       {Kind: ControlBeat, IDs: make([]uint64, MaxIDs+1)},
		"addresses": {Kind: ControlJoin, Addrs: make([]string, MaxAddrs+1)},
		"payload":   {Kind: ControlReady, Body: make([]byte, MaxPayload+1)},
		"run":       {Kind: ControlRun, Body: make([]byte, MaxRun+1)},
	} {
		b, err := AppendControl(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadControl(bytes.NewReader(b), MaxControl); !errors.Is(err, ErrTooLong) {
			t.Errorf("%s: %v, want ErrTooLong", name, err)
		}
	}
	if _, err := AppendControl(nil, &Control{Kind: ControlRaft, Body: make([]byte, MaxControl)}); !errors.Is(err, ErrTooLong) {
		t.Errorf("too long to send: %v", err)
	}
	if _, err := DecodeControl([]byte{0xa0}); err == nil {
		t.Error("a message without a kind was accepted")
	}
}

// A length of 2^40 inside a message, the largest outer length, and the largest allowed one with nothing behind it.
func TestControlLengthsCostNoMemory(t *testing.T) {
	inner := []byte{0xa1, 12, 0x5b, 0, 0, 1, 0, 0, 0, 0, 0} // {12: byte string of 2^40}
	framed := func(n uint32, b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, n), b...) }
	for name, b := range map[string][]byte{
		"inner":   framed(uint32(len(inner)), inner),
		"outer":   framed(1<<32-1, []byte{1}),
		"allowed": framed(MaxControl, []byte{1}),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ReadControl(bytes.NewReader(b), MaxControl)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
			t.Errorf("%s: cost %d bytes", name, used)
		}
	}
}

func FuzzReadControl(f *testing.F) {
	for _, m := range []*Control{
		{Kind: ControlJoin, Version: 1, Run: "r", Secret: "s", Addrs: []string{"/a"}, Offer: &Offer{Kind: "daemon"}},
		{Kind: ControlRaft, From: 1, To: 2, Body: []byte{1, 2, 3}},
		{Kind: ControlBeat, Fence: 3, Have: true, Phase: "gather", Unit: 2, IDs: []uint64{7}},
		{Kind: ControlRelay, Version: 2, Run: "r", From: 1, To: 2, Protocol: ControlProtocol},
	} {
		b, err := AppendControl(nil, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0, 0, 0, 11, 0xa1, 12, 0x5b, 0, 0, 1, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ReadControl(bytes.NewReader(b), MaxHandshake)
		if err != nil {
			return
		}
		again, err := AppendControl(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadControl(bytes.NewReader(again), MaxControl)
		if err != nil {
			t.Fatalf("does not decode again: %v", err)
		}
		third, err := AppendControl(nil, got)
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("encoding is not deterministic: %v", err)
		}
	})
}
