//go:build !js

// Package page serves what a browser needs to look at a run and to join it: the page, the peer, the kernels, and, to whoever
// has the run's secret, how the run goes. docs/browser.md describes it.
package page

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	headerTime = 5 * time.Second
	readTime   = time.Minute
	writeTime  = 5 * time.Minute // for a slow download of the peer
	idleTime   = time.Minute
	closeTime  = time.Second     // for answers that are under way when the server closes
	lingerTime = 4 * time.Second // a page looks each 3 s, see askEvery in wasm/web/page/main.mjs
	maxHeader  = 16 << 10        // bytes
	maxAnswers = 64              // at the same time
)

// policy lets the page run its own scripts and modules, start its workers, and connect to peers wherever they are; nothing else.
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:; style-src 'self'; img-src 'self' data:; " +
	"font-src 'self'; manifest-src 'self'; connect-src 'self' ws: wss: https:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Config says what is served.
type Config struct {
	Dist fs.FS // the built peer; nil: the one inside this program
	More fs.FS // further files, at /; nil: none
}

// Handler serves the page. Its methods may be called from any goroutine.
type Handler struct {
	files   map[string]*file
	answers chan struct{} // one for each that is under way

	mu     sync.Mutex
	about  func() any // nil until the run is there
	secret string
	told   time.Time // when run.json was given last
}

// NewHandler makes one, or fails with ErrNotBuilt.
func NewHandler(c Config) (*Handler, error) {
	files, err := load(c)
	if err != nil {
		return nil, err
	}
	return &Handler{files: files, answers: make(chan struct{}, maxAnswers)}, nil
}

// Run begins to tell of a run: what about returns, as JSON, to whoever knows the run's secret.
func (h *Handler) Run(about func() any, secret string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.about, h.secret = about, secret
}

// Linger returns once the pages that look at the run have had the time to see that it is over: at once if none has looked
// of late, else after 4 seconds, or when ctx ends.
func (h *Handler) Linger(ctx context.Context) {
	h.mu.Lock()
	told := h.told
	h.mu.Unlock()
	if told.IsZero() || time.Since(told) > lingerTime {
		return
	}
	select {
	case <-time.After(lingerTime):
	case <-ctx.Done():
	}
}

// Authorization is the header with which run.json is asked for, by those who know the run's secret.
func Authorization(secret string) string {
	sum := sha256.Sum256([]byte("shoal page\x00" + secret))
	return "Shoal " + hex.EncodeToString(sum[:])
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Embedder-Policy", "require-corp")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	select {
	case h.answers <- struct{}{}:
		defer func() { <-h.answers }()
	default:
		head.Set("Retry-After", "1")
		http.Error(w, "too many at a time, try again", http.StatusServiceUnavailable)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "there is nothing to send here", http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Path == "/run.json" {
		h.tell(w, r)
		return
	}
	f := h.files[r.URL.Path]
	if f == nil {
		http.Error(w, "there is nothing at this address", http.StatusNotFound)
		return
	}
	f.serve(w, r)
}

// tell answers how the run goes.
func (h *Handler) tell(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	about, secret := h.about, h.secret
	h.mu.Unlock()
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	code, what := http.StatusOK, any(nil)
	switch {
	case about == nil:
		code, what = http.StatusServiceUnavailable, failure{"the run is not there yet"}
	case subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(Authorization(secret))) != 1:
		code, what = http.StatusUnauthorized, failure{"only those who have the run's link may know"}
	default:
		h.mu.Lock()
		h.told = time.Now()
		h.mu.Unlock()
		what = about()
	}
	text, err := json.Marshal(what)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"error":"it can't be said in JSON"}`)
	}
	w.WriteHeader(code)
	w.Write(append(text, '\n')) // who has gone gets nothing
}

type failure struct {
	Error string `json:"error"`
}

// serve sends the file in the best coding that the browser takes.
func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Type", f.kind)
	head.Set("Cache-Control", f.maxAge)
	head.Add("Vary", "Accept-Encoding")
	coding, body := f.best(r.Header.Get("Accept-Encoding"))
	etag := strconv.Quote(strings.TrimSuffix(f.etag+"-"+coding, "-"))
	head.Set("ETag", etag)
	if slices.Contains(strings.Split(r.Header.Get("If-None-Match"), ", "), etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if body == nil { // only compressed, and the browser doesn't take that
		z, err := gzip.NewReader(bytes.NewReader(f.coded["gzip"]))
		if err != nil {
			http.Error(w, "it can't be unpacked here", http.StatusInternalServerError)
			return
		}
		if r.Method == http.MethodGet {
			io.Copy(w, z) // who has gone gets nothing
		}
		return
	}
	if coding != "" {
		head.Set("Content-Encoding", coding)
	}
	head.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodGet {
		w.Write(body)
	}
}

// best is the coding to send and the content in it; no content if none that there is will do.
func (f *file) best(accepted string) (coding string, body []byte) {
	for _, c := range codings {
		if body := f.coded[c.name]; body != nil && accepts(accepted, c.name) {
			return c.name, body
		}
	}
	return "", f.coded[""]
}

// accepts says whether a browser that sends Accept-Encoding takes a coding.
func accepts(header, coding string) bool {
	for _, part := range strings.Split(header, ",") {
		name, q, _ := strings.Cut(part, ";")
		if strings.TrimSpace(name) == coding {
			q = strings.TrimPrefix(strings.TrimSpace(q), "q=")
			v, err := strconv.ParseFloat(q, 64)
			return err != nil || v > 0
		}
	}
	return false
}

// Server serves a Handler at an address.
type Server struct {
	*Handler
	listener net.Listener
	http     http.Server
	served   sync.WaitGroup
}

// ServeNear tries near and the ports after it, which people can remember.
const (
	near     = 4780
	nearMost = 20
)

// ServeNear is Serve at a host, empty for all of this machine's addresses, and the first free port from 4780 on, or any.
func ServeNear(host string, h *Handler) (s *Server, err error) {
	for i := range nearMost + 1 {
		port := near + i
		if i == nearMost {
			port = 0
		}
		if s, err = Serve(net.JoinHostPort(host, strconv.Itoa(port)), h, nil); err == nil {
			break
		}
	}
	return s, err
}

// Serve serves h at addr, host:port. around, if not nil, is what answers, and hands on to h what it doesn't answer itself.
func Serve(addr string, h *Handler, around http.Handler) (*Server, error) {
	if around == nil {
		around = h
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &Server{Handler: h, listener: l}
	s.http = http.Server{Handler: around, ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime,
		IdleTimeout: idleTime, MaxHeaderBytes: maxHeader}
	s.served.Go(func() { s.http.Serve(l) }) // ends with Close
	return s, nil
}

// Addresses are those of the page, without a run's link: that of this machine for itself first, then those for others.
func (s *Server) Addresses() (list []string) {
	at := s.listener.Addr().(*net.TCPAddr)
	port := strconv.Itoa(at.Port)
	url := func(host string) string { return "http://" + net.JoinHostPort(host, port) + "/" }
	if !at.IP.IsUnspecified() {
		return []string{url(at.IP.String())}
	}
	list = append(list, url("localhost"))
	addrs, err := net.InterfaceAddrs()
	if err != nil { // it can't be told: this machine's own address is there
		return list
	}
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() && !n.IP.IsMulticast() {
			list = append(list, url(n.IP.String()))
		}
	}
	return list
}

// Close ends the answers.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) { // something was still being answered
		err = s.http.Close()
	}
	s.served.Wait()
	return err
}
