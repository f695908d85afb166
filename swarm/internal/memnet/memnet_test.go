package memnet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// open makes hosts a and b and a stream between them.
func open(t *testing.T, n *Network) (from, to net.Conn) {
	t.Helper()
	got := make(chan net.Conn, 1)
	n.Host("b").Handle("/x", func(peer string, s net.Conn) {
		if peer != "a" {
			t.Errorf("handler was told peer %q, want a", peer)
		}
		got <- s
	})
	from, err := n.Host("a").Open(t.Context(), "b", nil, "/x")
	if err != nil {
		t.Fatal(err)
	}
	return from, <-got
}

func TestBytesArriveInOrderThroughSmallBuffer(t *testing.T) {
	n := New()
	from, to := open(t, n)
	want := make([]byte, 5*bufferSize+123)
	rand.NewChaCha8([32]byte{1}).Read(want)
	sent := make(chan error, 1)
	go func() {
		_, err := from.Write(want)
		sent <- err
	}()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(to, got); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatal("bytes differ")
	}
}

func TestBackpressureAndDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		from, to := open(t, n)
		from.SetWriteDeadline(time.Now().Add(time.Second))
		k, err := from.Write(make([]byte, bufferSize+1))
		if k != bufferSize || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("write into a full buffer: %d, %v", k, err)
		}
		if _, err := io.ReadFull(to, make([]byte, bufferSize)); err != nil {
			t.Fatal(err)
		}
		to.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := to.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read from an empty buffer: %v", err)
		}
		from.SetWriteDeadline(time.Time{})
		to.SetReadDeadline(time.Time{})
		if _, err := from.Write([]byte{7}); err != nil {
			t.Fatal(err)
		}
		if _, err := to.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		from.Close()
		n.Wait()
	})
}

func TestFaultsResetBothEnds(t *testing.T) {
	for name, fault := range map[string]func(n *Network, from, to net.Conn){
		"close by opener":  func(_ *Network, from, _ net.Conn) { from.Close() },
		"close by handler": func(_ *Network, _, to net.Conn) { to.Close() },
		"break":            func(n *Network, _, _ net.Conn) { n.Break("b", "a") },
		"cut":              func(n *Network, _, _ net.Conn) { n.Cut("a", "b") },
		"host closed":      func(n *Network, _, _ net.Conn) { n.Host("b").Close() },
	} {
		t.Run(name, func(t *testing.T) {
			n := New()
			from, to := open(t, n)
			blocked := make(chan error, 1)
			go func() {
				_, err := from.Read(make([]byte, 1))
				blocked <- err
			}()
			fault(n, from, to)
			if err := <-blocked; !errors.Is(err, ErrReset) {
				t.Fatalf("blocked read: %v", err)
			}
			if _, err := to.Write([]byte{1}); !errors.Is(err, ErrReset) {
				t.Fatalf("write: %v", err)
			}
			if n.Streams() != 0 {
				t.Fatalf("%d streams are still known", n.Streams())
			}
		})
	}
}

func TestOpenRefused(t *testing.T) {
	n := New()
	a, b := n.Host("a"), n.Host("b")
	b.Handle("/x", func(_ string, s net.Conn) { s.Close() })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	refused := func(ctx context.Context, why, peer, protocol string) {
		t.Helper()
		if s, err := a.Open(ctx, peer, nil, protocol); err == nil {
			s.Close()
			t.Errorf("%s: no error", why)
		}
	}
	refused(t.Context(), "unknown host", "c", "/x")
	refused(t.Context(), "unknown protocol", "b", "/y")
	refused(ended, "ended context", "b", "/x")
	n.Cut("a", "b")
	refused(t.Context(), "cut", "b", "/x")
	n.Heal("a", "b")
	if _, err := a.Open(t.Context(), "b", nil, "/x"); err != nil {
		t.Errorf("after Heal: %v", err)
	}
	b.Handle("/x", nil)
	refused(t.Context(), "handler removed", "b", "/x")
	b.Close()
	refused(t.Context(), "closed host", "b", "/x")
	if _, err := a.Open(t.Context(), "b", nil, "/x"); !errors.Is(err, ErrRefused) {
		t.Errorf("closed host: %v, want ErrRefused", err)
	}
	n.Cut("a", "b")
	if _, err := a.Open(t.Context(), "b", nil, "/x"); errors.Is(err, ErrRefused) {
		t.Errorf("closed host that can't be reached: %v", err)
	}
	n.Heal("a", "b")
	if n.Host("b") == b {
		t.Error("Host returned a closed host")
	}
	n.Wait()
}
