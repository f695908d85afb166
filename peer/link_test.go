package peer

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const somePeer = "12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"

func someLink() Link {
	return Link{
		Peer: somePeer,
		Addrs: []string{
			"/ip4/192.0.2.7/tcp/4001", "/ip4/192.0.2.7/udp/4001/quic-v1", "/ip6/2001:db8::1/tcp/4001/ws",
			"/dns4/example.org/tcp/443/tls/ws",
		},
		Run:    strings.Repeat("0123456789abcdef", 4),
		Secret: "0f0e0d0c0b0a09080706050403020100",
	}
}

// longLink is that of a machine with four addresses, two of them for itself.
func longLink() Link {
	l := someLink()
	l.Addrs = nil
	const hashes = "/certhash/uEiCnq41SYo44noHrxLnO1AhCKVQgNDuBlVLuHEunKyG9iQ/certhash/uEiCtbPH0LoLNjAFfLHgjbHrdq83jKL8ym-yca9d2VX6IjQ"
	for _, host := range []string{"/ip4/192.0.2.7", "/ip6/2001:db8:1:2:3:4:5:6", "/ip4/127.0.0.1", "/ip6/::1"} {
		l.Addrs = append(l.Addrs, host+"/tcp/4001", host+"/udp/4001/quic-v1", host+"/udp/4001/quic-v1/webtransport"+hashes, host+"/tcp/4001/ws")
	}
	return l
}

// Addresses with the same hashes don't make a link longer than people can copy.
func TestLongLink(t *testing.T) {
	l := longLink()
	text := l.String()
	if len(text) > 500 {
		t.Errorf("link of %d characters: %s", len(text), text)
	}
	t.Logf("%d characters", len(text))
	// What is compressed can't be more than a link may have.
	big := deflate(make([]byte, 1<<20))
	if _, err := inflate(big); err == nil {
		t.Errorf("%d bytes became a megabyte", len(big))
	}
	if _, err := inflate([]byte{0xff}); err == nil {
		t.Error("garbage was inflated")
	}
}

func TestLinkRoundTrip(t *testing.T) {
	for name, l := range map[string]Link{
		"all":       someLink(),
		"bare":      {Peer: somePeer},
		"text":      {Peer: somePeer, Run: "digits-7", Secret: "ABC"},
		"odd hex":   {Peer: somePeer, Run: "abc", Secret: "AB"},
		"long text": {Peer: somePeer, Run: strings.Repeat("x", maxLinkField), Secret: strings.Repeat("a", maxLinkField)},
		"new":       {Peer: somePeer, Secret: NewSecret()},
		"packed":    longLink(),
		"circuit":   {Peer: somePeer, Addrs: []string{"/ip4/192.0.2.7/tcp/1/ws/p2p/" + somePeer + "/p2p-circuit", "/p2p/" + somePeer + "/p2p-circuit"}},
	} {
		text := l.String()
		for _, form := range []string{text, " " + text + "\n", strings.ToUpper(text)} {
			got, err := ParseLink(form)
			if err != nil || !reflect.DeepEqual(got, l) {
				t.Errorf("%s: got %+v, %v", name, got, err)
			}
		}
		if strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789:") != "" {
			t.Errorf("%s: %s has characters that shells or URLs may touch", name, text)
		}
	}
	if text := someLink().String(); len(text) > 300 {
		t.Errorf("link of %d characters: %s", len(text), text)
	}
}

// The text form is an interface: this link must stay readable.
func TestLinkGolden(t *testing.T) {
	const text = "shoal:aetaajaiaejcal72gwuz2or47oyxxn6b3rkwdmmkrxgkjxzy3rqt5kczyn7lcm3lieasgrlhrgv433ybencwpcnlzxxqci2fm6e2xtppaerukz4jvpg66iipbygqycykbeeaobqfaqbqeaiaaqeajqaaaidqmd5bbmcmaaaca6iqed5bzubrmkjaaeg3qaaaaaaaaaaaaaaaaaabayh2dxidcq3awzlymfwxa3dffzxxezygag54aa65aokyfiox"
	if got, err := ParseLink(text); err != nil || !reflect.DeepEqual(got, someLink()) {
		t.Errorf("got %+v, %v; the link would now be %s", got, err, someLink())
	}
}

