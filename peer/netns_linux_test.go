package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	ma "github.com/multiformats/go-multiaddr"
)

// ip runs the ip tool.
func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// namespace makes a network namespace in which nothing is up, not even loopback. It goes with the test.
func namespace(t *testing.T, name string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs the ip tool (iproute2) to make network namespaces")
	}
	name = fmt.Sprintf("shoal%d%s", os.Getpid(), name)
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		t.Skipf("can't make network namespaces here: %s", oneLine(string(out)))
	}
	t.Cleanup(func() { ip(t, "netns", "del", name) })
	return name
}

// inNamespace is this test binary as a helper process in a namespace.
func inNamespace(ctx context.Context, ns, role string) *exec.Cmd {
	c := exec.CommandContext(ctx, "ip", "netns", "exec", ns, os.Args[0])
	c.Env = append(os.Environ(), roleEnv+"="+role)
	c.Stderr = os.Stderr
	return c
}

// startListener starts a helper that listens, and returns its link. It ends with the test.
func startListener(t *testing.T, ns string) Link { return startHelper(t, ns, "listen", "")() }

// startHelper starts a helper that serves until the test ends, and says what it reads. link waits for its link.
func startHelper(t *testing.T, ns, role, says string) (link func() Link) {
	t.Helper()
	c := inNamespace(testContext(t), ns, role)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v", role, err)
		}
	})
	if _, err := in.Write([]byte(says)); err != nil {
		t.Fatal(err)
	}
	return func() Link {
		t.Helper()
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		l, err := ParseLink(line)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

// join runs a helper that joins by the link.
func join(t *testing.T, ns string, link Link) (seen joined) {
	t.Helper()
	c := inNamespace(testContext(t), ns, "join")
	c.Stdin = strings.NewReader(link.String())
	out, err := c.Output()
	if err == nil {
		err = json.Unmarshal(out, &seen)
	}
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// Two processes in two network namespaces with a cable between them: two machines, as far as a network goes.
func TestTwoMachines(t *testing.T) {
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		t.Skip("needs IPv6")
	}
	a, b := namespace(t, "a"), namespace(t, "b")
	ip(t, "-n", a, "link", "add", "v0", "type", "veth", "peer", "name", "v0", "netns", b)
	for i, ns := range []string{a, b} {
		ip(t, "-n", ns, "addr", "add", fmt.Sprintf("10.77.0.%d/24", i+1), "dev", "v0")
		ip(t, "-n", ns, "addr", "add", fmt.Sprintf("fd77::%d/64", i+1), "dev", "v0", "nodad")
		ip(t, "-n", ns, "link", "set", "v0", "up")
	}
	link := startListener(t, a)
	for _, want := range []string{"/ip4/10.77.0.1/tcp/", "/ip4/10.77.0.1/udp/", "/ip6/fd77::1/tcp/", "/ws"} {
		if !strings.Contains(strings.Join(link.Addrs, " "), want) {
			t.Errorf("link has no address with %s: %v", want, link.Addrs)
		}
	}
	if len(singles(link.Addrs)) != len(link.Addrs) {
		t.Errorf("loopback addresses in %v", link.Addrs)
	}
	seen := join(t, b, link)
	if want := int64(len(link.Addrs)+1) * bulk; seen.Bytes != want || seen.Run != link.Run {
		t.Errorf("joined: %+v, want %d bytes", seen, want)
	}
	for i, addr := range link.Addrs {
		if seen.Remote[i] != withoutCertHashes(ma.StringCast(addr)).String()+"/p2p/"+link.Peer {
			t.Errorf("dialled %s, connected to %s", addr, seen.Remote[i])
		}
	}
}

func TestLoopbackOnly(t *testing.T) {
	ns := namespace(t, "c")
	if link := startListener(t, ns); len(link.Addrs) != 0 {
		t.Errorf("addresses without any network: %v", link.Addrs)
	}
	ip(t, "-n", ns, "link", "set", "lo", "up")
	link := startListener(t, ns)
	if len(link.Addrs) == 0 || len(singles(link.Addrs)) != 0 {
		t.Errorf("addresses with nothing but loopback: %v", link.Addrs)
	}
	if seen := join(t, ns, link); seen.Bytes != bulk {
		t.Errorf("joined: %+v", seen)
	}
}

// machines makes n namespaces on one network: 10.78.0.1, 10.78.0.2 ...
func machines(t *testing.T, n int) (ns []string) {
	t.Helper()
	hub := namespace(t, "hub")
	ip(t, "-n", hub, "link", "add", "hub", "type", "bridge")
	ip(t, "-n", hub, "link", "set", "hub", "up")
	for i := range n {
		name, port := namespace(t, fmt.Sprint("n", i)), fmt.Sprint("p", i)
		ip(t, "-n", name, "link", "add", "v0", "type", "veth", "peer", "name", port, "netns", hub)
		ip(t, "-n", hub, "link", "set", port, "master", "hub", "up")
		ip(t, "-n", name, "addr", "add", fmt.Sprintf("10.78.0.%d/24", i+1), "dev", "v0")
		ip(t, "-n", name, "link", "set", "v0", "up")
		ns = append(ns, name)
	}
	return ns
}

// Machines of which each knows the address of the one before find the run's member.
func TestMachinesFindTheRun(t *testing.T) {
	ns := machines(t, 3)
	member := startHelper(t, ns[0], "member", "")()
	var found []func() Link
	for i := len(ns) - 1; i > 0; i-- { // the last one asks a machine at which nobody listens yet
		found = append(found, startHelper(t, ns[i], "find", fmt.Sprintf("%s 10.78.0.%d:4001\n", member.Invitation(), i)))
	}
	for _, f := range found {
		if l := f(); l.Peer != member.Peer || l.Run != member.Run || l.Secret != member.Secret {
			t.Errorf("found %+v, want %+v", l, member)
		}
	}
	if l := startHelper(t, ns[2], "find on LAN", "netns\n")(); l.String() != member.String() {
		t.Errorf("found %+v on the local network, want %+v", l, member)
	}
}
