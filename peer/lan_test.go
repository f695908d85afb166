//go:build !js

package peer

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	ma "github.com/multiformats/go-multiaddr"
)

// advertise makes a host on all interfaces that is a run's only member.
func advertise(t *testing.T, name, run string) Link {
	t.Helper()
	h := newTestHost(t, Config{Listen: []string{":0"}})
	l := Link{Peer: h.Self(), Addrs: h.Addrs(), Run: run, Secret: NewSecret()}
	if err := h.AdvertiseLAN(name, l); err != nil {
		t.Skipf("multicast doesn't work here: %v", err)
	}
	return l
}

// Two runs on one network stay apart; two of one name are not guessed about.
func TestLAN(t *testing.T) {
	here := strings.ToLower(NewSecret()[:8]) // other tests may be on the same network
	one, two := advertise(t, "one-"+here, "run-1"), advertise(t, "two-"+here, "run-2")
	h := newTestHost(t, Config{})
	ctx, cancel := context.WithTimeout(testContext(t), 5*time.Second)
	defer cancel()
	found, err := h.FindLAN(ctx, "one-"+here, nil)
	if errors.Is(err, ErrRunNotFound) && !strings.Contains(err.Error(), here) {
		t.Skipf("multicast doesn't work here: %v", err)
	}
	if err != nil || found.String() != one.String() {
		t.Fatalf("found %+v, %v, want %+v", found, err, one)
	}
	if found, err := h.FindLAN(testContext(t), "two-"+here, nil); err != nil || found.String() != two.String() {
		t.Errorf("found %+v, %v, want %+v", found, err, two)
	}
	short, cancel := context.WithTimeout(testContext(t), 1500*time.Millisecond)
	defer cancel()
	if _, err := h.FindLAN(short, "six-"+here, nil); !errors.Is(err, ErrRunNotFound) || !strings.Contains(err.Error(), "one-"+here) {
		t.Errorf("a name that nobody has: %v", err)
	}
	advertise(t, "one-"+here, "run-3")
	if _, err := h.FindLAN(testContext(t), "one-"+here, nil); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("two runs of one name: %v", err)
	}
}

func TestAdvertiseRefuses(t *testing.T) {
	h := newTestHost(t, Config{})
	l := Link{Peer: h.Self(), Addrs: h.Addrs(), Run: "run", Secret: NewSecret()}
	for _, name := range []string{"", "a b", "ä", "a=b", strings.Repeat("x", maxLANName+1)} {
		if h.AdvertiseLAN(name, l) == nil {
			t.Errorf("advertised as %q", name)
		}
		if _, err := h.FindLAN(testContext(t), name, nil); err == nil || errors.Is(err, ErrRunNotFound) {
			t.Errorf("looked for %q: %v", name, err)
		}
	}
	if h.AdvertiseLAN("x", Link{Peer: "x"}) == nil {
		t.Error("advertised a link that is none")
	}
}

// addrConn is a connection from somewhere.
type addrConn struct {
	net.Conn
	from streamAddr
}

func (c addrConn) RemoteAddr() net.Addr { return c.from }

// The link is for those who ask by its name and from here.
func TestAnswerLAN(t *testing.T) {
	for _, tc := range []struct {
		name, from, asks string
		ok               bool
	}{
		{"from here", "/ip4/127.0.0.1/tcp/1", "digits", true},
		{"another name", "/ip4/127.0.0.1/tcp/1", "digit", false},
		{"a longer name", "/ip4/127.0.0.1/tcp/1", strings.Repeat("digits", 1000), false},
		{"from nowhere", "/dns/localhost/tcp/1", "digits", false},
	} {
		ours, theirs := net.Pipe()
		go func() {
			theirs.SetDeadline(time.Now().Add(patience))
			theirs.Write([]byte(tc.asks))
			theirs.Close()
		}()
		got := &written{addrConn: addrConn{ours, streamAddr(tc.from)}}
		err := answerLAN(got, "digits", "the link")
		if (err == nil) != tc.ok || (string(got.b) == "the link") != tc.ok {
			t.Errorf("%s: %q, %v", tc.name, got.b, err)
		}
		ours.Close()
	}
}

func TestOnOneOf(t *testing.T) {
	var networks []net.Addr
	for _, text := range []string{"10.1.2.3/24", "fd00:1::5/64"} {
		ip, n, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		networks = append(networks, &net.IPNet{IP: ip, Mask: n.Mask})
	}
	for addr, want := range map[string]bool{
		"/ip4/10.1.2.9/tcp/1": true, "/ip4/10.1.3.9/tcp/1": false, "/ip6/fd00:1::9/udp/1/quic-v1": true, "/ip6/fd00:2::9/tcp/1": false,
		"/dns/localhost/tcp/1": false, "": false, "10.1.2.9": false,
	} {
		if got := onOneOf(networks, addr); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
}

// written keeps what is written.
type written struct {
	addrConn
	b []byte
}

func (w *written) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

func TestLANRecords(t *testing.T) {
	h := newTestHost(t, Config{})
	var addrs []ma.Multiaddr
	for _, a := range []string{"/ip4/10.0.0.1/tcp/1", "/ip4/10.0.0.1/udp/1/quic-v1", "/ip6/fd00::1/tcp/1", "/ip4/10.0.0.1/tcp/1/ws", "/dns/a/tcp/1"} {
		addrs = append(addrs, ma.StringCast(a))
	}
	ips, records := lanRecords("digits", h.Self(), addrs)
	if !slices.Equal(ips, []string{"10.0.0.1", "fd00::1"}) {
		t.Errorf("addresses %v", ips)
	}
	name, id, got, ok := parseLANRecords(records)
	if !ok || name != "digits" || id != h.host.ID() || !slices.Equal(texts(got), texts(addrs[:3])) {
		t.Errorf("%v became %s, %s, %v, %v", records, name, id, got, ok)
	}
}

func FuzzLANRecords(f *testing.F) {
	h, err := New(context.Background(), Config{})
	if err != nil {
		f.Fatal(err)
	}
	_, records := lanRecords("digits", h.Self(), dialable(h.host.Addrs()))
	h.Close()
	f.Add(strings.Join(records, "\n"))
	f.Add("name=x\npeer=y\naddr=/ip4/1.2.3.4/tcp/5/p2p/x\naddr=" + strings.Repeat("/ip4/1.2.3.4", 100))
	f.Fuzz(func(t *testing.T, text string) {
		name, id, addrs, ok := parseLANRecords(strings.Split(text, "\n"))
		if !ok {
			return
		}
		if CheckLANName(name) != nil || id.Validate() != nil || len(addrs) > maxLANAddrs {
			t.Errorf("%q, %s, %v", name, id, addrs)
		}
		l := Link{Peer: id.String(), Addrs: texts(addrs), Run: "x", Secret: "y"}
		if err := l.Check(); err != nil {
			t.Errorf("%v can't be dialled: %v", addrs, err)
		}
	})
}
