package safetensors

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	mrand "math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
)

// example is tensors of several types and shapes, none of them in the order in which they are laid out.
var example = []Tensor{
	{"flags", Bool, []int{3}},
	{"h.0.attn.weight", BF16, []int{5, 7}},
	{"empty", F32, []int{0, 4}},
	{"wte \"ü\n", F32, []int{4, 3}},
	{"scalar", F32, nil},
	{"ids", I64, []int{2, 1, 2}},
}

// values are random bytes for each tensor.
func values(tensors []Tensor) map[string][]byte {
	out := map[string][]byte{}
	for _, t := range tensors {
		out[t.Name] = make([]byte, t.Bytes())
		rand.Read(out[t.Name])
	}
	return out
}

func folderHas(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, want) {
		t.Errorf("folder has %q, want %q", names, want)
	}
}

// Pieces in random order, from several goroutines, give the same file as whole tensors in order.
func TestWriteInAnyOrder(t *testing.T) {
	dir := t.TempDir()
	data, meta := values(example), map[string]string{"format": "pt", "b": "", "a": "<x>"}
	write := func(path string, f func(w *Writer)) []byte {
		w, err := Create(path, example, meta)
		if err != nil {
			t.Fatal(err)
		}
		f(w)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		w.Abort() // does nothing
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	whole := write(filepath.Join(dir, "whole"), func(w *Writer) {
		for name, b := range data {
			if err := w.WriteAt(name, 0, b); err != nil {
				t.Error(err)
			}
		}
	})
	pieces := write(filepath.Join(dir, "pieces"), func(w *Writer) {
		var wait sync.WaitGroup
		for _, tensor := range example {
			size := tensor.DType.Size()
			for _, i := range mrand.Perm(tensor.Elements()) {
				wait.Go(func() {
					if err := w.WriteAt(tensor.Name, i, data[tensor.Name][i*size:(i+1)*size]); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wait.Wait()
	})
	if !bytes.Equal(whole, pieces) {
		t.Error("the files differ")
	}
	folderHas(t, dir, "pieces", "whole")
	checkFile(t, filepath.Join(dir, "whole"), data, meta)
}

// checkFile reads everything back.
func checkFile(t *testing.T, path string, data map[string][]byte, meta map[string]string) {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !maps.Equal(f.Metadata(), meta) {
		t.Errorf("metadata %v", f.Metadata())
	}
	if n := len(f.Tensors()); n != len(example) {
		t.Errorf("%d tensors", n)
	}
	for _, want := range example {
		got, ok := f.Tensor(want.Name)
		if !ok || got.DType != want.DType || fmt.Sprint(got.Shape) != fmt.Sprint(want.Shape) {
			t.Errorf("tensor %+v, want %+v", got, want)
		}
		b := make([]byte, want.Bytes())
		if err := f.ReadAt(want.Name, 0, b); err != nil || !bytes.Equal(b, data[want.Name]) {
			t.Errorf("%s: %v", want.Name, err)
		}
		size := want.DType.Size()
		if at := f.data + f.header.begins[f.header.index[want.Name]]; at%int64(size) != 0 {
			t.Errorf("%s is not aligned: at %d", want.Name, at)
		}
		for i := range want.Elements() {
			one := make([]byte, size)
			if err := f.ReadAt(want.Name, i, one); err != nil || !bytes.Equal(one, b[i*size:][:size]) {
				t.Errorf("%s element %d: %x, %v", want.Name, i, one, err)
			}
		}
		for _, bad := range []error{f.ReadAt(want.Name, -1, nil), f.ReadAt(want.Name, want.Elements(), make([]byte, size)),
			f.ReadAt(want.Name, 0, make([]byte, 8+want.Bytes())), f.ReadAt(want.Name+"x", 0, nil)} {
			if bad == nil {
				t.Errorf("%s: read where nothing is", want.Name)
			}
		}
	}
	if err := f.ReadAt("ids", 0, make([]byte, 7)); err == nil {
		t.Error("read a part of an element")
	}
}

func TestIncomplete(t *testing.T) {
	for _, tc := range []struct {
		name  string
		write map[int]int // element: how many, of tensor b; a is whole
		want  string
	}{
		{"nothing", nil, `"b" was not written from element 0 on`},
		{"end", map[int]int{0: 9}, `"b" was not written from element 9 on`},
		{"middle", map[int]int{0: 4, 5: 5}, `"b" was not written from element 4 on`},
		{"start", map[int]int{1: 9}, `"b" was not written from element 0 on`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			w, err := Create(filepath.Join(dir, "x"), []Tensor{{"a", F32, []int{4}}, {"none", F32, []int{0}}, {"b", F32, []int{10}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.WriteAt("a", 0, make([]byte, 16)); err != nil {
				t.Fatal(err)
			}
			for at, n := range tc.write {
				if err := w.WriteAt("b", at, make([]byte, 4*n)); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %s", err, tc.want)
			}
			folderHas(t, dir)
		})
	}
}

// A file that is there stays until a new one is whole.
func TestAbortLeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := Create(path, []Tensor{{"a", U8, []int{4}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteAt("a", 3, []byte{1, 2}); err == nil {
		t.Error("wrote behind the end")
	}
	w.Abort()
	w.Abort()
	if err := w.Close(); err == nil {
		t.Error("closed what was aborted")
	}
	folderHas(t, dir, "x")
	if b, err := os.ReadFile(path); string(b) != "old" {
		t.Errorf("%q, %v", b, err)
	}
}

// After a write that failed, Close fails with its error, though the bytes may have been written later.
func TestFailedWriteIsRemembered(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(filepath.Join(dir, "x"), []Tensor{{"a", U8, []int{4}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	good := w.f
	if w.f, err = os.Open(w.temp); err != nil { // can't be written to
		t.Fatal(err)
	}
	if err := w.WriteAt("a", 0, make([]byte, 4)); err == nil || !strings.Contains(err.Error(), "bytes in all") {
		t.Errorf("%v", err)
	}
	w.f.Close()
	w.f = good
	if err := w.WriteAt("a", 0, make([]byte, 4)); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err == nil {
		t.Error("closed well after a failed write")
	}
	folderHas(t, dir)
}

func TestCreateRefuses(t *testing.T) {
	big := 1 << 40
	for name, tensors := range map[string][]Tensor{
		"two names alike":  {{"a", F32, nil}, {"a", U8, nil}},
		"reserved name":    {{"__metadata__", F32, nil}},
		"name not UTF-8":   {{"\xff", F32, nil}},
		"unknown dtype":    {{"a", "F4", []int{2}}},
		"negative":         {{"a", F32, []int{2, -1}}},
		"overflow":         {{"a", F32, []int{big, big}}},
		"overflow, zero":   {{"a", F32, []int{0, big, big}}},
		"overflow, sum":    {{"a", U8, []int{1 << 62}}, {"b", U8, []int{1 << 62}}},
		"too many numbers": {{"a", U8, make([]int, maxDims+1)}},
	} {
		dir := t.TempDir()
		if _, err := Create(filepath.Join(dir, "x"), tensors, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
		folderHas(t, dir)
	}
	if _, err := Create(filepath.Join(t.TempDir(), "no", "x"), nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder that is not there: %v", err)
	}
	if _, err := Create(filepath.Join(t.TempDir(), "x"), nil, map[string]string{"a": "\xff"}); err == nil {
		t.Error("metadata that is not UTF-8")
	}
}

// file is a file with that header and so many bytes of data.
func file(head string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(head)))
	return append(append(b, head...), make([]byte, data)...)
}

func TestReadRefuses(t *testing.T) {
	long := func(n uint64) []byte { return append(binary.LittleEndian.AppendUint64(nil, n), "{}"...) }
	for _, tc := range []struct {
		name string
		file []byte
		want string // part of the error; "" for none
	}{
		{"nothing", nil, "too short"},
		{"7 bytes", make([]byte, 7), "too short"},
		{"header of 2^40", long(1 << 40), "cut short"},
		{"header of 2^63", long(1 << 63), "cut short"},
		{"header one byte too long", long(3), "cut short"},
		{"no tensors", long(2), ""},
		{"empty header", long(0), "begin with {"},
		{"space first", file(` {}`, 0), "begin with {"},
		{"not JSON", file(`{"a"`, 0), "not JSON"},
		{"not UTF-8", file("{\"\xff\":1}", 0), "not UTF-8"},
		{"more behind", file(`{}{}`, 0), "behind its end"},
		{"spaces behind", file(`{}   `, 0), ""},
		{"data of no tensor", file(`{}`, 1), "has 1 bytes"},
		{"good", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8), ""},
		{"key order, metadata", file(`{"a":{"data_offsets":[0,8],"shape":[2],"dtype":"F32"},"__metadata__":{"x":"y"}}`, 8), ""},
		{"any order of offsets", file(`{"b":{"dtype":"U8","shape":[1],"data_offsets":[8,9]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 9), ""},
		{"cut data", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 7), "can't be at"},
		{"more data", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 9), "has 9 bytes"},
		{"wrong size", file(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, 8), "can't be at"},
		{"backwards", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}`, 8), "can't be at"},
		{"overlap", file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}`, 6), "overlaps"},
		{"hole", file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}}`, 6), "1 bytes of no tensor"},
		{"hole first", file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}}`, 5), "1 bytes of no tensor"},
		{"twice", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), "two tensors"},
		{"twice, escaped", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), "two tensors"},
		{"key twice", file(`{"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}}`, 1), "twice"},
		{"unknown key", file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}}`, 1), "unknown"},
		{"key missing", file(`{"a":{"dtype":"U8","data_offsets":[0,1]}}`, 1), "needs"},
		{"one offset", file(`{"a":{"dtype":"U8","shape":[],"data_offsets":[0]}}`, 1), "needs"},
		{"three offsets", file(`{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1,1]}}`, 1), "more than 2"},
		{"dtype of half bytes", file(`{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}`, 1), "not supported"},
		{"overflow", file(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0), "larger than any file"},
		{"overflow to a fit", file(`{"a":{"dtype":"U8","shape":[4294967297,4294967297],"data_offsets":[0,8589934593]}}`, 0), "larger than any file"},
		{"negative", file(`{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}`, 1), "whole number"},
		{"fraction", file(`{"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}}`, 1), "whole number"},
		{"null", file(`{"a":null}`, 0), "where { should be"},
		{"list", file(`{"a":[[[[[[[[]]]]]]]]}`, 0), "where { should be"},
		{"number", file(`{"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]}}`, 1), "where a text should be"},
		{"metadata that is no text", file(`{"__metadata__":{"a":1}}`, 0), "where a text should be"},
		{"metadata twice", file(`{"__metadata__":{},"__metadata__":{}}`, 0), "two __metadata__"},
		{"metadata key twice", file(`{"__metadata__":{"a":"","a":""}}`, 0), "two values"},
	} {
		_, err := NewFile(bytes.NewReader(tc.file), int64(len(tc.file)))
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 500) {
			t.Errorf("%s: not a clear line: %v", tc.name, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir); err == nil {
		t.Error("opened a folder")
	}
	if _, err := Open(filepath.Join(dir, "x")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	path := filepath.Join(dir, "bad")
	if err := os.WriteFile(path, file(`{"a":1}`, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v does not name the file", err)
	}
}

// A file that shrinks after it was opened is an error, not zeros.
func TestFileShrinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 64); err != nil {
		t.Fatal(err)
	}
	if err := f.ReadAt("a", 0, make([]byte, 8)); err == nil {
		t.Error("read what is gone")
	}
}

func TestAddSpan(t *testing.T) {
	for range 200 {
		var spans []span
		var want [64]bool
		for range mrand.IntN(12) {
			begin := mrand.Int64N(64)
			s := span{begin, begin + mrand.Int64N(65-begin)}
			for i := s.begin; i < s.end; i++ {
				want[i] = true
			}
			spans = addSpan(spans, s)
		}
		var got [64]bool
		for i, s := range spans {
			if s.begin >= s.end || i > 0 && spans[i-1].end >= s.begin {
				t.Fatalf("%v is not ascending with gaps", spans)
			}
			for j := s.begin; j < s.end; j++ {
				got[j] = true
			}
		}
		if got != want {
			t.Fatalf("%v covers %v, want %v", spans, got, want)
		}
	}
}

// Whatever the header says: no panic, and what is accepted is sound and comes out the same when it is written again.
func FuzzHeader(f *testing.F) {
	h, err := layOut(example, map[string]string{"a": "b"})
	if err != nil {
		f.Fatal(err)
	}
	b, err := h.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[lengthBytes:], h.size)
	f.Add([]byte(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`), int64(8))
	f.Add([]byte(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}}`), int64(4))
	f.Fuzz(func(t *testing.T, text []byte, size int64) {
		h, err := parseHeader(text, size)
		if err != nil {
			return
		}
		var at int64
		for i, tensor := range h.tensors {
			if h.begins[i] != at || h.index[tensor.Name] != i || tensor.Bytes() < 0 {
				t.Fatalf("%+v at %d, want %d", tensor, h.begins[i], at)
			}
			at += tensor.Bytes()
		}
		if at != size || !json.Valid(text) {
			t.Fatalf("tensors of %d bytes in %d, from %q", at, size, text)
		}
		b, err := h.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseHeader(b[lengthBytes:], size)
		if err != nil || len(again.tensors) != len(h.tensors) {
			t.Fatalf("%v: %q became %q", err, text, b)
		}
		for name, i := range h.index {
			j, ok := again.index[name]
			if !ok || !reflect.DeepEqual(again.tensors[j], h.tensors[i]) {
				t.Fatalf("%q: %+v became %+v", name, h.tensors[i], again.tensors[j])
			}
		}
	})
}
