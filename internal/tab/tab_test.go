//go:build !js

package tab

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A page that goes away, without a word from its peer before, has crashed.
func TestCrash(t *testing.T) {
	input, words := io.Pipe()
	tab := &tab{input: input, ended: make(chan error, 1)}
	s := httptest.NewServer(http.HandlerFunc(tab.give))
	defer s.Close()
	ctx, crash := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	page, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	crash()
	if err := <-tab.ended; err == nil {
		t.Error("the tab has ended well")
	}
	if _, err := words.Write([]byte("go\n")); err == nil {
		t.Error("somebody still listens")
	}
}
