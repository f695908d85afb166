//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shoal"
	"shoal/testnet"
)

// name is the program's peer, as others call it.
func (p *program) name(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(strings.TrimPrefix(p.line(t, "this is peer "), "this is peer "))
}

// lost waits until the program says that a peer was lost.
func (p *program) lost(t *testing.T, name string) {
	t.Helper()
	p.find(t, "tells that "+name+" was lost", func(line string) bool {
		return strings.Contains(line, name+" (rank ") && strings.Contains(line, " lost")
	})
}

// status is what `shoal status` tells of the program, where that one runs.
func (p *program) status(t *testing.T) *shoal.Status {
	t.Helper()
	s, err := p.tryStatus(t)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (p *program) tryStatus(t *testing.T) (*shoal.Status, error) {
	t.Helper()
	where := p.cmd.Args[:slices.Index(p.cmd.Args, self(t))]
	args := append(slices.Clone(where), self(t), "status", "--json", "--pid", strconv.Itoa(p.cmd.Process.Pid))
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).Output()
	if err != nil {
		if exit, ok := err.(*exec.ExitError); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, err
	}
	s := new(shoal.Status)
	return s, json.Unmarshal(out, s)
}

// until asks the program for its status until fits likes it.
func (p *program) until(t *testing.T, what string, fits func(*shoal.Status) bool) *shoal.Status {
	t.Helper()
	deadline := time.After(patient)
	for {
		s, err := p.tryStatus(t) // an error before it is in the run
		if err == nil && fits(s) {
			return s
		}
		select {
		case <-p.exited:
			t.Fatalf("it ended before %s; stderr: %s", what, p.stderr)
		case <-deadline:
			t.Fatalf("it is not so that %s: %+v, %v; stderr: %s", what, s, err, p.stderr)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// safe waits until so many members may die at once.
func (p *program) safe(t *testing.T, deaths int) *shoal.Status {
	t.Helper()
	return p.until(t, fmt.Sprintf("the run survives %d deaths", deaths), func(s *shoal.Status) bool { return s.Survives >= deaths && s.Step > 0 })
}

// after waits until the program has committed so many further steps.
func (p *program) after(t *testing.T, steps int) *shoal.Status {
	t.Helper()
	first := p.status(t)
	return p.until(t, fmt.Sprintf("%d steps more are done", steps), func(s *shoal.Status) bool { return s.Step >= first.Step+steps })
}

// said are the lines that are there already and have not been read.
func (p *program) said() (lines []string) {
	for {
		select {
		case line, ok := <-p.stdout:
			if !ok {
				return lines
			}
			lines = append(lines, line)
		default:
			return lines
		}
	}
}

// paced is a run that takes n peers at least so long, on any machine, its hash, and the flag that slows them down for it.
func paced(t *testing.T, n int, atLeast time.Duration) (run *shoal.RunFile, hash, slow string) {
	t.Helper()
	run = smallRun(400)
	one := runTestnet(t, testnet.Config{RunFile: run, Peers: 1})
	factor := max(1, atLeast.Seconds()*float64(n)/one.WallSeconds)
	return run, one.StateHash, fmt.Sprintf("--slow=%.1f", factor)
}
