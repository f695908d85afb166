package data

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"shoal/model"
)

var littleShape = Shape{Image: 4, Classes: 10, Eval: 100}

func TestImages(t *testing.T) {
	files := little()
	train, held, err := open(t, littleShape, "mnist", files...)
	if err != nil {
		t.Fatal(err)
	}
	if train.Len() != 30 || held.Len() != 10 || train.Spec() != (model.Spec{Floats: 16, Labels: 1}) {
		t.Errorf("%d and %d samples of %+v", train.Len(), held.Len(), train.Spec())
	}
	b := model.Batch{Tokens: []int32{1}, Floats: make([]float32, 100)}
	if err := train.Read([]int{29, 3}, &b); err != nil {
		t.Fatal(err)
	}
	if b.N != 2 || len(b.Tokens) != 0 || len(b.Floats) != 32 || !slices.Equal(b.Labels, []int32{9, 3}) {
		t.Errorf("batch of %d: %d tokens, %d floats, labels %v", b.N, len(b.Tokens), len(b.Floats), b.Labels)
	}
	for k, got := range b.Floats[:16] {
		if want := normal(int64(files[0][16+29*16+k]) * white / 255); got != want {
			t.Errorf("pixel %d of the last image is %v, want %v", k, got, want)
		}
	}
	for _, i := range []int{-1, 30} {
		if err := train.Read([]int{i}, &b); err == nil {
			t.Errorf("image %d was read", i)
		}
	}
	if normal(0) >= 0 || normal(white) <= 0 || normal(white) != float32(white-mean)/spread {
		t.Errorf("black is %v, white %v", normal(0), normal(white))
	}
	for eval, want := range map[int]int{4: 4, 10: 10, 11: 10} {
		s := littleShape
		s.Eval = eval
		if _, held, err := open(t, s, "mnist", files...); err != nil || held.Len() != want {
			t.Errorf("at most %d held out: %v, %v", eval, held, err)
		}
	}
	s := littleShape
	s.Eval = 0
	if _, held, err := open(t, s, "mnist", files...); err != nil || held != nil {
		t.Errorf("none held out: %v, %v", held, err)
	}
}

// Samples are read from the chunks that have them, and no others.
func TestOnlyTheChunksNeeded(t *testing.T) {
	const n = 3 << 20 / 16
	files := little()
	files[0], files[1] = idx([]int{n, 4, 4}, make([]byte, n*16)), idx([]int{n}, make([]byte, n))
	m := newMemory(t, "mnist", files...)
	train, _, err := Open(t.Context(), &m.manifest, m, littleShape)
	if err != nil {
		t.Fatal(err)
	}
	clear(m.asked)
	var b model.Batch
	if err := train.Read([]int{1 << 16}, &b); err != nil { // 16 bytes past the first MiB
		t.Fatal(err)
	}
	if len(m.asked) != 2 || !m.asked[1] || !m.asked[4] {
		t.Errorf("chunks %v were asked for, want 1 and 4", m.asked)
	}
}

