package data

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"shoal/model"
)

func TestTextSamples(t *testing.T) {
	text := make([]byte, 40) // 36 for training, 4 held out
	for i := range text {
		text[i] = byte(i + 1)
	}
	train, held, err := open(t, Shape{Context: 10, Vocab: 256, Eval: 5}, "text", text)
	if err != nil {
		t.Fatal(err)
	}
	if train.Spec() != (model.Spec{Tokens: 10, Labels: 10}) || train.Len() != 4 || held.Len() != 1 {
		t.Fatalf("%d and %d samples of %+v", train.Len(), held.Len(), train.Spec())
	}
	b := model.Batch{Floats: []float32{1}}
	if err := train.Read([]int{3, 0}, &b); err != nil {
		t.Fatal(err)
	}
	wantTokens := []int32{31, 32, 33, 34, 35, 36, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	wantLabels := []int32{32, 33, 34, 35, 36, -1, -1, -1, -1, -1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	if b.N != 2 || len(b.Floats) != 0 || !slices.Equal(b.Tokens, wantTokens) || !slices.Equal(b.Labels, wantLabels) {
		t.Errorf("tokens %v\nlabels %v\nwant   %v\n       %v", b.Tokens, b.Labels, wantTokens, wantLabels)
	}
	if err := held.Read([]int{0}, &b); err != nil {
		t.Fatal(err)
	}
	if want := []int32{38, 39, 40, -1, -1, -1, -1, -1, -1, -1}; b.Tokens[0] != 37 || !slices.Equal(b.Labels, want) {
		t.Errorf("held out: tokens %v, labels %v", b.Tokens, b.Labels)
	}
	for _, i := range []int{-1, 4} {
		if err := train.Read([]int{i}, &b); err == nil {
			t.Errorf("sample %d of 4 was read", i)
		}
	}
}

// Each token but a part's first is predicted once, from the one before it, whatever the lengths.
func TestEachTokenIsPredictedOnce(t *testing.T) {
	for _, c := range []struct{ n, context, train, held int }{
		{2, 1, 1, 0}, {3, 1, 2, 0}, {9, 8, 1, 0}, {10, 8, 2, 0}, // too short to be cut
		{11, 8, 1, 1}, {18, 8, 2, 1}, {20, 8, 3, 1}, {100, 1, 89, 9}, {100, 8, 12, 2}, {100, 89, 1, 1}, {100, 88, 2, 1}, {2000, 100, 18, 2},
	} {
		t.Run(fmt.Sprintf("%d by %d", c.n, c.context), func(t *testing.T) {
			train, held, err := open(t, Shape{Context: c.context, Vocab: c.n + 1, Width: 16, Eval: 1 << 20}, "tokens", ids(2, counting(c.n)...))
			if err != nil {
				t.Fatal(err)
			}
			heldLen := 0
			if held != nil {
				heldLen = held.Len()
			}
			if train.Len() != c.train || heldLen != c.held {
				t.Fatalf("%d and %d samples, want %d and %d", train.Len(), heldLen, c.train, c.held)
			}
			next := int32(2) // the token to be predicted
			for _, s := range []Samples{train, held} {
				if s == nil {
					continue
				}
				var b model.Batch
				if err := s.Read(upTo(s.Len()), &b); err != nil {
					t.Fatal(err)
				}
				for k, label := range b.Labels {
					switch {
					case label == -1 && k >= len(b.Labels)-c.context: // the end of the last sample
					case label == next && b.Tokens[k] == next-1:
						next++
					default:
						t.Fatalf("at place %d label %d follows token %d, want %d", k, label, b.Tokens[k], next)
					}
				}
				if next == int32(c.n)+1 {
					break
				}
				next++ // the first token of the part that is held out
			}
			if next != int32(c.n)+1 {
				t.Errorf("token %d is not predicted", next)
			}
		})
	}
}

func TestHeldOutSamplesAreLimited(t *testing.T) {
	for eval, want := range map[int]int{1: 1, 5: 5, 12: 12, 13: 13, 14: 13, 1 << 24: 13} {
		_, held, err := open(t, Shape{Context: 8, Vocab: 256, Eval: eval}, "text", make([]byte, 1000))
		if err != nil || held.Len() != want {
			t.Errorf("at most %d: %v, %v, want %d", eval, held, err, want)
		}
	}
	if _, held, err := open(t, Shape{Context: 8, Vocab: 256}, "text", make([]byte, 1000)); held != nil || err != nil {
		t.Errorf("none: %v, %v", held, err)
	}
}

func TestTokenWidths(t *testing.T) {
	list := []int{0, 1, 255, 256, 50256, 65535, 3, 2, 1, 7}
	for _, width := range []int{2, 4} {
		train, _, err := open(t, Shape{Context: 9, Vocab: 65536, Width: 8 * width}, "tokens", ids(width, list...))
		if err != nil {
			t.Fatal(err)
		}
		var b model.Batch
		if err := train.Read([]int{0}, &b); err != nil {
			t.Fatal(err)
		}
		for k := range 9 {
			if b.Tokens[k] != int32(list[k]) {
				t.Errorf("%d bits: token %d is %d, want %d", 8*width, k, b.Tokens[k], list[k])
			}
		}
	}
}

func TestWrongTokens(t *testing.T) {
	const context = 16
	good := ids(2, counting(100)...)
	id := func(width, at, value int) []byte {
		list := counting(100)
		list[at] = value
		return ids(width, list...)
	}
	for _, c := range []struct {
		name, kind string
		width      int
		file       []byte
		want       string // empty: no error
	}{
		{"empty text", "text", 0, nil, "text: it has 0 bytes, 0 tokens: at least 17 (17 bytes) are needed, model.context and one to predict"},
		{"a text of one byte", "text", 0, []byte("a"), "it has 1 bytes, 1 tokens: at least 17 (17 bytes) are needed"},
		{"a text of one byte less than a sample", "text", 0, make([]byte, context-1), "it has 15 bytes, 15 tokens: at least 17"},
		{"a text without one to predict", "text", 0, make([]byte, context), "it has 16 bytes, 16 tokens: at least 17"},
		{"the shortest text", "text", 0, make([]byte, context+1), ""},
		{"no tokens", "tokens", 16, nil, "tokens: it has 0 bytes, 0 tokens: at least 17 (34 bytes)"},
		{"one token", "tokens", 32, ids(4, 1), "it has 4 bytes, 1 tokens"},
		{"cut inside a token", "tokens", 16, good[:99], "byte 98: it is cut short or not of 16-bit tokens (data.width): 1 bytes are left over"},
		{"cut inside a wide token", "tokens", 32, ids(4, counting(100)...)[:99], "byte 96: it is cut short or not of 32-bit tokens (data.width): 3 bytes"},
		{"id", "tokens", 16, id(2, 17, 101), "byte 34: the id of token 17 is 101, model.vocab allows 0 to 100 (data.width is 16)"},
		{"wide id", "tokens", 32, id(4, 17, 101), "byte 68: the id of token 17 is 101"},
		{"negative id", "tokens", 32, id(4, 17, -1), "byte 68: the id of token 17 is 4294967295"},
		{"id held out", "tokens", 16, id(2, 99, 65535), "byte 198: the id of token 99 is 65535"},
		{"32 bits said to be 16", "tokens", 16, ids(4, counting(100)...), "byte 2: every second id is 0: these are tokens of 32 bits, set data.width to 32"},
		{"16 bits said to be 32", "tokens", 32, good, "byte 0: the id of token 0 is 131073, model.vocab allows 0 to 100 (data.width is 32)"},
		{"a text", "tokens", 16, []byte(strings.Repeat("some text ", 20)), "byte 0: the id of token 0 is 28531"},
		{"big endian", "tokens", 16, append([]byte{0, 1}, good...), "byte 0: the id of token 0 is 256"},
	} {
		t.Run(c.name, func(t *testing.T) {
			vocab := 101
			if c.kind == "text" {
				vocab = 256
			}
			err := readAll(open(t, Shape{Context: context, Vocab: vocab, Width: c.width, Eval: 100}, c.kind, c.file))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
	for _, s := range []Shape{{Context: 0, Vocab: 256}, {Context: -1, Vocab: 256}, {Context: 8, Vocab: 255}} {
		if _, _, err := open(t, s, "text", make([]byte, 100)); err == nil {
			t.Errorf("%+v was accepted", s)
		}
	}
	for _, width := range []int{0, 8, 24, 64} {
		if _, _, err := open(t, Shape{Context: 8, Vocab: 256, Width: width}, "tokens", make([]byte, 96)); err == nil {
			t.Errorf("tokens of %d bits were accepted", width)
		}
	}
}

func FuzzTokens(f *testing.F) {
	f.Add(ids(2, counting(50)...), uint8(16), uint16(100), uint8(8))
	f.Add(ids(4, counting(50)...), uint8(16), uint16(100), uint8(8))
	f.Add(ids(4, counting(50)...), uint8(32), uint16(20), uint8(200))
	f.Add([]byte("abc"), uint8(8), uint16(256), uint8(1))
	f.Fuzz(func(t *testing.T, file []byte, width uint8, vocab uint16, context uint8) {
		for _, kind := range []string{"text", "tokens"} {
			train, held, err := open(t, Shape{Context: int(context), Vocab: int(vocab), Width: int(width), Eval: 3}, kind, file)
			if err := readAll(train, held, err); err != nil && strings.Contains(err.Error(), "Check allows") {
				t.Fatal(err)
			}
		}
	})
}
