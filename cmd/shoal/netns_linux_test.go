package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// namespaces makes two network namespaces that see each other as 10.77.0.1 and 10.77.0.2 and nothing else.
func namespaces(t *testing.T) [2]string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("network namespaces need the program ip (package iproute2)")
	}
	var ns [2]string
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Skipf("this system makes no network namespaces: ip %s: %s", strings.Join(args, " "), strings.TrimSpace(string(out)))
		}
	}
	for i := range ns {
		ns[i] = fmt.Sprintf("shoal-%d-%d", os.Getpid(), i)
		ip("netns", "add", ns[i])
		t.Cleanup(func() { exec.Command("ip", "netns", "del", ns[i]).Run() })
	}
	ip("link", "add", "shoal0", "netns", ns[0], "type", "veth", "peer", "name", "shoal0", "netns", ns[1])
	for i, n := range ns {
		ip("-n", n, "addr", "add", fmt.Sprintf("10.77.0.%d/24", i+1), "dev", "shoal0")
		ip("-n", n, "link", "set", "shoal0", "up")
		ip("-n", n, "link", "set", "lo", "up")
	}
	return ns
}

// TestTwoMachines trains in two network namespaces that have no loopback address in common: the peers can only meet at
// the addresses in the link and in the log.
func TestTwoMachines(t *testing.T) {
	ns := namespaces(t)
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
