package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

// lan is a network of machines, which are network namespaces: machine i is 10.77.0.1+i, and sees nothing but the others.
type lan struct {
	t        *testing.T
	number   int64    // among those of this process
	hub      string   // the namespace with the switches
	machines []string // namespaces
	caches   []string // folders by machine
}

var lans atomic.Int64

// newLAN makes n machines. They are gone when the test ends.
func newLAN(t *testing.T, n int) *lan {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("network namespaces need the program ip (package iproute2)")
	}
	l := &lan{t: t, number: lans.Add(1)}
	l.hub = l.namespace("hub")
	for _, name := range []string{"hub", "far"} {
		l.ip("-n", l.hub, "link", "add", name, "type", "bridge")
		l.ip("-n", l.hub, "link", "set", name, "up")
	}
	for i := range n {
		name := l.namespace(fmt.Sprint(i))
		l.ip("link", "add", "shoal0", "netns", name, "type", "veth", "peer", "name", port(i), "netns", l.hub)
		l.ip("-n", l.hub, "link", "set", port(i), "master", "hub", "up")
		l.ip("-n", name, "addr", "add", fmt.Sprintf("10.77.0.%d/24", i+1), "dev", "shoal0")
		l.ip("-n", name, "link", "set", "shoal0", "up")
		l.ip("-n", name, "link", "set", "lo", "up")
		l.machines, l.caches = append(l.machines, name), append(l.caches, t.TempDir())
	}
	return l
}

// namespaces are the machines of a network, for `ip netns exec`.
func namespaces(t *testing.T, n int) []string {
	t.Helper()
	return newLAN(t, n).machines
}

// ip runs the program ip.
func (l *lan) ip(args ...string) {
	l.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		l.t.Skipf("this system makes no such network: ip %s: %s", strings.Join(args, " "), strings.TrimSpace(string(out)))
	}
}

func (l *lan) namespace(name string) string {
	l.t.Helper()
	name = fmt.Sprintf("%s%d-%s", namespacePrefix(), l.number, name)
	l.ip("netns", "add", name)
	l.t.Cleanup(func() {
		if out, err := exec.Command("ip", "netns", "del", name).CombinedOutput(); err != nil {
			l.t.Errorf("ip netns del %s: %s", name, strings.TrimSpace(string(out)))
		}
	})
	return name
}

// port is the end of machine i's cable at the switch.
func port(i int) string { return fmt.Sprint("port", i) }

// start starts the program on machine i, which has a cache folder of its own.
func (l *lan) start(i int, args ...string) *program {
	l.t.Helper()
	return startCommand(l.t, "ip", append([]string{"netns", "exec", l.machines[i], "env", "XDG_CACHE_HOME=" + l.caches[i], self(l.t)}, args...)...)
}

// unplug takes machine i's cable out, plug puts it in again.
func (l *lan) unplug(i int) { l.ip("-n", l.hub, "link", "set", port(i), "down") }
func (l *lan) plug(i int)   { l.ip("-n", l.hub, "link", "set", port(i), "up") }

// move puts machines on another switch, "hub" or "far", which has no way to the first one. They don't notice: nothing
// is refused or reset.
func (l *lan) move(to string, machines ...int) {
	for _, i := range machines {
		l.ip("-n", l.hub, "link", "set", port(i), "master", to)
	}
}

// part breaks the path between two machines, or mends it. Both reach all others.
func (l *lan) part(a, b int, broken bool) {
	state := map[bool]string{true: "on", false: "off"}[broken]
	for _, i := range []int{a, b} {
		l.ip("-n", l.hub, "link", "set", port(i), "type", "bridge_slave", "isolated", state)
	}
}

// TestTwoMachines trains in two network namespaces that have no loopback address in common: the peers can only meet at
// the addresses in the link and in the log.
func TestTwoMachines(t *testing.T) {
	ns := namespaces(t, 2)
	file := writeRun(t, smallRun(6))
	up := startCommand(t, "ip", "netns", "exec", ns[0], self(t), "up", file, "--peers", "3", "--report", t.TempDir())
	link := up.line(t, "shoal:")
	here := startCommand(t, "ip", "netns", "exec", ns[1], self(t), "join", link, "--report", t.TempDir())
	there := startCommand(t, "ip", "netns", "exec", ns[1], self(t), "join", link, "--report", t.TempDir())
	var hashes []string
	for _, p := range []*program{up, here, there} {
		hashes = append(hashes, p.line(t, "state hash"))
		if code := p.end(t, patient); code != exitOK {
			t.Errorf("exit code %d, stderr %s", code, p.stderr)
		}
	}
	if hashes[0] != hashes[1] || hashes[0] != hashes[2] {
		t.Errorf("%q: want one hash", hashes)
	}
}
