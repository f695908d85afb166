package data

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/model"
)

// write makes a file whose last change is long ago.
func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	age(t, path, time.Hour)
}

func age(t testing.TB, path string, by time.Duration) {
	t.Helper()
	then := time.Now().Add(-by)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

func zip(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// folder writes mnist's four files, each under the name that as gives it.
func folder(t testing.TB, files [][]byte, as func(i int, name string, b []byte) (string, []byte)) string {
	t.Helper()
	dir := t.TempDir()
	for i, name := range mnistFiles {
		b := files[i]
		if as != nil {
			name, b = as(i, name, b)
		}
		write(t, filepath.Join(dir, name), b)
	}
	return dir
}

func local(t testing.TB, kind, path string) *Local {
	t.Helper()
	l, err := OpenLocal(t.Context(), kind, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Names and packing are each peer's own: the data set is the same.
func TestNamesOfIdxFiles(t *testing.T) {
	files := little()
	want := newMemory(t, "mnist", files...).manifest
	for name, as := range map[string]func(i int, name string, b []byte) (string, []byte){
		"plain": nil,
		"dotted": func(_ int, name string, b []byte) (string, []byte) {
			return strings.Replace(name, "-idx", ".idx", 1), b
		},
		"packed":             func(_ int, name string, b []byte) (string, []byte) { return name + ".gz", zip(t, b) },
		"packed, plain name": func(_ int, name string, b []byte) (string, []byte) { return name, zip(t, b) },
		"unpacked .gz":       func(_ int, name string, b []byte) (string, []byte) { return name + ".gz", b },
		"some packed": func(i int, name string, b []byte) (string, []byte) {
			if i%2 == 0 {
				return strings.Replace(name, "-idx", ".idx", 1) + ".gz", zip(t, b)
			}
			return name, b
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := local(t, "mnist", folder(t, files, as))
			if got := l.Manifest(); got.Compare(want.Identity) != "" || !slices.Equal(got.Leaves, want.Leaves) {
				t.Errorf("manifest %+v, want %+v", got, want)
			}
			train, held, err := Open(t.Context(), l.Manifest(), l, littleShape)
			if err := readAll(train, held, err); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFilesThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), []byte("x"))
	packed := zip(t, little()[0])
	damaged := slices.Clone(packed)
	damaged[len(damaged)-6]++ // the checksum
	as := func(b []byte) func(int, string, []byte) (string, []byte) {
		return func(i int, name string, old []byte) (string, []byte) {
			if i == 0 {
				return name + ".gz", b
			}
			return name, old
		}
	}
	missing := folder(t, little(), nil)
	if err := os.Remove(filepath.Join(missing, mnistFiles[3])); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, kind, path, want string }{
		{"kind", "images", dir, `no kind "images" of files, there are mnist:DIR, text:FILE, tokens:FILE`},
		{"no folder", "mnist", filepath.Join(dir, "none"), "none"},
		{"no file", "text", filepath.Join(dir, "none"), "none"},
		{"a file for a folder", "mnist", filepath.Join(dir, "file"), "file is no folder, mnist:DIR is one with train-images-idx3-ubyte"},
		{"a folder for a file", "text", dir, "is not a file"},
		{"an empty folder", "mnist", dir, "there is no train-images-idx3-ubyte, neither train-images.idx3-ubyte nor with .gz"},
		{"one file missing", "mnist", missing, "there is no t10k-labels-idx1-ubyte"},
		{"a cut gzip file", "mnist", folder(t, little(), as(packed[:len(packed)/2])), "train-images-idx3-ubyte.gz: gzip: damaged after"},
		{"a damaged gzip file", "mnist", folder(t, little(), as(damaged)), "train-images-idx3-ubyte.gz: gzip: damaged after 496 unpacked bytes: gzip: invalid checksum"},
		{"a gzip file of two bytes", "mnist", folder(t, little(), as(packed[:2])), "train-images-idx3-ubyte.gz: gzip: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := OpenLocal(t.Context(), c.kind, c.path)
			if err == nil {
				l.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
		})
	}
	if runtime.GOOS != "windows" {
		if _, err := OpenLocal(t.Context(), "text", os.DevNull); err == nil || !strings.Contains(err.Error(), "is not a file") {
			t.Errorf("a device: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := OpenLocal(ctx, "text", filepath.Join(dir, "file")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A small file may unpack to very much. The claim at its end is not believed.
func TestGunzipIsLimited(t *testing.T) {
	b := zip(t, make([]byte, 100))
	copy(b[len(b)-4:], []byte{255, 255, 255, 255})
	if _, err := gunzip(bytes.NewReader(b), int64(len(b))); err == nil {
		t.Error("a wrong length was accepted")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	gunzip(bytes.NewReader(b), int64(len(b)))
	runtime.ReadMemStats(&after)
	grown := after.TotalAlloc - before.TotalAlloc
	if grown > 1<<20 {
		t.Errorf("%d bytes were allocated for a file of %d", grown, len(b))
	}
}

// threeChunks is a text that fills two chunks and a bit, in a file, with its path.
func threeChunks(t testing.TB) (*Local, string) {
	path := filepath.Join(t.TempDir(), "text")
	write(t, path, pixels(2*ChunkSize+100))
	return local(t, "text", path), path
}

// poke changes bytes of a file in place, or its length if there are none.
func poke(t *testing.T, path string, offset int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b == nil {
		err = f.Truncate(offset)
	} else {
		_, err = f.WriteAt(b, offset)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestChangedFiles(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, path string)
		want   [3]string // by chunk: part of the error
	}{
		{"untouched", func(*testing.T, string) {}, [3]string{}},
		{"touched", func(t *testing.T, path string) { age(t, path, 0) }, [3]string{}},
		{"one byte", func(t *testing.T, path string) { poke(t, path, ChunkSize+5, []byte("?")) },
			[3]string{1: "bytes 1048576 to 2097151: the file changed since the run began"}},
		{"the last byte", func(t *testing.T, path string) { poke(t, path, 2*ChunkSize+99, []byte("?")) },
			[3]string{2: "bytes 2097152 to 2097251: the file changed since the run began"}},
		{"longer", func(t *testing.T, path string) { poke(t, path, 2*ChunkSize+100, []byte("?")) },
			[3]string{"it had 2097252 bytes and has 2097253: the file", "it had", "it had"}},
		{"shorter", func(t *testing.T, path string) { poke(t, path, 9, nil) },
			[3]string{"it had 2097252 bytes and has 9: the file", "it had", "it had"}},
		{"another file of this name", func(t *testing.T, path string) {
			if runtime.GOOS == "windows" {
				t.Skip("an open file keeps its name")
			}
			if err := os.Rename(path, path+".old"); err != nil {
				t.Fatal(err)
			}
			write(t, path, []byte("another"))
		}, [3]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, path := threeChunks(t)
			for range 2 { // the second time, hashes are known
				for i := range 3 {
					if _, err := l.Chunk(t.Context(), i); err != nil {
						t.Fatal(err)
					}
				}
			}
			c.change(t, path)
			for i, want := range c.want {
				b, err := l.Chunk(t.Context(), i)
				switch {
				case want == "" && (err != nil || !l.Manifest().Verify(i, b)):
					t.Errorf("chunk %d: %v", i, err)
				case want != "" && (!errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)):
					t.Errorf("chunk %d: error is %v, want one with %q and %s", i, err, want, path)
				}
			}
		})
	}
}

// A change right after the file was opened may leave its time as it is: such a file's hashes are not taken as known.
func TestChangeWithinTheClocksGrain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte("some text"), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		t.Fatal(err)
	}
	l := local(t, "text", path)
	if _, err := l.Chunk(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	poke(t, path, 3, []byte("?"))
	if err := os.Chtimes(path, now, now); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Chunk(t.Context(), 0); !errors.Is(err, ErrChanged) {
		t.Errorf("error is %v, want %v", err, ErrChanged)
	}
}

// Between the look at the file and the reading of its bytes somebody may cut it: mapped pages are gone then.
func TestMappedPagesThatAreGone(t *testing.T) {
	l, path := threeChunks(t)
	b, err := l.Chunk(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := l.files[0].view.(*inMemory); !ok || v.unmap == nil {
		t.Skip("files are not mapped here")
	}
	poke(t, path, 9, nil)
	if err := guarded(func() { copy(make([]byte, len(b)), b) }); !errors.Is(err, ErrChanged) {
		t.Errorf("error is %v, want %v", err, ErrChanged)
	}
	defer func() {
		if recover() == nil {
			t.Error("guarded hides other panics")
		}
	}()
	guarded(func() { panic("other") })
}

func TestSamplesOfAChangedFile(t *testing.T) {
	l, path := threeChunks(t)
	train, _, err := Open(t.Context(), l.Manifest(), l, Shape{Context: 64, Vocab: 256})
	if err != nil {
		t.Fatal(err)
	}
	var b model.Batch
	if err := train.Read([]int{0, 20000}, &b); err != nil {
		t.Fatal(err)
	}
	poke(t, path, 20000*64, []byte("?"))
	if err := train.Read([]int{0}, &b); err != nil {
		t.Errorf("a part that did not change: %v", err)
	}
	if err := train.Read([]int{20000}, &b); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), path) {
		t.Errorf("error is %v, want %v and %s", err, ErrChanged, path)
	}
}

// Where files cannot be mapped, the same bytes come from reading.
func TestOnDisk(t *testing.T) {
	l, path := threeChunks(t)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v := &onDisk{f: f}
	for range 2 {
		for i := range 3 {
			_, offset, n := l.Manifest().Place(i)
			b, err := v.chunk(offset, n)
			if err != nil || !l.Manifest().Verify(i, b) {
				t.Errorf("chunk %d: %v", i, err)
			}
		}
	}
	for i := range 3 * maxKept {
		if _, err := v.chunk(int64(i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if len(v.kept) > maxKept {
		t.Errorf("%d chunks are kept, at most %d should be", len(v.kept), maxKept)
	}
	poke(t, path, 0, []byte("?"))
	v.forget()
	if b, err := v.chunk(0, 1); err != nil || b[0] != '?' {
		t.Errorf("after a change it reads %q, %v", b, err)
	}
	if _, err := v.chunk(2*ChunkSize, 1000); err == nil {
		t.Error("bytes beyond the end were read")
	}
}

func TestChunkOfNothing(t *testing.T) {
	l, _ := threeChunks(t)
	for _, i := range []int{-1, 3} {
		if _, err := l.Chunk(t.Context(), i); err == nil {
			t.Errorf("chunk %d of 3 was given", i)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Chunk(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestSamplesEndWithTheirContext(t *testing.T) {
	l, _ := threeChunks(t)
	ctx, cancel := context.WithCancel(t.Context())
	train, _, err := Open(ctx, l.Manifest(), l, Shape{Context: 64, Vocab: 256})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := train.Read([]int{0}, new(model.Batch)); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

func FuzzGunzip(f *testing.F) {
	f.Add(zip(f, []byte("some text")))
	f.Add(zip(f, nil))
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := gunzip(bytes.NewReader(b), int64(len(b)))
		if err == nil && len(out) > 1032*len(b) {
			t.Fatalf("%d bytes of %d", len(out), len(b))
		}
	})
}

func BenchmarkImages(b *testing.B) {
	l := local(b, "mnist", mnistFolder(b))
	train, _, err := Open(b.Context(), l.Manifest(), l, Shape{Image: 28, Classes: 10})
	if err != nil {
		b.Fatal(err)
	}
	var batch model.Batch
	b.SetBytes(64 * 28 * 28 * 4)
	for i := 0; b.Loop(); i++ {
		_, indices := Batch(1, train.Len(), 64, i)
		if err := train.Read(indices, &batch); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkText(b *testing.B) {
	l, _ := threeChunks(b)
	train, _, err := Open(b.Context(), l.Manifest(), l, Shape{Context: 128, Vocab: 256})
	if err != nil {
		b.Fatal(err)
	}
	var batch model.Batch
	b.SetBytes(64 * 128)
	for i := 0; b.Loop(); i++ {
		_, indices := Batch(1, train.Len(), 64, i)
		if err := train.Read(indices, &batch); err != nil {
			b.Fatal(err)
		}
	}
}
