//go:build unix

package main

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shoal"
)

// processesUp starts a run in n processes of this machine and waits until it survives so many deaths. The first one has
// started it.
func processesUp(t *testing.T, n int, run *shoal.RunFile, deaths int) (all []*program, names []string, link string) {
	t.Helper()
	ownCache(t)
	up := startProgram(t, "up", writeRun(t, run), "--peers", strconv.Itoa(n), "--listen", "127.0.0.1:0", "--cores", "1")
	link = up.line(t, "shoal:")
	all, names = []*program{up}, []string{up.name(t)}
	for range n - 1 {
		p := startProgram(t, "join", link, "--listen", "127.0.0.1:0", "--cores", "1")
		all, names = append(all, p), append(names, p.name(t))
	}
	up.safe(t, deaths)
	return all, names, link
}

// leader is the index of the program that leads, and needs a moment after a start.
func leader(t *testing.T, all []*program) int {
	t.Helper()
	i := slices.IndexFunc(all, func(p *program) bool { s := p.status(t); return s.Leader == s.Peer })
	if i < 0 {
		t.Fatal("nobody leads")
	}
	return i
}

// killed kills some programs at one instant, and wants the others to end with the hash.
func killed(t *testing.T, hash string, all []*program, victims ...int) {
	t.Helper()
	for _, i := range victims {
		if err := all[i].cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	var others []*program
	for i, p := range all {
		if !slices.Contains(victims, i) {
			others = append(others, p)
		}
	}
	ends(t, hash, others...)
}

// With two backups and five daemons any two may be killed at the same instant: by default the leader and another one, with
// -long every two of the five by the order in which they came.
func TestTwoOfFiveKilled(t *testing.T) {
	const steps = 500
	hash := undisturbed(t, steps)
	run := smallRun(steps)
	run.Mesh.Backups = 2
	start := func(t *testing.T) []*program {
		all, _, _ := processesUp(t, 5, run, 2)
		return all
	}
	t.Run("leader and another", func(t *testing.T) {
		all := start(t)
		lead := leader(t, all)
		killed(t, hash, all, lead, (lead+1)%5)
	})
	if !*long {
		return
	}
	for a := range 5 {
		for b := range a {
			t.Run(fmt.Sprintf("%d and %d", b, a), func(t *testing.T) { killed(t, hash, start(t), a, b) })
		}
	}
}

// With three daemons any one may be killed; see TestKilledCreator for the first one.
func TestOneOfThreeKilled(t *testing.T) {
	const steps = 400
	hash := undisturbed(t, steps)
	for victim := 1; victim < 3; victim++ {
		t.Run(fmt.Sprint(victim), func(t *testing.T) {
			if victim > 1 {
				needLong(t)
			}
			all, _, _ := processesUp(t, 3, smallRun(steps), 1)
			killed(t, hash, all, victim)
		})
	}
}

// With two daemons one keeps the log; the other one may be killed.
func TestWhoDoesNotVoteIsKilled(t *testing.T) {
	const steps = 400
	hash := undisturbed(t, steps)
	all, _, _ := processesUp(t, 2, smallRun(steps), 0)
	s := all[0].until(t, "there is a backup of everything", func(s *shoal.Status) bool { return s.Redundancy == 1 && s.Step > 0 })
	if s.Voters != 1 {
		t.Fatalf("%d voters: %+v", s.Voters, s.Members)
	}
	voter := slices.IndexFunc(all, func(p *program) bool {
		id := p.status(t).Peer
		for _, m := range s.Members {
			if m.Peer == id {
				return m.Voter
			}
		}
		return false
	})
	killed(t, hash, all, 1-voter)
}

// freeAddress is one at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// When the peer that started the run is gone, whoever knows the address of another one joins through that.
func TestJoinWithoutTheCreator(t *testing.T) {
	const steps = 2500 // seconds on any machine: who comes late must find it under way
	hash := undisturbed(t, steps)
	ownCache(t)
	up := startProgram(t, "up", writeRun(t, smallRun(steps)), "--peers", "3", "--listen", "127.0.0.1:0", "--cores", "1")
	link := up.line(t, "shoal:")
	invitation := strings.Fields(up.line(t, "or, knowing the address of any peer: shoal join "))[9]
	address := freeAddress(t)
	all := []*program{startProgram(t, "join", link, "--listen", address, "--cores", "1"), startProgram(t, "join", link, "--listen", "127.0.0.1:0", "--cores", "1")}
	up.safe(t, 1)
	up.cmd.Process.Kill()
	<-up.exited
	lost := startProgram(t, "join", link, "--listen", "127.0.0.1:0")
	late := startProgram(t, "join", invitation, "--via", address, "--listen", "127.0.0.1:0", "--cores", "1")
	late.line(t, "step ")
	ends(t, hash, append(all, late)...)
	lost.refused(t, "is the run over, or a firewall in between?")
}

// interrupted wants a program to have left its run politely.
func interrupted(t *testing.T, p *program) {
	t.Helper()
	p.line(t, "left the run after ")
	if code := p.end(t, 6*time.Second); code != exitInterrupted || p.stderr.String() != "shoal: interrupted\n" {
		t.Errorf("exit code %d, stderr %q", code, p.stderr)
	}
}

// Two leave at the same time: both hand over what they hold, and the others lose nothing.
func TestTwoCtrlC(t *testing.T) {
	const steps = 500
	hash := undisturbed(t, steps)
	all, names, _ := processesUp(t, 4, smallRun(steps), 1)
	lead := leader(t, all)
	goes := []int{lead, (lead + 1) % 4}
	for _, i := range goes {
		all[i].cmd.Process.Signal(os.Interrupt)
	}
	for _, i := range goes {
		interrupted(t, all[i])
	}
	stay := []*program{all[(lead+2)%4], all[(lead+3)%4]}
	for _, p := range stay {
		s := p.until(t, "two are in the view", func(s *shoal.Status) bool { return s.InView() == 2 })
		if len(s.Faults) > 0 {
			t.Errorf("somebody was lost, not seen to leave (%s): %+v", names, s.Faults)
		}
	}
	ends(t, hash, stay...)
}

// Where all leave at the same time nobody waits for anybody to take over.
func TestCtrlCOfAll(t *testing.T) {
	all, _, _ := processesUp(t, 3, smallRun(1_000_000), 0)
	for _, p := range all {
		p.cmd.Process.Signal(os.Interrupt)
	}
	for i, p := range all {
		if code := p.end(t, 3*time.Second); code != exitInterrupted || p.stderr.String() != "shoal: interrupted\n" {
			t.Errorf("peer %d: exit code %d, stderr %q", i, code, p.stderr)
		}
	}
}

// The last one has nobody to hand anything over to.
func TestCtrlCOfTheLast(t *testing.T) {
	all, _, _ := processesUp(t, 2, smallRun(1_000_000), 0)
	all[1].cmd.Process.Signal(os.Interrupt)
	interrupted(t, all[1])
	last := all[0]
	last.says(t, "this peer is alone now")
	last.after(t, 10)
	last.cmd.Process.Signal(os.Interrupt)
	if code := last.end(t, 5*time.Second); code != exitInterrupted || last.stderr.String() != "shoal: interrupted\n" {
		t.Errorf("exit code %d, stderr %q", code, last.stderr)
	}
}

// Who presses Ctrl-C twice does not want to wait, not even for others who don't answer. The run goes on all the same.
func TestCtrlCTwice(t *testing.T) {
	all, names, _ := processesUp(t, 3, smallRun(1_000_000), 1)
	for _, p := range all[1:] {
		p.cmd.Process.Signal(syscall.SIGSTOP) // or it would have left before the second one
	}
	impatient := all[0]
	impatient.cmd.Process.Signal(os.Interrupt)
	impatient.says(t, "leaving: ")
	impatient.cmd.Process.Signal(os.Interrupt)
	if code := impatient.end(t, time.Second); code != exitInterrupted {
		t.Errorf("exit code %d, stderr %q", code, impatient.stderr)
	}
	for _, p := range all[1:] {
		p.cmd.Process.Signal(syscall.SIGCONT)
	}
	all[1].lost(t, names[0])
	all[1].after(t, 10)
}
