//go:build !js

package peer

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

func TestWindowFor(t *testing.T) {
	for _, tc := range []struct {
		roundTrip time.Duration
		want      uint32
	}{
		{0, initialWindow},
		{50 * time.Microsecond, initialWindow}, // this machine, a local network
		{20 * time.Millisecond, 6_500_000},
		{100 * time.Millisecond, 32_500_000},
		{time.Minute, maxWindow},
	} {
		if got := windowFor(tc.roundTrip); got != tc.want {
			t.Errorf("%v: %d bytes, want %d", tc.roundTrip, got, tc.want)
		}
	}
}

func TestStreamsWith(t *testing.T) {
	for window, want := range map[uint32]uint32{initialWindow: streamsPerPeer, 6 << 20: 42, maxWindow: 32} {
		if got := streamsWith(window); got != want {
			t.Errorf("with windows of %d bytes: %d streams, want %d", window, got, want)
		}
	}
}

// Both ends of a handshake know the path's round trip, which is at most as long as the whole handshake took.
func TestHandshakeShowsRoundTrip(t *testing.T) {
	var writes int
	start := time.Now()
	client, server := securePair(t, true, true, &writes)
	took := time.Since(start)
	for name, c := range map[string]network.ConnSecurity{"client": client, "server": server} {
		if got := c.(*batchedSecureConn).raw.roundTrip; got <= 0 || got > took {
			t.Errorf("%s: a round trip of %v in a handshake of %v", name, got, took)
		}
	}
}
