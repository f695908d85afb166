package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
)

func elements(v ...int32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}

func TestNarrow(t *testing.T) {
	many := make([]int32, 5000)
	for i := range many {
		many[i] = int32(i)
	}
	late := append(bytes.Clone(elements(many...)), elements(1<<15)...)
	for _, c := range []struct {
		name string
		src  []byte
		want Form
	}{
		{"nothing", nil, Whole}, {"no whole element", []byte{1, 0, 0}, Whole}, {"zero", elements(0), Low},
		{"the ends of int16", elements(1<<15-1, -1<<15), Low}, {"above", elements(1 << 15), Whole}, {"below", elements(-1<<15 - 1), Whole},
		{"bf16", elements(0x3f80<<16, -1<<16, 0), High}, {"the smallest upper half", elements(1 << 16), High},
		{"neither", elements(1, 1<<16), Whole}, {"many", elements(many...), Low}, {"the last one does not fit", late, Whole},
	} {
		got, f := Narrow([]byte("kept"), c.src)
		half, ok := bytes.CutPrefix(got, []byte("kept"))
		if f != c.want || !ok {
			t.Errorf("%s: form %d, want %d", c.name, f, c.want)
			continue
		}
		if f == Whole {
			if len(half) > 0 {
				t.Errorf("%s: %d bytes were appended", c.name, len(half))
			}
			continue
		}
		if back := widened(t, half, f); !bytes.Equal(back, c.src) {
			t.Errorf("%s: other elements came back", c.name)
		}
	}
}

// widened is what the receiver of half makes of it.
func widened(t *testing.T, half []byte, f Form) []byte {
	t.Helper()
	back := append(bytes.Clone(half), bytes.Repeat([]byte{0xA5}, len(half))...)
	Widen(back, f)
	return back
}

func FuzzNarrow(f *testing.F) {
	f.Add(elements(1, -2, 3))
	f.Add(elements(1<<16, 0x7fff<<16))
	f.Add(elements(1, 1<<20))
	f.Fuzz(func(t *testing.T, src []byte) {
		half, form := Narrow(nil, src)
		if form == Whole {
			if len(half) > 0 {
				t.Fatalf("%d bytes of whole elements", len(half))
			}
			return
		}
		if 2*len(half) != len(src) || !bytes.Equal(widened(t, half, form), src) {
			t.Fatalf("%x became %x, which is not the same in form %d", src, half, form)
		}
	})
}

func BenchmarkNarrow(b *testing.B) {
	for form, shift := range map[Form]int{Low: 0, High: 16, Whole: 8} {
		b.Run(fmt.Sprint("form ", form), func(b *testing.B) {
			v := make([]int32, 256<<10)
			for i := range v {
				v[i] = int32(i%200+1) << shift
			}
			src := elements(v...)
			dst := make([]byte, 0, len(src))
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if _, got := Narrow(dst, src); got != form {
					b.Fatalf("form %d", got)
				}
			}
		})
	}
}
