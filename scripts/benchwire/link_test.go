package main

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// What goes in comes out, no sooner than the line allows, and close leaves nothing behind.
func TestProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // an echo
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.Copy(c, c)
	}()
	long := link{delay: 20 * time.Millisecond, rate: 10e6}
	p, err := long.proxy(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	c, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sent, got := bytes.Repeat([]byte("over the ocean "), 20_000), make([]byte, 300_000)
	start := time.Now()
	go c.Write(sent)
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(sent, got) {
		t.Fatalf("other bytes came back, %v", err)
	}
	if took, least := time.Since(start), 2*long.delay+30*time.Millisecond; took < least {
		t.Errorf("it took %v, want at least %v", took, least)
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(got); err == nil {
		t.Error("the connection is still there")
	}
}

func TestNoProxy(t *testing.T) {
	p, err := link{}.proxy("192.0.2.7:4001")
	if err != nil || p.address() != "192.0.2.7:4001" || p.close() != nil {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestMultiaddr(t *testing.T) {
	addr, err := multiaddr("127.0.0.1:4001")
	if err != nil || addr != "/ip4/127.0.0.1/tcp/4001" {
		t.Errorf("got %q, %v", addr, err)
	}
	if at, err := hostPort(addr); err != nil || at != "127.0.0.1:4001" {
		t.Errorf("got %q, %v", at, err)
	}
	for _, text := range []string{"", "localhost:1", "[::1]:1"} {
		if _, err := multiaddr(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if _, err := hostPort("/ip4/127.0.0.1/udp/1/quic-v1"); err == nil {
		t.Error("QUIC is taken")
	}
}
