//go:build !js

package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// roleEnv makes the test binary a helper process: see helper.
const roleEnv = "SHOAL_PEER_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		if err := helper(role, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if code == 0 {
		if left := leaked(patience); left != "" {
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
			code = 1
		}
	}
	os.Exit(code)
}

const bulk = 1 << 20 // bytes that helpers send each other over each address

// helper is one of two processes. The one that listens prints its link and serves until its stdin ends; the one that
// joins reads a link from stdin, and prints what it saw.
func helper(role string, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch role {
	case "listen":
		h, err := New(ctx, Config{}) // all interfaces, free ports
		if err != nil {
			return err
		}
		defer h.Close()
		serve(h, echo)
		fmt.Fprintln(out, Link{Peer: h.Self(), Addrs: h.Addrs(), Run: "netns", Secret: NewSecret()})
		_, err = io.Copy(io.Discard, in)
		return err
	case "join":
		return helperJoin(ctx, in, out)
	case "dial":
		return helperDial(ctx, in, out)
	case "member":
		return helperMember(ctx, in, out)
	case "find":
		return helperFind(ctx, in, out)
	case "find on LAN":
		return helperFindLAN(ctx, in, out)
	}
	return fmt.Errorf("unknown role %q", role)
}

// helperDial dials the link that is the first word of stdin, and prints its own; it serves until its stdin ends.
func helperDial(ctx context.Context, in io.Reader, out io.Writer) error {
	h, err := New(ctx, Config{Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	if err != nil {
		return err
	}
	defer h.Close()
	var text string
	if _, err := fmt.Fscanln(in, &text); err != nil {
		return err
	}
	link, err := ParseLink(text)
	if err != nil {
		return err
	}
	c, err := h.Open(ctx, link.Peer, link.Addrs, testProto)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Fprintln(out, Link{Peer: h.Self(), Addrs: h.Addrs(), Run: "dial", Secret: NewSecret()})
	_, err = io.Copy(io.Discard, in)
	return err
}

// joined is what the helper that joins reports.
type joined struct {
	Run    string
	Remote []string // one per connection
	Bytes  int64
}

func helperJoin(ctx context.Context, in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	link, err := ParseLink(string(text))
	if err != nil {
		return err
	}
	seen := joined{Run: link.Run}
	// Each address alone, so that each transport is tried; then all together.
	for _, addrs := range append(singles(link.Addrs), link.Addrs) {
		remote, n, err := exchange(ctx, link.Peer, addrs)
		if err != nil {
			return err
		}
		seen.Remote = append(seen.Remote, remote)
		seen.Bytes += n
	}
	return json.NewEncoder(out).Encode(seen)
}

// helperMember is a run's member, until its stdin ends. It prints its link.
func helperMember(ctx context.Context, in io.Reader, out io.Writer) error {
	h, err := New(ctx, Config{Listen: []string{":4001"}})
	if err != nil {
		return err
	}
	defer h.Close()
	l := Link{Peer: h.Self(), Addrs: h.Addrs(), Run: NewSecret(), Secret: NewSecret()}
	if err := errors.Join(h.ProvideRun(l), h.AdvertiseLAN("netns", l)); err != nil {
		return err
	}
	fmt.Fprintln(out, l)
	_, err = io.Copy(io.Discard, in)
	return err
}

// helperFind finds the run in the invitation, the first word of stdin, through the address that is the second one. It
// prints the link that it found, and is a node until its stdin ends.
func helperFind(ctx context.Context, in io.Reader, out io.Writer) error {
	h, err := New(ctx, Config{Listen: []string{":4001"}})
	if err != nil {
		return err
	}
	defer h.Close()
	var invitation, via string
	if _, err := fmt.Fscanln(in, &invitation, &via); err != nil {
		return err
	}
	run, secret, err := ParseInvitation(invitation)
	if err != nil {
		return err
	}
	l, err := h.FindRun(ctx, run, secret, []string{via})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, l)
	_, err = io.Copy(io.Discard, in)
	return err
}

// helperFindLAN prints the link of the run that is named on stdin.
func helperFindLAN(ctx context.Context, in io.Reader, out io.Writer) error {
	h, err := New(ctx, Config{})
	if err != nil {
		return err
	}
	defer h.Close()
	var name string
	if _, err := fmt.Fscanln(in, &name); err != nil {
		return err
	}
	l, err := h.FindLAN(ctx, name, nil)
	if err == nil {
		fmt.Fprintln(out, l)
	}
	return err
}

// exchange sends bulk bytes from a new host and counts what comes back.
func exchange(ctx context.Context, peer string, addrs []string) (remote string, n int64, err error) {
	h, err := New(ctx, Config{})
	if err != nil {
		return "", 0, err
	}
	defer h.Close()
	c, err := h.Open(ctx, peer, addrs, testProto)
	if err != nil {
		return "", 0, err
	}
	defer c.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, bulk))
		sent <- errors.Join(err, c.(interface{ CloseWrite() error }).CloseWrite())
	}()
	n, err = io.Copy(io.Discard, c)
	return c.RemoteAddr().String(), n, errors.Join(err, <-sent)
}

// singles are the addresses that aren't loopback, one by one.
func singles(addrs []string) (out [][]string) {
	for _, a := range addrs {
		if !isLoopback(a) {
			out = append(out, []string{a})
		}
	}
	return out
}

func isLoopback(addr string) bool {
	return strings.HasPrefix(addr, "/ip4/127.") || strings.HasPrefix(addr, "/ip6/::1/")
}

// leaked waits until no goroutine of this package or of libp2p is left, and shows those that are left in the end.
func leaked(wait time.Duration) string {
	end := time.After(wait)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var b strings.Builder
		pprof.Lookup("goroutine").WriteTo(&b, 2)
		var left []string
		for _, g := range strings.Split(b.String(), "\n\n") {
			if !strings.Contains(g, "peer.TestMain") &&
				(strings.Contains(g, "libp2p") || strings.Contains(g, "shoal/peer") || strings.Contains(g, "quic-go")) {
				left = append(left, g)
			}
		}
		if len(left) == 0 {
			return ""
		}
		select {
		case <-end:
			return strings.Join(left, "\n\n")
		case <-tick.C:
		}
	}
}