func TestLinkDamage(t *testing.T) {
	for _, text := range []string{someLink().String(), longLink().String()} {
		for i := range text { // cut short
			_, err := ParseLink(text[:i])
			refuse(t, err, ErrBadLink)
		}
		for i := len(linkPrefix); i < len(text); i++ { // one letter mistyped
			for _, c := range []byte{'a', 'q', '7', '1', ' ', '\n', 0xff} {
				if text[i] != c {
					_, err := ParseLink(text[:i] + string(c) + text[i+1:])
					refuse(t, err, ErrBadLink, "cut short or mistyped")
				}
			}
		}
	}
	text := someLink().String()
	for _, s := range []string{"", "http://example.org", "shoal:", "shoal", text + text, strings.Repeat("shoal:", 1e5)} {
		_, err := ParseLink(s)
		refuse(t, err, ErrBadLink)
	}
}

func TestLinkCheck(t *testing.T) {
	for name, change := range map[string]func(*Link){
		"no peer":    func(l *Link) { l.Peer = "" },
		"bad peer":   func(l *Link) { l.Peer = "x" },
		"bad addr":   func(l *Link) { l.Addrs = []string{"192.0.2.7:1"} },
		"peer in it": func(l *Link) { l.Addrs = []string{"/ip4/192.0.2.7/tcp/1/p2p/" + somePeer} },
		"two relays": func(l *Link) {
			l.Addrs = []string{"/p2p/" + somePeer + "/p2p-circuit/p2p/" + somePeer + "/p2p-circuit"}
		},
		"behind relay": func(l *Link) { l.Addrs = []string{"/p2p/" + somePeer + "/p2p-circuit/p2p/" + somePeer} },
		"long addr":    func(l *Link) { l.Addrs = []string{"/dns/" + strings.Repeat("x", maxLinkAddr)} },
		"many addrs":   func(l *Link) { l.Addrs = make([]string, maxLinkAddrs+1) },
		"long run":     func(l *Link) { l.Run = strings.Repeat("x", maxLinkField+1) },
		"space":        func(l *Link) { l.Secret = "a b" },
		"escape":       func(l *Link) { l.Run = "\x1b[2J" },
	} {
		l := someLink()
		change(&l)
		if l.Check() == nil || l.String() != "" {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestNewSecret(t *testing.T) {
	a, b := NewSecret(), NewSecret()
	if len(a) != 32 || a == b {
		t.Errorf("secrets %s, %s", a, b)
	}
}

func FuzzParseLink(f *testing.F) {
	f.Add(someLink().String())
	f.Add(Link{Peer: somePeer}.String())
	f.Add("shoal:aaaaaaaaaaaa")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLink(text)
		if err != nil {
			return
		}
		again, err := ParseLink(l.String())
		if err != nil || !reflect.DeepEqual(again, l) {
			t.Errorf("%+v became %+v, %v", l, again, err)
		}
	})
}

// FuzzDecodeLink is behind the checksum, which a fuzzer can't guess.
func FuzzDecodeLink(f *testing.F) {
	for _, l := range []Link{someLink(), {Peer: somePeer}, longLink()} {
		b, err := l.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[1:len(b)-4], b[0] == linkPacked)
	}
	f.Fuzz(func(t *testing.T, b []byte, packed bool) {
		l, err := decodeLink(b, packed)
		if err != nil {
			return
		}
		again, err := ParseLink(l.String())
		if err != nil || !reflect.DeepEqual(again, l) {
			t.Errorf("%+v became %+v, %v", l, again, err)
		}
	})
}

func ExampleParseLink() {
	link := Link{Peer: somePeer, Addrs: []string{"/ip4/192.0.2.7/tcp/4001"}, Run: "0123", Secret: "4567"}
	text := link.String()
	fmt.Println(text)
	back, err := ParseLink(text)
	fmt.Println(back.Addrs, err)
	_, err = ParseLink(text[:40])
	fmt.Println(err)
	// Output:
	// shoal:aetaajaiaejcal72gwuz2or47oyxxn6b3rkwdmmkrxgkjxzy3rqt5kczyn7lcm3lauasgbkfm4aqqbgaaabaobqpuhez6l4g
	// [/ip4/192.0.2.7/tcp/4001] <nil>
	// not a usable link: it is cut short or mistyped
}

// refuse checks an error: it wraps want, is one line, and its text has all the parts.
func refuse(t testing.TB, err, want error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if want != nil && !errors.Is(err, want) {
		t.Errorf("error %q doesn't wrap %q", err, want)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q doesn't say %q", err, p)
		}
	}
	if strings.ContainsAny(err.Error(), "\n\t") {
		t.Errorf("error is not one line: %q", err)
	}
}
