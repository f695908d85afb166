package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// tensors are the kinds of content that travel, each as a function of the number of elements.
var tensors = map[string]struct {
	width int
	fill  func(r *rand.Rand, b []byte)
}{
	"bf16 parameters": {2, func(r *rand.Rand, b []byte) {
		for i := 0; i < len(b); i += 2 {
			binary.LittleEndian.PutUint16(b[i:], uint16(math.Float32bits(float32(r.NormFloat64()*0.02))>>16))
		}
	}},
	"fp32 gradients": {4, func(r *rand.Rand, b []byte) {
		for i := 0; i < len(b); i += 4 {
			binary.LittleEndian.PutUint32(b[i:], math.Float32bits(float32(r.NormFloat64()*1e-4)))
		}
	}},
	"fixed32 gradients": {4, func(r *rand.Rand, b []byte) {
		for i := 0; i < len(b); i += 4 {
			binary.LittleEndian.PutUint32(b[i:], uint32(int32(r.NormFloat64()*(1<<18))))
		}
	}},
	"zeros":    {4, func(*rand.Rand, []byte) {}},
	"one byte": {2, func(_ *rand.Rand, b []byte) { b[0] = 9 }},
	"random": {4, func(r *rand.Rand, b []byte) {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}},
}

func tensor(name string, elements int, seed uint64) (b []byte, width int) {
	k := tensors[name]
	b = make([]byte, elements*k.width)
	if elements > 0 {
		k.fill(rand.New(rand.NewPCG(seed, 0)), b)
	}
	return b, k.width
}

func TestUnpackOfPackIsTheSame(t *testing.T) {
	for name := range tensors {
		for _, n := range []int{0, 1, 2, 3, 7, 13, 255, 256, 1000, blockElements - 1, blockElements, blockElements + 1, 3*blockElements + 5} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				src, width := tensor(name, n, uint64(n))
				prefix := []byte("kept")
				packed, err := Pack(bytes.Clone(prefix), src, width)
				if err != nil {
					t.Fatal(err)
				}
				packed, ok := bytes.CutPrefix(packed, prefix)
				if !ok {
					t.Fatal("Pack changed what was there")
				}
				if len(packed) > MaxPacked(len(src), width) {
					t.Fatalf("%d bytes became %d, more than MaxPacked %d", len(src), len(packed), MaxPacked(len(src), width))
				}
				got := bytes.Repeat([]byte{0xA5}, len(src))
				if err := Unpack(got, packed, width); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, src) {
					t.Fatal("other bytes came back")
				}
			})
		}
	}
}

func TestPackShrinks(t *testing.T) {
	// Bytes per element at most, a little above what was measured on trained models.
	for name, most := range map[string]float64{"bf16 parameters": 1.45, "fp32 gradients": 3.5, "fixed32 gradients": 3.2, "zeros": 0.01} {
		src, width := tensor(name, 256<<10, 1)
		packed, err := Pack(nil, src, width)
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(len(packed)) / (256 << 10); got > most {
			t.Errorf("%s: %.2f bytes per element, want at most %.2f", name, got, most)
		}
	}
}

func TestUnpackRefuses(t *testing.T) {
	src, width := tensor("bf16 parameters", 5000, 3)
	good, err := Pack(nil, src, width)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	for name, packed := range map[string][]byte{
		"empty":          {},
		"cut":            good[:len(good)-1],
		"one more":       append(bytes.Clone(good), 0),
		"unknown method": edit(func(b []byte) []byte { b[0] = 77; return b }),
		"huge plane":     {planeHuff0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3},
		"short length":   {planeHuff0, 1, 0},
		"empty table":    {planeHuff0, 0, 0, 0, 0, planeRepeat, 1},
		"no repeat byte": {planeRepeat},
	} {
		if err := Unpack(make([]byte, len(src)), packed, width); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrCorrupt", name, err)
		}
	}
	for _, n := range []int{0, len(src) - 2, len(src) + 2, 2 * len(src)} {
		if err := Unpack(make([]byte, n), good, width); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes wanted from a packing of %d: got %v, want ErrCorrupt", n, len(src), err)
		}
	}
}

func TestWidths(t *testing.T) {
	for _, width := range []int{-1, 0, 1, 3, 8} {
		if _, err := Pack(nil, make([]byte, 24), width); !errors.Is(err, ErrWidth) {
			t.Errorf("Pack with width %d: %v, want ErrWidth", width, err)
		}
		if err := Unpack(make([]byte, 24), nil, width); !errors.Is(err, ErrWidth) {
			t.Errorf("Unpack with width %d: %v, want ErrWidth", width, err)
		}
	}
	if _, err := Pack(nil, make([]byte, 7), 4); err == nil {
		t.Error("Pack took 7 bytes as elements of 4")
	}
	if err := Unpack(make([]byte, 7), nil, 2); err == nil {
		t.Error("Unpack took 7 bytes as elements of 2")
	}
}

func FuzzUnpack(f *testing.F) {
	for name := range tensors {
		src, width := tensor(name, 300, 5)
		packed, err := Pack(nil, src, width)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed, uint32(len(src)), width == 4)
	}
	f.Add([]byte{planeHuff0, 0xff, 0xff, 0xff, 0xff}, uint32(8), false)
	f.Fuzz(func(t *testing.T, packed []byte, n uint32, wide bool) {
		width := 2
		if wide {
			width = 4
		}
		dst := make([]byte, int(n%(1<<19))/width*width)
		if err := Unpack(dst, packed, width); err != nil {
			return
		}
		again, err := Pack(nil, dst, width)
		if err != nil {
			t.Fatal(err)
		}
		back := make([]byte, len(dst))
		if err := Unpack(back, again, width); err != nil || !bytes.Equal(back, dst) {
			t.Fatalf("what Unpack accepted does not survive Pack and Unpack: %v", err)
		}
	})
}

func FuzzPack(f *testing.F) {
	f.Add([]byte("some bytes that repeat repeat repeat repeat"), uint16(40))
	f.Fuzz(func(t *testing.T, seed []byte, times uint16) {
		src := bytes.Repeat(seed, int(times%4096))
		if len(src) > 1<<20 {
			return
		}
		for _, width := range []int{2, 4} {
			src := src[:len(src)/width*width]
			packed, err := Pack(nil, src, width)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(src))
			if err := Unpack(got, packed, width); err != nil || !bytes.Equal(got, src) {
				t.Fatalf("width %d: other bytes came back: %v", width, err)
			}
		}
	})
}

func BenchmarkPack(b *testing.B) {
	for _, name := range []string{"bf16 parameters", "fixed32 gradients"} {
		b.Run(name, func(b *testing.B) {
			src, width := tensor(name, 256<<10, 1)
			dst := make([]byte, 0, MaxPacked(len(src), width))
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				packed, err := Pack(dst, src, width)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(packed))/(256<<10), "bytes/element")
			}
		})
	}
}

func BenchmarkUnpack(b *testing.B) {
	for _, name := range []string{"bf16 parameters", "fixed32 gradients"} {
		b.Run(name, func(b *testing.B) {
			src, width := tensor(name, 256<<10, 1)
			packed, err := Pack(nil, src, width)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if err := Unpack(src, packed, width); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
