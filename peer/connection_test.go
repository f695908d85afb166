//go:build !js

package peer

import "testing"

func TestConnection(t *testing.T) {
	to := newTestHost(t, Config{Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	from := newTestHost(t, Config{Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	serve(to, echo)
	if got := from.Connection(to.Self()); got != "" {
		t.Errorf("without a connection: %q", got)
	}
	if got := from.Connection("nobody"); got != "" {
		t.Errorf("without a peer id: %q", got)
	}
	open(t, from, to).Close()
	if got := from.Connection(to.Self()); got != "tcp, TLS, yamux" {
		t.Errorf("got %q", got)
	}
}

func TestSplitAddr(t *testing.T) {
	const id = "12D3KooWBhvWm7nGMyaFbnHBEhtAbSoWNETQWSwRZUpyYrqfMLtd"
	for _, want := range []string{"/ip4/192.0.2.7/tcp/4001", "/ip6/::1/udp/4001/quic-v1", "/dns/example.org/tcp/4001/ws"} {
		addr, peerID, err := SplitAddr(JoinAddr(want, id))
		if err != nil || addr != want || peerID != id {
			t.Errorf("%s: got %q, %q, %v", want, addr, peerID, err)
		}
	}
	for _, text := range []string{"", "192.0.2.7:4001", "/ip4/192.0.2.7/tcp/4001", "/ip4/192.0.2.7/tcp/4001/p2p/", "/ip4/192.0.2.7/tcp/4001/p2p/x",
		"/p2p/" + id, "/ip4/192.0.2.7/p2p/" + id, "/ip4/192.0.2.7/udp/4001/p2p/" + id, "x/p2p/" + id} {
		if _, _, err := SplitAddr(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
