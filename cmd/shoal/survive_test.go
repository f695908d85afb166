//go:build unix

package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shoal"
	"shoal/testnet"
)

// undisturbed is the state hash of a run on one peer.
func undisturbed(t *testing.T, steps int) string {
	t.Helper()
	return runTestnet(t, testnet.Config{RunFile: smallRun(steps), Peers: 1}).StateHash
}

// ends wants the programs to finish their run with the hash.
func ends(t *testing.T, hash string, programs ...*program) {
	t.Helper()
	for i, p := range programs {
		if got := strings.Fields(p.line(t, "state hash"))[2]; got != hash {
			t.Errorf("program %d ended with %s, want %s", i, got, hash)
		}
		if code := p.end(t, patient); code != exitOK {
			t.Errorf("program %d: exit code %d, stderr %q", i, code, p.stderr)
		}
	}
}

// With three daemons any one may be killed, also the one that started the run.
func TestKilledCreator(t *testing.T) {
	const steps = 600
	hash := undisturbed(t, steps)
	up := startProgram(t, "up", writeRun(t, smallRun(steps)), "--peers", "3", "--listen", "127.0.0.1:0")
	link := up.line(t, "shoal:")
	first := startProgram(t, "join", link, "--listen", "127.0.0.1:0")
	second := startProgram(t, "join", link, "--listen", "127.0.0.1:0")
	for _, p := range []*program{up, first, second} {
		p.line(t, "step ")
	}
	up.cmd.Process.Kill()
	first.says(t, "was lost")
	ends(t, hash, first, second)
}

// Whoever presses Ctrl-C hands over what is held there, though it was the only voter; the other goes on alone.
func TestCtrlC(t *testing.T) {
	const steps = 1200
	hash := undisturbed(t, steps)
	up := startProgram(t, "up", writeRun(t, smallRun(steps)), "--peers", "2", "--listen", "127.0.0.1:0")
	join := startProgram(t, "join", up.line(t, "shoal:"), "--listen", "127.0.0.1:0")
	up.line(t, "step ")
	up.cmd.Process.Signal(os.Interrupt)
	up.line(t, "left the run after ")
	if code := up.end(t, 5*time.Second); code != exitInterrupted || up.stderr.String() != "shoal: interrupted\n" {
		t.Errorf("exit code %d, stderr %q", code, up.stderr)
	}
	join.says(t, "left")
	ends(t, hash, join)
}

// A peer may come when the run has begun long ago.
func TestLateJoiner(t *testing.T) {
	t.Parallel()
	const steps = 2000
	hash := undisturbed(t, steps)
	up := startProgram(t, "up", writeRun(t, smallRun(steps)), "--listen", "127.0.0.1:0")
	link := up.line(t, "shoal:")
	up.line(t, "step ")
	join := startProgram(t, "join", link, "--listen", "127.0.0.1:0")
	join.line(t, "step ")
	ends(t, hash, up, join)
}

// A peer that is stopped is taken out after a while, and comes back by itself when it goes on.
func TestStoppedPeer(t *testing.T) {
	up := startProgram(t, "up", writeRun(t, smallRun(1_000_000)), "--peers", "3", "--listen", "127.0.0.1:0")
	link := up.line(t, "shoal:")
	other := startProgram(t, "join", link, "--listen", "127.0.0.1:0")
	victim := startProgram(t, "join", link, "--listen", "127.0.0.1:0")
	name := victim.name(t)
	for _, p := range []*program{up, other, victim} {
		p.line(t, "step ")
	}
	victim.cmd.Process.Signal(syscall.SIGSTOP)
	up.lost(t, name)
	victim.cmd.Process.Signal(syscall.SIGCONT)
	victim.says(t, "joining again")
	up.says(t, name+" joined")
	victim.line(t, "step ")
	other.line(t, "step ")
}

// A peer that is stopped for half a minute was taken out long ago. When it goes on, none of what it sends is taken, since
// the others read nothing from strangers; they tell it so, and it joins again as a newcomer. Nobody ends with other bits.
func TestStoppedForLong(t *testing.T) {
	needLong(t)
	const away = 30 * time.Second
	run, hash, slow := paced(t, 3, 40*time.Second)
	ownCache(t)
	up := startProgram(t, "up", writeRun(t, run), "--peers", "3", "--listen", "127.0.0.1:0", slow)
	link := up.line(t, "shoal:")
	other := startProgram(t, "join", link, "--listen", "127.0.0.1:0", slow)
	victim := startProgram(t, "join", link, "--listen", "127.0.0.1:0", slow)
	name := victim.name(t)
	id := victim.safe(t, 1).Peer
	victim.cmd.Process.Signal(syscall.SIGSTOP)
	back := time.After(away)
	up.lost(t, name)
	at := up.after(t, 5)
	<-back
	victim.cmd.Process.Signal(syscall.SIGCONT)
	victim.says(t, "joining again as a newcomer")
	s := up.until(t, "it is in the view again", func(s *shoal.Status) bool { return s.InView() == 3 })
	old, now := memberOf(at, id), memberOf(s, id)
	if old != nil || now == nil {
		t.Errorf("while it was stopped it was member %+v, now it is %+v", old, now)
	}
	ends(t, hash, up, other, victim)
}

// memberOf is the member with a peer id, or nil.
func memberOf(s *shoal.Status, id string) any {
	for _, m := range s.Members {
		if m.Peer == id && m.Rank >= 0 {
			return m
		}
	}
	return nil
}

// With two daemons one keeps the log. When it dies the other waits and says so, and goes on once it is told to.
func TestRecover(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) { recovers(t, signal) })
	}
}

// recovers has the survivor of two go on without the other, who got a signal.
func recovers(t *testing.T, signal syscall.Signal) {
	const steps = 1200
	hash := undisturbed(t, steps)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	up := startProgram(t, "up", writeRun(t, smallRun(steps)), "--peers", "2", "--listen", "127.0.0.1:0")
	join := startProgram(t, "join", up.line(t, "shoal:"), "--listen", "127.0.0.1:0")
	join.line(t, "step ")
	up.cmd.Process.Signal(signal)
	join.says(t, "shoal recover")
	rescue := startProgram(t, "recover", "--yes", "--pid", strconv.Itoa(join.cmd.Process.Pid))
	if code := rescue.end(t, patient); code != exitOK {
		t.Errorf("recover: exit code %d, stderr %q", code, rescue.stderr)
	}
	ends(t, hash, join)
}
