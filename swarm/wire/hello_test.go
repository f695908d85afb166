package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func mustHello(t testing.TB, h Hello) []byte {
	t.Helper()
	b, err := AppendHello(nil, h)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestHelloSurvives(t *testing.T) {
	for _, want := range []Hello{
		{Run: "r", From: 1, To: 2, Class: Params},
		{Run: "", From: 1<<64 - 1, To: 0, Class: Params},
		{Run: strings.Repeat("x", MaxRunID), From: 3, To: 4, Generation: 7, Class: Gradients},
		{Run: "r", From: 1, To: 2, Generation: 1<<64 - 1, Class: State},
	} {
		r := bytes.NewReader(append(mustHello(t, want), "more"...))
		got, err := ReadHello(r)
		if err != nil || got != want {
			t.Errorf("read %+v, %v; want %+v", got, err, want)
		}
		if rest, _ := io.ReadAll(r); string(rest) != "more" {
			t.Errorf("%q is left, want what follows the hello", rest)
		}
	}
}

func TestHelloRefused(t *testing.T) {
	good := mustHello(t, Hello{Run: "run", From: 1, To: 2, Class: Params})
	edit := func(at int, b byte) []byte {
		c := bytes.Clone(good)
		c[at] = b
		return c
	}
	for name, c := range map[string]struct {
		bytes []byte
		says  string
	}{
		"magic":    {edit(0, 'X'), "starts with"},
		"version":  {edit(4, 9), "version 9"},
		"run id":   {edit(7, 200), "200 bytes"},
		"flipped":  {edit(8, 77), "checksum"},
		"class":    {mustHello(t, Hello{Class: 9}), "class 9"},
		"no class": {mustHello(t, Hello{}), "class 0"},
	} {
		if _, err := ReadHello(bytes.NewReader(c.bytes)); !errors.Is(err, ErrHello) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want ErrHello that says %q", name, err, c.says)
		}
	}
	for n := range good {
		if _, err := ReadHello(bytes.NewReader(good[:n])); err == nil {
			t.Errorf("the first %d bytes were accepted", n)
		}
	}
	if _, err := AppendHello(nil, Hello{Run: strings.Repeat("x", MaxRunID+1)}); !errors.Is(err, ErrHello) {
		t.Errorf("long run id: %v, want ErrHello", err)
	}
}

func FuzzReadHello(f *testing.F) {
	f.Add(mustHello(f, Hello{Run: "run", From: 1, To: 2, Class: Params}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ReadHello(bytes.NewReader(b))
		if err != nil {
			return
		}
		if again := mustHello(t, h); !bytes.HasPrefix(b, again) {
			t.Fatalf("%x was read as %+v, which is written as %x", b, h, again)
		}
	})
}
