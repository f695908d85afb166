//go:build !js

package page

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

var wasm = []byte("\x00asm" + strings.Repeat("peer", 1000))

func packed(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// built is a folder as buildwasm makes it.
func built(t *testing.T) fstest.MapFS {
	return fstest.MapFS{
		"build.mjs":          {Data: []byte(`export const wasm = "shoal-01.wasm";`)},
		"wasm_exec.js":       {Data: []byte("globalThis.Go = class {};")},
		"shoal-01.wasm.br":   {Data: []byte("as brotli has it")},
		"shoal-01.wasm.gz":   {Data: packed(t, wasm)},
		"deep/inside.txt":    {Data: []byte("text")},
		"deep/unusual.blob1": {Data: []byte{0}},
	}
}

func handler(t *testing.T) *Handler {
	t.Helper()
	h, err := NewHandler(Config{Dist: built(t), More: fstest.MapFS{"more.html": {Data: []byte("<!doctype html>")}}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func get(h http.Handler, method, path string, header ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestNotBuilt(t *testing.T) {
	if _, err := NewHandler(Config{Dist: fstest.MapFS{}}); !errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), "make wasm") {
		t.Errorf("without a built peer: %v", err)
	}
}

func TestFiles(t *testing.T) {
	h := handler(t)
	for path, kind := range map[string]string{
		"/":                                  "text/html; charset=utf-8",
		"/page/index.html":                   "text/html; charset=utf-8",
		"/peer.mjs":                          "text/javascript; charset=utf-8",
		"/start.mjs":                         "text/javascript; charset=utf-8",
		"/dist/build.mjs":                    "text/javascript; charset=utf-8",
		"/dist/wasm_exec.js":                 "text/javascript; charset=utf-8",
		"/dist/shoal-01.wasm":                "application/wasm",
		"/dist/deep/unusual.blob1":           "application/octet-stream",
		"/kernel/web/compute.mjs":            "text/javascript; charset=utf-8",
		"/kernel/kernels-relaxed.wasm":       "application/wasm",
		"/kernel/kernels-simd-unshared.wasm": "application/wasm",
		"/more.html":                         "text/html; charset=utf-8",
	} {
		r := get(h, "GET", path)
		if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != kind {
			t.Errorf("%s: %d, %s, want %s", path, r.StatusCode, r.Header.Get("Content-Type"), kind)
		}
		for name, want := range map[string]string{"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Content-Security-Policy": policy} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
	for _, path := range []string{"/nothing", "/dist", "/dist/", "/dist/shoal-01.wasm.gz", "/dist/../build.mjs", "/page", "/embed.go"} {
		if r := get(h, "GET", path); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	if r := get(h, "POST", "/"); r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d", r.StatusCode)
	}
}

// The built peer travels in the best coding that a browser takes, and its name may be kept for ever.
func TestCodings(t *testing.T) {
	h := handler(t)
	for _, c := range []struct{ accepts, coding, want string }{
		{"gzip, deflate, br, zstd", "br", "as brotli has it"},
		{"gzip, deflate", "gzip", string(packed(t, wasm))},
		{"br;q=0, gzip;q=0.5", "gzip", string(packed(t, wasm))},
		{"", "", string(wasm)},
	} {
		r := get(h, "GET", "/dist/shoal-01.wasm", "Accept-Encoding", c.accepts)
		if got := body(t, r); got != c.want || r.Header.Get("Content-Encoding") != c.coding || r.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: coding %q, %d bytes, want %q and %d", c.accepts, r.Header.Get("Content-Encoding"), len(got), c.coding, len(c.want))
		}
		if r.Header.Get("Cache-Control") != immutable {
			t.Errorf("%q: %s", c.accepts, r.Header.Get("Cache-Control"))
		}
		if head := get(h, "HEAD", "/dist/shoal-01.wasm", "Accept-Encoding", c.accepts); body(t, head) != "" || head.Header.Get("ETag") != r.Header.Get("ETag") {
			t.Errorf("%q: HEAD has a body or another tag", c.accepts)
		}
	}
}

func TestCaching(t *testing.T) {
	h := handler(t)
	first := get(h, "GET", "/peer.mjs", "Accept-Encoding", "gzip")
	tag := first.Header.Get("ETag")
	if tag == "" || first.Header.Get("Cache-Control") != revalidate || first.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("peer.mjs: %v", first.Header)
	}
	if again := get(h, "GET", "/peer.mjs", "Accept-Encoding", "gzip", "If-None-Match", tag); again.StatusCode != http.StatusNotModified || body(t, again) != "" {
		t.Errorf("with its tag: %d", again.StatusCode)
	}
	for _, other := range []string{`"other"`, strings.TrimSuffix(tag, `-gzip"`) + `"`} {
		if again := get(h, "GET", "/peer.mjs", "Accept-Encoding", "gzip", "If-None-Match", other); again.StatusCode != http.StatusOK {
			t.Errorf("with the tag %s: %d", other, again.StatusCode)
		}
	}
}

func TestRun(t *testing.T) {
	h := handler(t)
	if r := get(h, "GET", "/run.json", "Authorization", Authorization("")); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("before the run: %d", r.StatusCode)
	}
	asked := 0
	h.Run(func() any { asked++; return map[string]int{"asked": asked} }, "secret")
	for _, wrong := range []string{"", "Shoal", "Shoal " + strings.Repeat("0", 64), "secret", Authorization("other")} {
		r := get(h, "GET", "/run.json", "Authorization", wrong)
		if text := body(t, r); r.StatusCode != http.StatusUnauthorized || strings.Contains(text, "asked") || asked > 0 {
			t.Errorf("%q: %d %s", wrong, r.StatusCode, text)
		}
	}
	r := get(h, "GET", "/run.json", "Authorization", Authorization("secret"))
	var got map[string]int
	if err := json.NewDecoder(r.Body).Decode(&got); err != nil || got["asked"] != 1 || r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d, %v, %v", r.StatusCode, got, err)
	}
}

