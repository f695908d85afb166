//go:build !js

package peer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// child starts a helper process and reads its link. says is its first line of input.
func child(t *testing.T, role, says string) (*exec.Cmd, Link) {
	t.Helper()
	c := exec.CommandContext(testContext(t), os.Args[0])
	c.Env = append(os.Environ(), roleEnv+"="+role)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(in, says+"\n")
	line, _ := bufio.NewReader(out).ReadString('\n')
	link, err := ParseLink(line)
	if err != nil {
		t.Fatal(err)
	}
	return c, link
}

// A killed process is known to have ended by one redial, and again by each further one, though another of its addresses
// never answers. Both when it was dialled and when it had dialled.
func TestRefusedRedial(t *testing.T) {
	dead, err := deaf("127.0.0.2")
	if err != nil {
		t.Skip("this system has no second loopback address for one that never answers: ", err)
	}
	defer dead.Close()
	silent := fmt.Sprintf("/ip4/127.0.0.2/tcp/%d", dead.Addr().(*net.TCPAddr).Port)
	for _, role := range []string{"listen", "dial"} {
		t.Run(role, func(t *testing.T) {
			h := newTestHost(t, Config{})
			arrived := make(chan struct{}, 1)
			serve(h, func(_ string, c net.Conn) {
				arrived <- struct{}{}
				io.Copy(io.Discard, c)
			})
			gone := make(chan string, 1)
			h.OnDisconnect(func(p string) { gone <- p })
			own := Link{Peer: h.Self(), Addrs: h.Addrs(), Run: "dial", Secret: NewSecret()}
			process, link := child(t, role, own.String())
			if role == "listen" {
				c, err := h.Open(testContext(t), link.Peer, link.Addrs, testProto)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
			} else {
				receive(t, arrived)
			}
			if streams, conns := h.Counts(); conns < 1 || streams < 1 {
				t.Errorf("%d streams on %d connections", streams, conns)
			}
			process.Process.Kill()
			process.Wait()
			if p := receive(t, gone); p != link.Peer {
				t.Fatalf("%s is gone, want %s", p, link.Peer)
			}
			for range 3 {
				begin := time.Now()
				_, err := h.Open(testContext(t), link.Peer, append(slices.Clone(link.Addrs), silent), testProto)
				refuse(t, err, ErrRefused, "connection refused at ")
				refuse(t, err, ErrUnreachable)
				if d := time.Since(begin); d > 2*time.Second {
					t.Errorf("known after %v, the silent address held it up", d)
				} else {
					t.Logf("known after %v", d)
				}
			}
			if _, conns := h.Counts(); conns != 0 {
				t.Errorf("%d connections are left", conns)
			}
		})
	}
}

// deaf listens at ip, and what connects there is never answered.
func deaf(ip string) (net.Listener, error) { return net.Listen("tcp", ip+":0") }

// A refusal is a proof for none but those who were connected: one may have the wrong address of others.
func TestRefusedAtFirst(t *testing.T) {
	a, b := newTestHost(t, Config{}), newTestHost(t, Config{})
	addrs := b.Addrs()
	b.Close()
	_, err := a.Open(testContext(t), b.Self(), addrs, testProto)
	refuse(t, err, ErrUnreachable)
	if errors.Is(err, ErrRefused) {
		t.Errorf("a peer that was never connected is said to have ended: %v", err)
	}
}

// A machine that is silent at the old place is not one that refuses.
func TestSilentRedialIsNoRefusal(t *testing.T) {
	a, b := newTestHost(t, Config{}), newTestHost(t, Config{})
	serve(b, echo)
	open(t, a, b).Close()
	id, err := parsePeer(b.Self())
	if err != nil {
		t.Fatal(err)
	}
	known := a.ends.ports(id, nil)
	if len(known) != 1 || known[0].Addr() != netip.MustParseAddr("127.0.0.1") {
		t.Fatalf("the last connection ended at %v", known)
	}
	if refusedByAll(testContext(t), known) {
		t.Error("a peer that listens refuses")
	}
	l, err := deaf("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b.Close()
	also := l.Addr().(*net.TCPAddr).AddrPort()
	if !refusedByAll(testContext(t), known) || refusedByAll(testContext(t), append(known, also)) {
		t.Error("one port that doesn't refuse is not enough, or a closed one is")
	}
}

func TestLastEnds(t *testing.T) {
	l := newLastEnds()
	addrs := []ma.Multiaddr{ma.StringCast("/ip4/192.0.2.7/tcp/4001/ws"), ma.StringCast("/ip4/192.0.2.7/udp/4001/quic-v1"),
		ma.StringCast("/ip4/192.0.2.8/tcp/4001"), ma.StringCast("/dns/example.org/tcp/4001"), ma.StringCast("/ip4/192.0.2.7/tcp/4002")}
	two := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.7:4001"), netip.MustParseAddrPort("192.0.2.7:4002")}
	for _, c := range []struct {
		last end
		want []netip.AddrPort
	}{
		{end{}, nil},
		{end{ip: two[0].Addr()}, two},
		{end{ip: two[0].Addr(), port: 4001}, two},
		{end{ip: two[0].Addr(), port: 9}, append([]netip.AddrPort{netip.MustParseAddrPort("192.0.2.7:9")}, two...)},
		{end{ip: netip.MustParseAddr("192.0.2.9")}, nil},
	} {
		id := peer.ID(fmt.Sprint(c.last))
		l.at[id] = c.last
		if got := l.ports(id, addrs); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.last, got, c.want)
		}
	}
}
