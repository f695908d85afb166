//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"shoal/testnet"
)

// Whoever complains first, the process at fault is named.
func TestTestnetNamesTheProcessAtFault(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		want   []string
	}{
		{"interrupted", syscall.SIGINT, []string{"left: interrupted", ": interrupted"}}, // said by others, or by itself
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pids, result, _ := startLong(t, testnet.Config{Peers: 3})
			syscall.Kill(pids[1], c.signal)
			err := within(t, 25*time.Second, result)
			who := fmt.Sprintf("testnet: peer 2 (pid %d)", pids[1])
			if err == nil || !strings.HasPrefix(err.Error(), who) {
				t.Fatalf("error %v, want one about %s", err, who)
			}
			if what := strings.TrimPrefix(err.Error(), who); !strings.HasSuffix(what, c.want[0]) && !strings.HasSuffix(what, c.want[len(c.want)-1]) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			checkGone(t, pids)
		})
	}
}

// TestNoAddress has a network namespace without any network.
func TestNoAddress(t *testing.T) {
	ns := namespaces(t, 1)
	cut := startCommand(t, "ip", "-n", ns[0], "link", "del", "shoal0")
	cut.end(t, patient)
	p := startCommand(t, "ip", "netns", "exec", ns[0], self(t), "up", writeRun(t, smallRun(4)), "--peers", "2")
	p.line(t, "1 of 2 peers")
	p.cmd.Process.Signal(os.Interrupt)
	p.end(t, patient)
	if got := p.stderr.String(); !strings.HasPrefix(got, "shoal: this machine has no network address that others can reach") {
		t.Errorf("stderr is %q", got)
	}
}