func TestWrongImages(t *testing.T) {
	const images, labels = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
	for _, c := range []struct {
		name   string
		change func(f [][]byte)
		want   []string // parts of the error
	}{
		{"empty", func(f [][]byte) { f[0] = nil }, []string{images, "byte 0: it begins with , an idx file with images begins with 00 00 08 03"}},
		{"no idx", func(f [][]byte) { f[0] = []byte("GIF89a") }, []string{images, "byte 0: it begins with 47 49 46 38"}},
		{"other elements", func(f [][]byte) { f[0][2] = 0x0d }, []string{images, "byte 0: it begins with 00 00 0d 03"}},
		{"labels for images", func(f [][]byte) { f[0], f[1] = f[1], f[0] }, []string{images, "byte 3: it has labels where images should be: are two files swapped"}},
		{"images for labels", func(f [][]byte) { f[3] = f[2] }, []string{"t10k-labels-idx1-ubyte", "byte 3: it has images where labels should be"}},
		{"images of training for those held out", func(f [][]byte) { f[2] = f[0] }, []string{"t10k-labels-idx1-ubyte", "byte 4: it has 10 labels, for 30 images in t10k-images-idx3-ubyte"}},
		{"four dimensions", func(f [][]byte) { f[0][3] = 4 }, []string{images, "byte 3: it has 4 dimensions, images have 3"}},
		{"cut in the magic", func(f [][]byte) { f[0] = f[0][:3] }, []string{images, "byte 0"}},
		{"cut in the header", func(f [][]byte) { f[0] = f[0][:15] }, []string{images, "byte 15: it ends inside the header, which has 16 bytes"}},
		{"only a header", func(f [][]byte) { f[0] = f[0][:16] }, []string{images, "byte 16: it is cut short: its header promises 496 bytes in all for [30 4 4]"}},
		{"cut", func(f [][]byte) { f[0] = f[0][:495] }, []string{images, "byte 495: it is cut short"}},
		{"longer", func(f [][]byte) { f[1] = append(f[1], 0) }, []string{labels, "byte 38: it goes on: its header promises 38 bytes"}},
		{"huge dimensions", func(f [][]byte) { copy(f[0][4:], bytes.Repeat([]byte{255}, 12)) }, []string{images, "byte 8: dimension 1 is 4294967295, which is too large"}},
		{"more labels", func(f [][]byte) { f[1] = idx([]int{31}, classLabels(31)) }, []string{labels, "byte 4: it has 31 labels, for 30 images in " + images}},
		{"no images", func(f [][]byte) { f[0], f[1] = idx([]int{0, 4, 4}, nil), idx([]int{0}, nil) }, []string{images, "byte 4: it has no images"}},
		{"other size", func(f [][]byte) { f[2] = idx([]int{10, 5, 4}, pixels(200)) }, []string{"t10k-images-idx3-ubyte", "byte 8: its images have 5 x 4 pixels, model.image is 4"}},
		{"no rows", func(f [][]byte) { f[0] = idx([]int{30, 0, 4}, nil) }, []string{images, "0 x 4 pixels"}},
		{"label", func(f [][]byte) { f[1][8+17] = 10 }, []string{labels, "byte 25: the label of image 17 is 10, model.classes allows 0 to 9"}},
		{"label held out", func(f [][]byte) { f[3][8] = 255 }, []string{"t10k-labels-idx1-ubyte", "byte 8: the label of image 0 is 255"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := little()
			c.change(files)
			err := readAll(open(t, littleShape, "mnist", files...))
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error is %v, want one with %q", err, want)
				}
			}
		})
	}
}

// readAll checks and reads all samples.
func readAll(train, held Samples, err error) error {
	if err != nil {
		return err
	}
	for _, s := range []Samples{train, held} {
		if s == nil {
			continue
		}
		checked := s.Check()
		var b model.Batch
		read := s.Read(upTo(s.Len()), &b)
		if read != nil && checked == nil {
			return fmt.Errorf("Check allows what Read refuses: %w", read)
		}
		if checked != nil {
			return checked
		}
		if spec := s.Spec(); len(b.Floats) != s.Len()*spec.Floats || len(b.Tokens) != s.Len()*spec.Tokens || len(b.Labels) != s.Len()*spec.Labels {
			return fmt.Errorf("%d samples are %d floats, %d tokens, %d labels", s.Len(), len(b.Floats), len(b.Tokens), len(b.Labels))
		}
	}
	return nil
}

func FuzzImages(f *testing.F) {
	l := little()
	f.Add(l[0], l[1])
	f.Add(l[1], l[0])
	f.Add(l[0][:20], l[1])
	f.Add([]byte{0, 0, 8, 3, 255, 255, 255, 255, 0, 0, 0, 4, 0, 0, 0, 4}, []byte{0, 0, 8, 1, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, images, labels []byte) {
		train, held, err := open(t, littleShape, "mnist", images, labels, l[2], l[3])
		if err := readAll(train, held, err); err != nil && strings.Contains(err.Error(), "Check allows") {
			t.Fatal(err)
		}
	})
}
