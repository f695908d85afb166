//go:build !js

package peer

import (
	"io"
	"net"
	"testing"
	"time"
)

// BenchmarkStream moves messages of 1 MiB over one stream, both ends in one process.
func BenchmarkStream(b *testing.B) {
	for name, addr := range transports {
		b.Run(name, func(b *testing.B) {
			to := newTestHost(b, Config{Listen: []string{addr}})
			from := newTestHost(b, Config{})
			got := make(chan int64, 1)
			serve(to, func(_ string, c net.Conn) {
				n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, c, make([]byte, 1<<20))
				got <- n
			})
			c := open(b, from, to)
			c.SetDeadline(time.Time{})
			chunk := make([]byte, 1<<20)
			b.SetBytes(int64(len(chunk)))
			var sent int64
			for b.Loop() {
				n, err := c.Write(chunk)
				if err != nil {
					b.Fatal(err)
				}
				sent += int64(n)
			}
			c.Close()
			if n := receive(b, got); n != sent {
				b.Errorf("got %d of %d bytes", n, sent)
			}
		})
	}
}

// BenchmarkRoundTrip echoes one byte.
func BenchmarkRoundTrip(b *testing.B) {
	for name, addr := range transports {
		b.Run(name, func(b *testing.B) {
			to := newTestHost(b, Config{Listen: []string{addr}})
			from := newTestHost(b, Config{})
			serve(to, echo)
			c := open(b, from, to)
			defer c.Close()
			c.SetDeadline(time.Time{})
			one := make([]byte, 1)
			for b.Loop() {
				if _, err := c.Write(one); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, one); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
