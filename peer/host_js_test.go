package peer

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"os"
	"testing"
	"time"
)

const (
	testProto = "/shoal/test/1"
	patience  = 20 * time.Second
)

// daemon is the peer that the test in browser_test.go runs.
func daemon(t *testing.T) Link {
	t.Helper()
	l, err := ParseLink(os.Getenv("SHOAL_DAEMON"))
	if err != nil {
		t.Skip("there is no daemon: browser_test.go runs this")
	}
	return l
}

func TestTabEcho(t *testing.T) {
	l := daemon(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h, err := New(ctx, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	c, err := h.Open(ctx, l.Peer, l.Addrs, testProto)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sent := make([]byte, 3<<20+1)
	rand.Read(sent)
	go func() {
		c.Write(sent)
		c.(*streamConn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("got %d of %d bytes, %v", len(got), len(sent), err)
	}
	t.Log(c.RemoteAddr())
}
