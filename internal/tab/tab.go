//go:build !js

// Package tab runs a peer in a tab of a headless Chromium, as testnet's child: its standard streams are those of the program
// that calls Run, by way of a little page (tab.html) that is served to nobody else.
package tab

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"shoal/internal/chromium"
	"shoal/internal/page"
)

//go:embed tab.html tab.mjs
var files embed.FS

const (
	maxSaid  = 64 << 20        // bytes of one message: a report of many steps
	patience = 4 * time.Second // for a tab that is to leave politely
)

// Child is what the peer is told to do, see command in wasm/messages_js.go.
type Child struct {
	Type   string   `json:"type"` // "child"
	Link   string   `json:"link"`
	Cores  int      `json:"cores"`
	Memory int64    `json:"memory"` // bytes
	Points []string `json:"points"`
	Slow   float64  `json:"slow,omitempty"`
}

// Config is one tab.
type Config struct {
	Child   Child
	Dist    fs.FS  // the built peer; nil: the one inside this program
	Profile string // folder for the browser's profile; empty: one that goes with it
	In      io.Reader
	Out     io.Writer
	Err     io.Writer
	Verbose bool // what the browser says goes to Err, too
}

// said is a message of the peer's worker.
type said struct {
	Type   string `json:"type"`
	Text   string `json:"text"`
	State  string `json:"state"`
	Reason string `json:"reason"`
}

// tab is one while it lasts.
type tab struct {
	Config
	input io.ReadCloser
	ended chan error
}

// Run opens the tab and returns when its peer is out of the run. The peer leaves politely when ctx or Config.In ends, and has
// seconds for it.
func Run(ctx context.Context, c Config) error {
	c.Child.Type = "child"
	h, err := page.NewHandler(page.Config{Dist: c.Dist, More: files})
	if err != nil {
		return err
	}
	input, words := io.Pipe()
	t := &tab{Config: c, input: input, ended: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.HandleFunc("GET /tab/child", t.child)
	mux.HandleFunc("GET /tab/input", t.give)
	mux.HandleFunc("POST /tab/said", t.take)
	s, err := page.Serve("127.0.0.1:0", h, mux)
	if err != nil {
		return err
	}
	defer s.Close()
	defer input.Close() // before the server, which waits for whoever reads it
	go func() {         // ends with In, or with the process
		_, err := io.Copy(words, c.In)
		words.CloseWithError(err)
	}()
	o := chromium.Options{URL: s.Addresses()[0] + "tab.html", Together: true, Profile: c.Profile}
	if c.Verbose {
		o.Verbose = c.Err
	}
	b, err := chromium.Start(o)
	if err != nil {
		return err
	}
	defer b.Close()
	var late <-chan time.Time
	leave := ctx.Done()
	for {
		select {
		case err := <-t.ended:
			return err
		case <-b.Exited():
			return errors.New("the browser has ended")
		case <-leave:
			leave = nil
			words.Close()
			timer := time.NewTimer(patience)
			defer timer.Stop()
			late = timer.C
		case <-late:
			return context.Cause(ctx)
		}
	}
}

// child tells the tab what it is to do.
func (t *tab) child(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(t.Child) // who has gone gets nothing
}

// give sends what comes in, as it comes.
func (t *tab) give(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	flush := http.NewResponseController(w)
	flush.SetWriteDeadline(time.Time{})
	flush.Flush()
	defer context.AfterFunc(r.Context(), func() { // the page listens as long as it lives
		t.input.Close()
		t.end(errors.New("the tab has crashed"))
	})()
	b := make([]byte, 4096)
	for {
		n, err := t.input.Read(b)
		if _, gone := w.Write(b[:n]); gone != nil || err != nil {
			return
		}
		flush.Flush()
	}
}

// take passes on what the peer says.
func (t *tab) take(w http.ResponseWriter, r *http.Request) {
	var list []said
	if err := json.NewDecoder(io.LimitReader(r.Body, maxSaid)).Decode(&list); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, m := range list {
		switch m.Type {
		case "output":
			io.WriteString(t.Out, m.Text)
		case "log":
			io.WriteString(t.Err, m.Text)
		case "state":
			t.state(m)
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// state takes note of the peer's end.
func (t *tab) state(m said) {
	var err error
	switch m.State {
	case "done":
	case "failed", "refused":
		err = fmt.Errorf("the tab %s", strings.TrimSpace(m.State+": "+m.Reason))
	default:
		return
	}
	t.end(err)
}

func (t *tab) end(err error) {
	select {
	case t.ended <- err:
	default: // it has ended already
	}
}
