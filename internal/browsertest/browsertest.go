//go:build !js

// Package browsertest runs pages in a headless Chromium for tests, and takes in what they say.
package browsertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/internal/chromium"
)

// Message is what a page or worker posts to /said: fetch("/said", {method: "POST", body: JSON.stringify({log: "..."})}).
type Message struct {
	Log  string          `json:"log,omitempty"`  // shown
	Done json.RawMessage `json:"done,omitempty"` // ends the test: its result
	Fail string          `json:"fail,omitempty"` // ends the test: what was wrong
}

// Page is a test that runs in a browser.
type Page struct {
	Files   map[string]fs.FS        // by path prefix, as "/" or "/kernel/"
	Handle  map[string]http.Handler // further paths, as for a http.ServeMux
	Path    string                  // what is opened, as "/test.html?x=1"
	Plain   bool                    // without COOP and COEP: no SharedArrayBuffer
	Host    string                  // in the address instead of 127.0.0.1: other addresses of this machine are no secure contexts
	Timeout time.Duration           // 0: 2 minutes
}

// NeedChromium skips a test where there is no Chromium, unless SHOAL_BROWSER is set, as CI does: then the test fails.
func NeedChromium(t testing.TB) {
	t.Helper()
	_, err := chromium.Find()
	need(t, err)
}

// NeedNode is NeedChromium for Node, whose path it returns.
func NeedNode(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("node")
	need(t, err)
	return path
}

func need(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv("SHOAL_BROWSER") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// Run opens the page and returns its result. Without Chromium the test is skipped, unless SHOAL_BROWSER is set, as CI does.
func (p Page) Run(t testing.TB) json.RawMessage {
	t.Helper()
	NeedChromium(t)
	said := make(chan Message, 64)
	server := p.serve(t, said)
	defer server.Close()
	url := server.URL
	if p.Host != "" {
		url = strings.Replace(url, "127.0.0.1", p.Host, 1)
	}
	b, err := chromium.Start(chromium.Options{URL: url + p.Path})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	limit := p.Timeout
	if limit == 0 {
		limit = 2 * time.Minute
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case m := <-said:
			if m.Log != "" {
				t.Log(m.Log)
			}
			if m.Fail != "" {
				t.Fatalf("the page says: %s", m.Fail)
			}
			if m.Done != nil {
				return m.Done
			}
		case <-b.Exited():
			t.Fatal("the browser has ended")
		case <-timer.C:
			t.Fatalf("nothing more from the page after %v", limit)
		}
	}
}

func (p Page) serve(t testing.TB, said chan<- Message) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	for prefix, files := range p.Files {
		mux.Handle(prefix, http.StripPrefix(strings.TrimSuffix(prefix, "/"), http.FileServerFS(files)))
	}
	for pattern, h := range p.Handle {
		mux.Handle(pattern, h)
	}
	mux.HandleFunc("POST /said", func(w http.ResponseWriter, r *http.Request) {
		var m Message
		if err := json.NewDecoder(io.LimitReader(r.Body, 64<<20)).Decode(&m); err != nil {
			m = Message{Fail: fmt.Sprintf("something unreadable: %v", err)}
		}
		select {
		case said <- m:
		case <-r.Context().Done():
		}
	})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.Plain {
			w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
			w.Header().Set("Cross-Origin-Embedder-Policy", "require-corp")
		}
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
	if p.Host == "" {
		return httptest.NewServer(h)
	}
	return anywhere(t, h)
}

// anywhere is a server on all addresses; its URL names 127.0.0.1.
func anywhere(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Listener.Close()
	s.Listener = l
	s.Start()
	s.URL = fmt.Sprintf("http://127.0.0.1:%s", s.URL[strings.LastIndexByte(s.URL, ':')+1:])
	return s
}

// Build compiles a package (or a test of it, with test) for js/wasm into a folder of the test's, as main.wasm, with Go's
// wasm_exec.js beside it, and returns the folder.
func Build(t testing.TB, pkg string, test bool) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"build", "-o", filepath.Join(dir, "main.wasm"), pkg}
	if test {
		args = []string{"test", "-c", "-o", filepath.Join(dir, "main.wasm"), pkg}
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	js, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"))
	if err = errors.Join(err, os.WriteFile(filepath.Join(dir, "wasm_exec.js"), js, 0o644)); err != nil {
		t.Fatal(err)
	}
	return dir
}
