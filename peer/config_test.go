package peer

import (
	"slices"
	"testing"

	ma "github.com/multiformats/go-multiaddr"
)

func TestParseListen(t *testing.T) {
	for text, want := range map[string][]string{
		"127.0.0.1:7":             {"/ip4/127.0.0.1/tcp/7", "/ip4/127.0.0.1/udp/7/quic-v1", "/ip4/127.0.0.1/tcp/7/ws", "/ip4/127.0.0.1/udp/7/quic-v1/webtransport"},
		"localhost:0":             {"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1", "/ip4/127.0.0.1/tcp/0/ws", "/ip4/127.0.0.1/udp/0/quic-v1/webtransport"},
		"[::1]:7":                 {"/ip6/::1/tcp/7", "/ip6/::1/udp/7/quic-v1", "/ip6/::1/tcp/7/ws", "/ip6/::1/udp/7/quic-v1/webtransport"},
		"/ip4/10.0.0.1/tcp/5/ws":  {"/ip4/10.0.0.1/tcp/5/ws"},
		"/ip6/::/udp/5/quic-v1":   {"/ip6/::/udp/5/quic-v1"},
		"127.0.0.1":               nil,
		"":                        nil,
		":70000":                  nil,
		":-1":                     nil,
		":http":                   nil,
		"example.org:7":           nil,
		"[fe80::1%eth0]:7":        nil,
		"/ip4/10.0.0.1":           nil,
		"/dns/example.org/tcp/5":  nil,
		"/ip4/10.0.0.1/udp/5":     nil,
		"/ip4/999.0.0.1/tcp/5":    nil,
		"/ip4/10.0.0.1/tcp/5/p2p": nil,
		"/":                       nil,
	} {
		got, err := parseListen(text)
		if want == nil {
			refuse(t, err, nil)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		var texts []string
		for _, l := range got {
			texts = append(texts, l.addr.String())
		}
		if !slices.Equal(texts, want) {
			t.Errorf("%s: %v", text, texts)
		}
	}
	all, err := parseListen(":4001")
	if err != nil || len(all) != 8 || all[0].optional || !all[7].optional {
		t.Errorf("all interfaces: %v, %v", all, err)
	}
}

func TestParseAnnounce(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7:4001":              "/ip4/192.0.2.7/tcp/4001",
		"example.org:4001":            "/dns/example.org/tcp/4001",
		"/dns4/example.org/tcp/1/wss": "/dns4/example.org/tcp/1/wss",
		":4001":                       "",
		"192.0.2.7:0":                 "",
		"0.0.0.0:4001":                "",
		"a/b:1":                       "",
		"192.0.2.7":                   "",
	} {
		got, err := parseAnnounce(text)
		if want == "" {
			refuse(t, err, nil)
		} else if err != nil || got[0].String() != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// TCP comes before QUIC, QUIC before WebSocket, loopback last of its transport.
func TestRankDials(t *testing.T) {
	var in []ma.Multiaddr
	want := []string{
		"/ip4/192.0.2.1/tcp/1", "/ip4/127.0.0.1/tcp/1", "/ip4/192.0.2.1/udp/1/quic-v1", "/ip4/192.0.2.1/tcp/2/ws",
		"/dns/example.org/tcp/443/tls/ws",
	}
	for _, text := range []string{want[3], want[2], want[1], want[0], want[4]} {
		in = append(in, ma.StringCast(text))
	}
	out := newGoodAddrs().rankDials(in)
	if len(out) != len(want) {
		t.Fatalf("got %v", out)
	}
	for i, d := range out {
		if d.Addr.String() != want[i] {
			t.Errorf("%d is %v, want %s", i, d.Addr, want[i])
		}
		if i > 0 && d.Delay <= out[i-1].Delay {
			t.Errorf("%v isn't after %v", d, out[i-1])
		}
	}
}

func TestKinds(t *testing.T) {
	const relay = "/p2p/" + somePeer + "/p2p-circuit"
	for text, want := range map[string]kind{
		"/ip4/192.0.2.1/tcp/1":                                     kindTCP,
		"/ip4/192.0.2.1/udp/1/quic-v1":                             kindQUIC,
		"/dns/example.org/tcp/1/tls/ws":                            kindWS,
		"/dns/example.org/tcp/1/tls/sni/a.b/ws":                    kindWS,
		"/ip4/192.0.2.1/tcp/1/wss":                                 kindWS,
		"/ip6/::1/udp/1/quic-v1/webtransport":                      kindWebTransport,
		"/ip4/192.0.2.1/udp/1":                                     kindOther,
		"/ip4/192.0.2.1":                                           kindOther,
		"/p2p-circuit":                                             kindCircuit,
		relay:                                                      kindCircuit,
		"/ip4/192.0.2.1/tcp/1/ws" + relay:                          kindCircuit,
		"/ip4/192.0.2.1/tcp/1/p2p/" + somePeer:                     kindOther,
		relay + "/ip4/192.0.2.1/tcp/1":                             kindOther,
		"/ip6/::1/udp/1/quic-v1/webtransport/certhash/" + someHash: kindWebTransport,
	} {
		a := ma.StringCast(text)
		if got := kindOf(a); got != want {
			t.Errorf("%s is of kind %v, want %v", text, got, want)
		}
		id, ok := relayOf(a)
		if want := kindOf(a) == kindCircuit && text != "/p2p-circuit"; ok != want || ok && id.String() != somePeer {
			t.Errorf("%s leads through %s, %v", text, id, ok)
		}
		// A relay's machine is not the peer's: that it refuses says nothing about the peer.
		if _, ok := tcpEnd(a); ok != (want == kindTCP || want == kindWS && a[0].Protocol().Code != ma.P_DNS || text == "/ip4/192.0.2.1/tcp/1/p2p/"+somePeer) {
			t.Errorf("%s begins with a TCP port: %v", text, ok)
		}
	}
}

const someHash = "uEiCnq41SYo44noHrxLnO1AhCKVQgNDuBlVLuHEunKyG9iQ"
