//go:build !js

package live

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/status"
)

// fake is a run that says what it is told to.
type fake struct {
	mu        sync.Mutex
	st        status.Status
	recovered int
	err       error
	wait      chan struct{} // Recover waits for it or for its context, if it isn't nil
	entered   chan struct{}
}

func (f *fake) Status() status.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.st
}

func (f *fake) Recover(ctx context.Context) error {
	if f.wait != nil {
		close(f.entered)
		select {
		case <-f.wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recovered++
	if f.err == nil {
		f.st.Generation++
	}
	return f.err
}

const server = "SHOAL_LIVE_TEST_SERVER"

// TestMain makes the test binary a process that serves until its stdin ends, so that there are two.
func TestMain(m *testing.M) {
	if run := os.Getenv(server); run != "" {
		if _, err := Serve(&fake{st: status.Status{RunID: run, Name: "other"}}); err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("ready\n")
		os.Stdin.Read(make([]byte, 1))
		os.Exit(0) // without Close, as when it is killed
	}
	os.Exit(m.Run())
}

// cache gives the test a cache folder of its own.
func cache(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	for _, name := range []string{"XDG_CACHE_HOME", "LocalAppData"} {
		t.Setenv(name, filepath.Join(dir, ".cache"))
	}
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func serve(t *testing.T, f *fake) *Server {
	t.Helper()
	s, err := Serve(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func list(t *testing.T, want int) []Process {
	t.Helper()
	l, err := List()
	if err != nil || len(l) != want {
		t.Fatalf("%+v, %v: want %d processes", l, err, want)
	}
	return l
}

func TestAsk(t *testing.T) {
	cache(t)
	list(t, 0)
	f := &fake{st: status.Status{RunID: "5f0c", Name: "digits", Step: 7, Stuck: "who knows", Members: []status.Member{{Peer: "a"}}}}
	s := serve(t, f)
	p := list(t, 1)[0]
	if p.RunID != "5f0c" || p.Name != "digits" || p.PID != os.Getpid() || len(p.Token) < 26 {
		t.Errorf("it is %+v", p)
	}
	st, err := p.Status(testContext(t))
	if err != nil || st.Step != 7 || len(st.Members) != 1 || st.Stuck != "who knows" {
		t.Errorf("%+v, %v", st, err)
	}
	if st, err = p.Recover(testContext(t)); err != nil || st.Generation != 1 || f.recovered != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	f.err = errors.New("it is not stuck")
	if _, err = p.Recover(testContext(t)); err == nil || !strings.Contains(err.Error(), "it is not stuck") {
		t.Errorf("Recover says %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(os.Getenv("HOME")); err != nil || len(entries) > 0 && runtime.GOOS != "darwin" {
		t.Errorf("it left %v, %v", entries, err)
	}
	list(t, 0)
	if _, err := p.Status(testContext(t)); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a closed one: %v", err)
	}
}

// Nobody is answered without the token, and nobody else can read it.
func TestToken(t *testing.T) {
	cache(t)
	f := &fake{}
	s := serve(t, f)
	p := list(t, 1)[0]
	if info, err := os.Stat(s.file); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Dir(s.file)); err != nil || runtime.GOOS != "windows" && info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for _, token := range []string{"", p.Token[1:], p.Token + "x", strings.ToLower(p.Token)} {
		for _, c := range []struct{ method, path string }{{"GET", statusPath}, {"POST", recoverPath}, {"GET", "/"}} {
			r, err := http.NewRequestWithContext(testContext(t), c.method, "http://"+p.Address+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			a, err := (&http.Client{Transport: transport}).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
			if a.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s %s with token %q: %s", c.method, c.path, token, a.Status)
			}
		}
	}
	if f.recovered > 0 {
		t.Error("it has recovered for a stranger")
	}
	// The token goes to no other machine, whatever the file says.
	for _, address := range []string{"192.0.2.1:80", "example.org:80", "", "0.0.0.0:1"} {
		p.Address = address
		if _, err := p.Status(testContext(t)); err == nil || !strings.Contains(err.Error(), "no address of this machine") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// Two processes are both found; what a killed one has left goes, also when its id is another process's now.
func TestTwoProcesses(t *testing.T) {
	cache(t)
	own := serve(t, &fake{st: status.Status{RunID: "aa11"}})
	c := exec.CommandContext(testContext(t), os.Args[0])
	c.Env = append(os.Environ(), server+"=bb22")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	out.Read(make([]byte, 6))
	both := list(t, 2)
	if both[0].RunID != "aa11" || both[1].RunID != "bb22" || both[1].PID != c.Process.Pid {
		t.Errorf("they are %+v", both)
	}
	if st, err := both[1].Status(testContext(t)); err != nil || st.Name != "other" {
		t.Errorf("the other says %+v, %v", st, err)
	}
	in.Close()
	c.Wait()
	list(t, 1)
	if _, err := os.Stat(filepath.Join(filepath.Dir(own.file), fileName(c.Process.Pid))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a dead process's file: %v", err)
	}
	dead := both[1]
	dead.PID = os.Getppid()
	if err := dead.write(filepath.Join(filepath.Dir(own.file), fileName(dead.PID))); err != nil {
		t.Fatal(err)
	}
	list(t, 1)
}

// Files that are none of ours, or of another machine, are left alone.
func TestForeignFiles(t *testing.T) {
	cache(t)
	own := serve(t, &fake{})
	dir := filepath.Dir(own.file)
	far := Process{PID: os.Getppid(), Host: "elsewhere", Address: "127.0.0.1:1"}
	if err := far.write(filepath.Join(dir, fileName(far.PID))); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"notes.txt": "x", "0012.json": "{}", "1.json.bak": "{}", "-3.json": "{}", "2147483646.json": "{"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list(t, 1)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 6 { // all but that of a process that there can hardly be
		t.Errorf("%v, %v", entries, err)
	}
	far.Host = hostname()
	if err := far.write(filepath.Join(dir, fileName(far.PID))); err == nil || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("another machine's file is written over: %v", err)
	}
}

// Close does not wait for ever for an answer, and ends what it has begun.
func TestCloseWhileRecovering(t *testing.T) {
	cache(t)
	f := &fake{wait: make(chan struct{}), entered: make(chan struct{})}
	s := serve(t, f)
	p := list(t, 1)[0]
	result := make(chan error, 1)
	go func() {
		_, err := p.Recover(testContext(t))
		result <- err
	}()
	<-f.entered
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-result; err == nil {
		t.Error("a recovery that was ended is told as done")
	}
}

func TestNoCacheFolder(t *testing.T) {
	cache(t)
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, "")
	}
	if _, err := Serve(&fake{}); err == nil || !strings.Contains(err.Error(), "no cache folder") {
		t.Errorf("without one: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, file)
	}
	if _, err := Serve(&fake{}); err == nil || !strings.Contains(err.Error(), "no cache folder") {
		t.Errorf("with a file in its place: %v", err)
	}
}

func TestPick(t *testing.T) {
	all := []Process{{PID: 4, RunID: "5f0c11"}, {PID: 5, RunID: "5f0c11"}, {PID: 6, RunID: "77aa"}}
	for _, c := range []struct {
		pid  int
		run  string
		want []int // process ids
		err  string
	}{
		{0, "", []int{4, 5, 6}, ""},
		{5, "", []int{5}, ""},
		{0, "5F0", []int{4, 5}, ""},
		{0, "77", []int{6}, ""},
		{6, "77aa", []int{6}, ""},
		{7, "", nil, "with id 7, but 4 (run 5f0c11), 5 (run 5f0c11), 6 (run 77aa)"},
		{4, "77", nil, `"77" with id 4, but`},
		{0, "8", nil, `whose id begins with "8", but`},
	} {
		got, err := Pick(all, c.pid, c.run)
		var pids []int
		for _, p := range got {
			pids = append(pids, p.PID)
		}
		if c.err == "" && err != nil || c.err != "" && (err == nil || !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%d %q: error %v", c.pid, c.run, err)
		}
		if len(pids) != len(c.want) || len(pids) > 0 && pids[0] != c.want[0] {
			t.Errorf("%d %q: %v, want %v", c.pid, c.run, pids, c.want)
		}
	}
	if _, err := Pick(nil, 0, ""); !errors.Is(err, ErrNone) {
		t.Errorf("of none: %v", err)
	}
}
