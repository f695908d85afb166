//go:build !js

package peer

import (
	"slices"
	"testing"

	ma "github.com/multiformats/go-multiaddr"
)

// What others are told: announced addresses first, each host's transports together, loopback last, and of WebTransport only
// what has a certificate's hash.
func TestAdvertised(t *testing.T) {
	parse := func(texts []string) (out []ma.Multiaddr) {
		for _, text := range texts {
			out = append(out, ma.StringCast(text))
		}
		return out
	}
	const hash = "/certhash/" + someHash
	own := []string{
		"/ip4/127.0.0.1/tcp/1", "/ip4/127.0.0.1/udp/1/quic-v1/webtransport" + hash, "/ip4/192.0.2.2/tcp/1/ws", "/ip4/192.0.2.1/tcp/1/ws",
		"/ip4/192.0.2.1/udp/1/quic-v1/webtransport" + hash, "/ip4/192.0.2.2/tcp/1", "/ip4/192.0.2.1/tcp/1", "/p2p-circuit", "/ip4/0.0.0.0/tcp/1",
	}
	announced := []string{"/dns/example.org/tcp/9", "/dns/example.org/udp/9/quic-v1/webtransport", "/ip4/192.0.2.2/tcp/1"}
	got := texts(advertised(parse(own), parse(announced)))
	want := []string{
		"/dns/example.org/tcp/9", "/dns/example.org/udp/9/quic-v1/webtransport" + hash, "/ip4/192.0.2.2/tcp/1",
		"/ip4/192.0.2.1/tcp/1", "/ip4/192.0.2.1/udp/1/quic-v1/webtransport" + hash, "/ip4/192.0.2.1/tcp/1/ws",
		"/ip4/192.0.2.2/tcp/1/ws", "/ip4/127.0.0.1/tcp/1", "/ip4/127.0.0.1/udp/1/quic-v1/webtransport" + hash,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	got = texts(advertised(parse([]string{"/ip4/192.0.2.1/tcp/1"}), parse(announced)))
	if want := []string{"/dns/example.org/tcp/9", "/ip4/192.0.2.2/tcp/1", "/ip4/192.0.2.1/tcp/1"}; !slices.Equal(got, want) {
		t.Errorf("without WebTransport: %v", got)
	}
}

// host:port with port 0 has QUIC and WebTransport on one port, and another host's is not taken for it.
func TestBesideQUIC(t *testing.T) {
	listening := []ma.Multiaddr{ma.StringCast("/ip4/127.0.0.1/tcp/7"), ma.StringCast("/ip4/127.0.0.1/udp/8/quic-v1")}
	for text, want := range map[string]string{
		"/ip4/127.0.0.1/udp/0/quic-v1/webtransport": "/ip4/127.0.0.1/udp/8/quic-v1/webtransport",
		"/ip4/127.0.0.1/udp/5/quic-v1/webtransport": "/ip4/127.0.0.1/udp/5/quic-v1/webtransport",
		"/ip4/0.0.0.0/udp/0/quic-v1/webtransport":   "/ip4/0.0.0.0/udp/0/quic-v1/webtransport",
	} {
		if got := besideQUIC(ma.StringCast(text), listening).String(); got != want {
			t.Errorf("%s became %s", text, got)
		}
	}
}
