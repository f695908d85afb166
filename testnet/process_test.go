package testnet

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// The tests' own program can be a child: it then does what its last argument says, by the code below.
func TestMain(m *testing.M) {
	if what := os.Getenv(fakeEnv); what != "" && len(os.Args) > 2 && (os.Args[1] == "up" || os.Args[1] == "join") {
		os.Exit(fakePeer(os.Args[1:], what))
	}
	if len(os.Args) == 3 && os.Args[1] == "as-child" {
		os.Exit(asChild(os.Args[2]))
	}
	os.Exit(m.Run())
}

func asChild(what string) int {
	switch what {
	case "done":
		NewEvents(os.Stdout).Wait(1, 1)
	case "complain":
		os.Stderr.WriteString("a line before\nshoal: no such thing\n")
		return 1
	case "silent":
		return 3
	case "crash":
		panic("what now")
	case "babble":
		os.Stdout.WriteString("hello\n")
	case "end with stdin":
		os.Stdin.Read(make([]byte, 1))
	case "hang":
		select {}
	}
	return 0
}

func startSelf(t *testing.T, what string, verbose io.Writer) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := start(2, self, []string{"as-child", what}, verbose, func(event) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	return p
}

func TestHowProcessesEnd(t *testing.T) {
	for _, tc := range []struct {
		what, want string // "" for no failure
		sudden     bool
	}{
		{"done", "", false},
		{"complain", "): no such thing", false},
		{"silent", "ended without a word: exit status 3", false},
		{"crash", "crashed, --verbose shows where: panic: what now", true},
		{"babble", "told something that is no event", true},
	} {
		t.Run(tc.what, func(t *testing.T) {
			var log bytes.Buffer
			p := startSelf(t, tc.what, &log)
			<-p.exited
			err, sudden := p.failure()
			if tc.want == "" {
				if err != nil {
					t.Fatalf("failed with %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "peer 2 (pid ") || sudden != tc.sudden {
				t.Errorf("error %v (sudden %v), want one with %q (sudden %v)", err, sudden, tc.want, tc.sudden)
			}
			if tc.what == "complain" && log.String() != "peer 2: a line before\npeer 2: shoal: no such thing\n" {
				t.Errorf("log is %q", log.String())
			}
		})
	}
}

func TestKilledByOthers(t *testing.T) {
	p := startSelf(t, "end with stdin", nil)
	p.cmd.Process.Kill()
	<-p.exited
	if err, sudden := p.failure(); err == nil || !sudden || !strings.Contains(err.Error(), "was ended by signal: killed") {
		t.Errorf("error %v (sudden %v)", err, sudden)
	}
}

func TestStop(t *testing.T) {
	for _, tc := range []struct {
		what   string
		within time.Duration
		killed bool
	}{
		{"end with stdin", killAfter, false},
		{"hang", killAfter + time.Second, true},
	} {
		t.Run(tc.what, func(t *testing.T) {
			t.Parallel()
			p := startSelf(t, tc.what, nil)
			begin := time.Now()
			p.stop()
			if took := time.Since(begin); took > tc.within || p.killed != tc.killed {
				t.Errorf("took %v and killed is %v", took, p.killed)
			}
			if _, sudden := p.failure(); sudden {
				t.Error("a process that was told to end counts as the cause")
			}
			p.stop() // may be called twice
		})
	}
}
