package shoal

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/data"
	"shoal/internal/runfile"
)

// ofFiles is the small run on data of the given source.
func ofFiles(source string) *RunFile {
	r := small()
	r.SetSource(source)
	r.Train.Steps, r.Data.Eval = 6, 20
	if source == "mnist" {
		r.Model.Image, r.Model.Patch = 4, 2
		return r
	}
	r.Model = runfile.Model{Type: "gpt", Vocab: 256, Context: 16, Dim: 16, Depth: 2, Heads: 2}
	return r
}

// someFiles writes data for source and returns what --data says of them.
func someFiles(t testing.TB, source string) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("examples/harbour.txt")
	if err != nil {
		t.Fatal(err)
	}
	switch source {
	case "mnist":
		for name, n := range map[string]int{"train": 100, "t10k": 20} {
			images, labels := []byte{0, 0, 8, 3, 0, 0, 0, byte(n), 0, 0, 0, 4, 0, 0, 0, 4}, []byte{0, 0, 8, 1, 0, 0, 0, byte(n)}
			for i := range n {
				images, labels = append(images, text[16*i:16*i+16]...), append(labels, byte(i%10))
			}
			put(name+"-images-idx3-ubyte", images)
			put(name+"-labels-idx1-ubyte", labels)
		}
		return "mnist:" + dir
	case "tokens":
		var b []byte
		for _, c := range text[:2000] {
			b = binary.LittleEndian.AppendUint16(b, uint16(c))
		}
		put("file", b)
	default:
		put("file", text[:2000])
	}
	return source + ":" + filepath.Join(dir, "file")
}

// One run, one hash, on files too; each peer has its own copy.
func TestFilesOneRunOneHash(t *testing.T) {
	hashes := map[string]string{}
	for _, source := range []string{"mnist", "text", "tokens"} {
		t.Run(source, func(t *testing.T) {
			of := func(n int) *Report {
				return together(t, peers(n, func(i int, c *Config) {
					if i == 0 {
						c.RunFile = ofFiles(source)
					}
					c.Files = someFiles(t, source)
				})...)[0]
			}
			want := of(1)
			hashes[source] = want.StateHash
			sameRun(t, want, of(3))
			if want.Eval == nil || want.Eval.Loss <= 0 {
				t.Errorf("evaluation %+v", want.Eval)
			}
		})
	}
	if hashes["text"] != hashes["tokens"] {
		t.Errorf("one text, as bytes and as tokens of 16 bits: state hashes %s and %s", hashes["text"], hashes["tokens"])
	}
}

func TestFilesRefused(t *testing.T) {
	text := someFiles(t, "text")
	for _, c := range []struct {
		name, source, files, path string
		want                      string
	}{
		{"none", "text", "", "", "this run learns from files: say where they are on this machine, --data text:FILE"},
		{"none of mnist", "mnist", "", "", "--data mnist:DIR"},
		{"another kind", "mnist", text, "", "this run's data are mnist:DIR, not "},
		{"no path", "text", "text:", "", "this run's data are text:FILE, not"},
		{"for digits", "digits", text, "", "this run's data.source is digits: it needs no files"},
		{"missing", "text", "text:/nowhere/at/all", "", "/nowhere/at/all"},
		{"missing, by the run file", "tokens", "", "/nowhere/at/all", "/nowhere/at/all"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := ofFiles(c.source)
			if c.source == "digits" {
				run = small()
			}
			run.Data.Path = c.path
			_, err := Run(t.Context(), Config{RunFile: run, Files: c.files, Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
}

// Others learn what is in the files, not where they are; and don't say which files to open here.
func TestDescriptionHasNoPath(t *testing.T) {
	run := ofFiles("text")
	_, run.Data.Path, _ = strings.Cut(someFiles(t, "text"), ":")
	first, err := newTask(t.Context(), *run, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	b, err := first.describe(nil)
	if err != nil || strings.Contains(string(b), run.Data.Path) || !strings.Contains(string(b), first.manifest.Files[0].Root.String()) {
		t.Errorf("description is %s, %v", b, err)
	}
	second, err := parseDescription(t.Context(), b, Config{Files: someFiles(t, "text")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer second.close()
	if first.fingerprint != second.fingerprint {
		t.Errorf("fingerprints %s and %s", first.fingerprint, second.fingerprint)
	}
	with := strings.Replace(string(b), "source: text", `source: text\n  path: `+filepath.ToSlash(run.Data.Path), 1)
	if _, err := parseDescription(t.Context(), []byte(with), Config{}, nil); err == nil || !strings.Contains(err.Error(), "say where they are") {
		t.Errorf("a path in the description: %v, from %s", err, with)
	}
	other := someFiles(t, "text")
	_, path, _ := strings.Cut(other, ":")
	if err := os.WriteFile(path, []byte("another text, and a shorter one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := parseDescription(t.Context(), b, Config{Files: other}, nil); err == nil || !strings.Contains(err.Error(), "text has 31 bytes, not 2000") {
		t.Errorf("other data: %v", err)
	}
}

// A file that changes while its run goes on ends the run, with the file's name, for all.
func TestFileThatChangesInARun(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	files := someFiles(t, "text")
	_, path, _ := strings.Cut(files, ":")
	run := ofFiles("text")
	run.Train.Steps = 100000
	var change sync.Once
	_, err := Run(ctx, Config{RunFile: run, Files: files, Memory: 1 << 30, Cores: 1, Listen: []string{"/ip4/127.0.0.1/tcp/0"},
		Progress: func(Progress) {
			change.Do(func() {
				if err := os.WriteFile(path, []byte("another text"), 0o600); err != nil {
					t.Error(err)
				}
			})
		}})
	if !errors.Is(err, data.ErrChanged) || !strings.Contains(err.Error(), path) {
		t.Errorf("run ended with %v, want %v and %s", err, data.ErrChanged, path)
	}
}
