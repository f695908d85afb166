package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// namespaces makes network namespaces on one network, 10.77.0.1, 10.77.0.2 and so on, that see nothing else.
func namespaces(t *testing.T, n int) (ns []string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("network namespaces need the program ip (package iproute2)")
	}
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Skipf("this system makes no network namespaces: ip %s: %s", strings.Join(args, " "), strings.TrimSpace(string(out)))
		}
	}
	namespace := func(name string) string {
		name = fmt.Sprintf("shoal-%d-%s", os.Getpid(), name)
		ip("netns", "add", name)
		t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
		return name
	}
	hub := namespace("hub")
	ip("-n", hub, "link", "add", "hub", "type", "bridge")
	ip("-n", hub, "link", "set", "hub", "up")
	for i := range n {
		name, port := namespace(fmt.Sprint(i)), fmt.Sprint("port", i)
		ip("link", "add", "shoal0", "netns", name, "type", "veth", "peer", "name", port, "netns", hub)
		ip("-n", hub, "link", "set", port, "master", "hub", "up")
		ip("-n", name, "addr", "add", fmt.Sprintf("10.77.0.%d/24", i+1), "dev", "shoal0")
		ip("-n", name, "link", "set", "shoal0", "up")
		ip("-n", name, "link", "set", "lo", "up")
		ns = append(ns, name)
	}
	return ns
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
