package data

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"slices"
	"testing"

	"shoal/kernel"
	"shoal/model"
)

var sheet = flag.String("sheet", "", "write a contact sheet of digits to this PNG")

func newDigits(t testing.TB, cfg DigitsConfig) *Digits {
	t.Helper()
	d, err := NewDigits(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func upTo(n int) []int {
	indices := make([]int, n)
	for i := range indices {
		indices[i] = i
	}
	return indices
}

// The bits are part of every run's hash: a new value here needs a new version in Describe.
func TestDigitsGolden(t *testing.T) {
	for _, c := range []struct {
		name, want string
		cfg        DigitsConfig
	}{
		{"training", "c15ef41a083194836950506c1519cb53909c87ffe2f2365ccdec01f3ce06fc8b", DigitsConfig{Seed: 1, Count: 100}},
		{"held out", "2e27239ea79862c35f4c45988de22aebd62678952996a233bde25858214127cb", DigitsConfig{Seed: 1, First: HeldOut, Count: 100}},
		{"other seed", "5660ba770dde071af06bf9b4950f6c89df4fee969fafbeebe099df5afe708bab", DigitsConfig{Seed: 1 << 63, Count: 100}},
		{"small", "a040313821bf3a653cce299c07886ba55e48b68571ffc52369ed3e726ff61200", DigitsConfig{Seed: 1, Image: 7, Count: 100}},
		{"large", "d5c0d699b2db76db31bb6772c4cbc8b2b709b1356202d57b04674aa0829a6a1b", DigitsConfig{Seed: 1, Image: 224, Count: 100}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b model.Batch
			if err := newDigits(t, c.cfg).Read(upTo(100), &b); err != nil {
				t.Fatal(err)
			}
			h := sha256.New()
			h.Write(kernel.Bytes(b.Floats))
			h.Write(kernel.Bytes(b.Labels))
			if got := hex.EncodeToString(h.Sum(nil)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestDigitsAreFunctionsOfTheirIndex(t *testing.T) {
	d := newDigits(t, DigitsConfig{Seed: 3, Count: 50})
	size := d.Spec().Floats
	var all, one model.Batch
	if err := d.Read(upTo(50), &all); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{49, 0, 7} {
		if err := d.Read([]int{i}, &one); err != nil {
			t.Fatal(err)
		}
		if one.N != 1 || !slices.Equal(one.Floats, all.Floats[i*size:(i+1)*size]) || one.Labels[0] != all.Labels[i] {
			t.Errorf("digit %d read alone differs from digit %d of a batch", i, i)
		}
	}
	shifted := newDigits(t, DigitsConfig{Seed: 3, First: 7, Count: 1})
	if err := shifted.Read([]int{0}, &one); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(one.Floats, all.Floats[7*size:8*size]) {
		t.Error("digit 0 from 7 on is not digit 7 from 0 on")
	}
}

func TestDigitsAreBalancedAndNormalised(t *testing.T) {
	const n = 2000
	var b model.Batch
	if err := newDigits(t, DigitsConfig{Seed: 1, Count: n}).Read(upTo(n), &b); err != nil {
		t.Fatal(err)
	}
	var count [10]int
	for _, l := range b.Labels {
		count[l]++
	}
	for label, c := range count {
		if c != n/10 {
			t.Errorf("%d of %d digits are a %d, want %d", c, n, label, n/10)
		}
	}
	var sum, squares float64
	for _, v := range b.Floats {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	m := sum / float64(len(b.Floats))
	deviation := math.Sqrt(squares/float64(len(b.Floats)) - m*m)
	if math.Abs(m) > 0.02 || math.Abs(deviation-1) > 0.02 {
		t.Errorf("mean %.3f and deviation %.3f, want 0 and 1 within 0.02", m, deviation)
	}
}

// Noise is told from the corners, where no stroke comes.
func TestDigitsNoise(t *testing.T) {
	const n = 2000
	d := newDigits(t, DigitsConfig{Seed: 1, Count: n})
	var b model.Batch
	if err := d.Read(upTo(n), &b); err != nil {
		t.Fatal(err)
	}
	var sum, squares float64
	for i := range n {
		v := (float64(b.Floats[i*d.Spec().Floats])*spread + mean) / white
		sum += v
		squares += v * v
	}
	m := sum / n
	deviation := math.Sqrt(squares/n - m*m)
	if math.Abs(m) > 0.01 || math.Abs(deviation-0.12) > 0.005 {
		t.Errorf("corner has mean %.4f and deviation %.4f, want 0 and 0.12", m, deviation)
	}
}

func TestDigitsErrors(t *testing.T) {
	for _, cfg := range []DigitsConfig{{}, {Count: -1}, {Count: 1, Image: -1}, {Count: 1, Image: MaxImage + 1}} {
		if _, err := NewDigits(cfg); err == nil {
			t.Errorf("NewDigits(%+v) was accepted", cfg)
		}
	}
	d := newDigits(t, DigitsConfig{Count: 5})
	for _, i := range []int{-1, 5} {
		if err := d.Read([]int{0, i}, &model.Batch{}); err == nil {
			t.Errorf("digit %d of 5 was read", i)
		}
	}
	if err := d.Read(nil, &model.Batch{}); err != nil {
		t.Errorf("reading no digit: %v", err)
	}
}

func TestDescribe(t *testing.T) {
	a := newDigits(t, DigitsConfig{Seed: 1, Count: 5}).Describe()
	if b := newDigits(t, DigitsConfig{Seed: 1, Image: 28, Count: 5}).Describe(); a != b {
		t.Errorf("equal digits are described as %q and %q", a, b)
	}
	for _, cfg := range []DigitsConfig{{Seed: 2, Count: 5}, {Seed: 1, Count: 6}, {Seed: 1, Count: 5, First: 1}} {
		if b := newDigits(t, cfg).Describe(); a == b {
			t.Errorf("%+v is described like other digits: %q", cfg, b)
		}
	}
}

func BenchmarkDigits(b *testing.B) {
	d := newDigits(b, DigitsConfig{Seed: 1, Count: 64})
	var batch model.Batch
	indices := upTo(64)
	b.SetBytes(int64(64 * d.Spec().Floats * 4))
	for b.Loop() {
		if err := d.Read(indices, &batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/64, "us/digit")
}

// TestContactSheet draws 16 of each digit for people to look at: go test -run ContactSheet -sheet /tmp/digits.png
func TestContactSheet(t *testing.T) {
	if *sheet == "" {
		t.Skip("no -sheet")
	}
	const columns, zoom, size = 20, 2, 28
	d := newDigits(t, DigitsConfig{Seed: 1, Count: 10 * columns})
	var b model.Batch
	if err := d.Read(upTo(d.Len()), &b); err != nil {
		t.Fatal(err)
	}
	img := image.NewGray(image.Rect(0, 0, columns*size*zoom, 10*size*zoom))
	var used [10]int
	for i, label := range b.Labels {
		x0, y0 := used[label]*size*zoom, int(label)*size*zoom
		used[label]++
		for k, v := range b.Floats[i*size*size : (i+1)*size*size] {
			g := color.Gray{uint8(255 * max(0, min(1, (v*spread+mean)/white)))}
			for p := range zoom * zoom {
				img.SetGray(x0+k%size*zoom+p%zoom, y0+k/size*zoom+p/zoom, g)
			}
		}
	}
	f, err := os.Create(*sheet)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, img); err != nil {
		t.Fatal(err)
	}
}
