package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"shoal"
	"shoal/internal/live"
	"shoal/internal/status"
)

// aRun is one that is stuck until it is recovered.
type aRun struct{ st status.Status }

func (r *aRun) Status() status.Status { return r.st }

func (r *aRun) Recover(context.Context) error {
	if r.st.Generation > 0 {
		return errors.New("once is enough")
	}
	r.st.Generation++
	return nil
}

// ownCache gives the test a cache folder in which no process is.
func ownCache(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, dir)
	}
}

// ask runs a command; all that it says on stderr is one line.
func ask(t *testing.T, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	if code := run(t.Context(), args, strings.NewReader("y\n"), &out, &err); code != wantCode {
		t.Errorf("%q: exit code %d, want %d; stderr %s", args, code, wantCode, err.String())
	}
	if strings.Count(err.String(), "\n") > 1 {
		t.Errorf("%q: stderr is %q", args, err.String())
	}
	return out.String(), err.String()
}

func has(t *testing.T, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%q is not in %q", want, text)
	}
}

func TestStatusAndRecover(t *testing.T) {
	ownCache(t)
	for _, name := range []string{"status", "recover"} {
		_, line := ask(t, exitFailed, name)
		has(t, line, "no process of yours on this machine is in a run")
	}
	r := &aRun{status.Status{RunID: "5f0c9a", Name: "digits", PID: os.Getpid(), Step: 7, Steps: 9,
		Members: []status.Member{{Peer: "me", Rank: 0}, {Peer: "other", Rank: 1}}}}
	s, err := live.Serve(r)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	text, _ := ask(t, exitOK, "status")
	has(t, text, "run       digits")
	text, _ = ask(t, exitOK, "status", "5F0", "--json")
	var got shoal.Status
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.Step != 7 || len(got.Members) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	_, line := ask(t, exitFailed, "status", "77")
	has(t, line, fmt.Sprintf(`whose id begins with "77", but %d (run 5f0c9a)`, os.Getpid()))
	_, line = ask(t, exitFailed, "recover", "--yes")
	has(t, line, "not stuck")

	r.st.Stuck = "2 of 3 voters are gone"
	text, line = ask(t, exitWrongInput, "recover")
	has(t, text, "2 of 3 voters are gone")
	has(t, line, "say --yes")
	if r.st.Generation > 0 {
		t.Error("it has recovered though nobody said yes")
	}
	text, _ = ask(t, exitOK, "recover", "--yes", "--pid", fmt.Sprint(os.Getpid()))
	has(t, text, "goes on with 2 peers, in generation 1 of its log")
	_, line = ask(t, exitFailed, "recover", "--yes")
	has(t, line, "not recovered")
	has(t, line, "once is enough")
}

// Of several processes one is to be chosen.
func TestSeveralProcesses(t *testing.T) {
	list := []live.Process{{PID: 4, RunID: "5f0c", Name: "digits"}, {PID: 5, RunID: "77aa", Name: "text"}}
	var out bytes.Buffer
	a := &app{stdout: &out}
	if err := a.listed(list, false); err != nil {
		t.Fatal(err)
	}
	has(t, out.String(), "4    5f0c  digits")
	has(t, out.String(), "`shoal status --pid 4`")
	err := a.listed(list, true)
	if !errors.As(err, &wrongInput{}) {
		t.Errorf("as JSON: %v", err)
	}
	has(t, err.Error(), "choose one by --pid: 4, 5")
}

func TestAgreed(t *testing.T) {
	for line, want := range map[string]bool{"y\n": true, " YES ": true, "": false, "\n": false, "n": false, "yup": false} {
		if agreed(line) != want {
			t.Errorf("%q: %v", line, !want)
		}
	}
}

// An address for metrics that can't be had ends the program before it does anything.
func TestMetricsAddress(t *testing.T) {
	file := writeRun(t, smallRun(2))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, addr := range []string{"nonsense", "127.0.0.1:99999", l.Addr().String()} {
		_, line := ask(t, exitWrongInput, "up", file, "--metrics", addr)
		has(t, line, "--metrics: ")
	}
}