// Whoever asks for more at a time than is served is told to come again.
// After the end a page that looks at the run has the time to look once more, and nobody else is waited for.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := NewHandler(Config{Dist: built(t)})
		if err != nil {
			t.Fatal(err)
		}
		h.Run(func() any { return "over" }, "word")
		look := func(secret string) {
			r := httptest.NewRequest("GET", "/run.json", nil)
			r.Header.Set("Authorization", Authorization(secret))
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		lingers := func(ctx context.Context, what string, want time.Duration) {
			t.Helper()
			begun := time.Now()
			if h.Linger(ctx); time.Since(begun) != want {
				t.Errorf("%s: it lingers for %v, want %v", what, time.Since(begun), want)
			}
		}
		lingers(t.Context(), "nobody has looked", 0)
		look("another word")
		lingers(t.Context(), "a stranger has looked", 0)
		look("word")
		lingers(t.Context(), "a page looks", lingerTime)
		look("word")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		lingers(ctx, "a page looks, and the user ends it", time.Second)
		lingers(ctx, "the user has ended it", 0)
		<-time.After(lingerTime)
		lingers(t.Context(), "a page has looked long ago", 0)
	})
}

func TestTooMany(t *testing.T) {
	h := handler(t)
	for range maxAnswers {
		h.answers <- struct{}{}
	}
	if r := get(h, "GET", "/"); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
		t.Errorf("%d", r.StatusCode)
	}
	<-h.answers
	if r := get(h, "GET", "/"); r.StatusCode != http.StatusOK {
		t.Errorf("with one less: %d", r.StatusCode)
	}
}

func TestServe(t *testing.T) {
	first, err := ServeNear("127.0.0.1", handler(t))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := ServeNear("127.0.0.1", handler(t))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	for _, s := range []*Server{first, second} {
		r, err := http.Get(s.Addresses()[0] + "peer.mjs")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusOK {
			t.Errorf("%v: %d", s.Addresses(), r.StatusCode)
		}
	}
	if a, b := first.Addresses()[0], second.Addresses()[0]; a == b {
		t.Errorf("both are at %s", a)
	}
	taken := first.listener.Addr().String()
	if s, err := Serve(taken, handler(t), nil); err == nil {
		t.Errorf("%s was named and is taken, the page is at %s", taken, s.Addresses())
		s.Close()
	}
}
