//go:build unix

package main

import (
	"net"
	"strings"
	"testing"

	"shoal/peer"
)

// TestOtherProtocolVersion joins a host that speaks the next version of every protocol: one clear line.
func TestOtherProtocolVersion(t *testing.T) {
	host, err := peer.New(t.Context(), peer.Config{Listen: []string{"127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	host.Handle("/shoal/2/control", func(_ string, c net.Conn) { c.Close() })
	link := peer.Link{Peer: host.Self(), Addrs: host.Addrs(), Run: strings.Repeat("0", 32), Secret: peer.NewSecret()}
	startProgram(t, "join", link.String(), "--listen", "127.0.0.1:0").refused(t, "another version")
}
