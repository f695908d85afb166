//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shoal"
	"shoal/internal/runfile"
	"shoal/peer"
	"shoal/testnet"
)

// The test program is also the program itself, for the tests that start it as processes.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Setenv(asProgram, strconv.Itoa(os.Getpid()))
	peer.LogTo(slog.DiscardHandler)
	code := m.Run()
	if dir := builtPeer.dir; dir != "" {
		os.RemoveAll(dir)
	}
	if left := leftBehind(); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "the tests have left behind: %s\n", strings.Join(left, ", "))
		code = 1
	}
	os.Exit(code)
}

// asProgram is an environment variable that all processes of the tests inherit: the id of the test program's process.
const asProgram = "SHOAL_TEST_AS_PROGRAM"

// namespacePrefix is what the names of the network namespaces of this process's tests begin with.
func namespacePrefix() string { return fmt.Sprintf("shoal-%d-", os.Getpid()) }

// leftBehind are the processes and network namespaces of the tests that are still there, as far as the system tells.
func leftBehind() (list []string) {
	mark := fmt.Appendf(nil, "%s=%d", asProgram, os.Getpid())
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range environs {
		name, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "comm"))
		if strings.HasPrefix(string(name), "chrome_crashpad") { // goes by itself, a moment after its browser
			continue
		}
		text, err := os.ReadFile(file)
		if err == nil && slices.ContainsFunc(bytes.Split(text, []byte{0}), func(v []byte) bool { return bytes.Equal(v, mark) }) {
			list = append(list, "process "+filepath.Base(filepath.Dir(file)))
		}
	}
	names, _ := filepath.Glob("/run/netns/" + namespacePrefix() + "*")
	return append(list, names...)
}

// patient is how long a test waits for something that should take seconds, on a machine that has other things to do.
const patient = 4 * time.Minute

// smallRun has three small blocks. A run of many steps is there to be ended.
func smallRun(steps int) *shoal.RunFile {
	r := runfile.Default()
	r.Model.Dim, r.Model.Depth, r.Model.Heads = 16, 3, 2
	r.Data.Samples, r.Data.Eval = 600, 50
	r.Train.Steps, r.Train.Batch, r.Train.Microbatch, r.Train.Warmup = steps, 16, 2, 2
	return &r
}

func writeRun(t *testing.T, r *shoal.RunFile) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.yaml")
	if err := os.WriteFile(path, runfile.Marshal(*r), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// program is a process of shoal.
type program struct {
	cmd    *exec.Cmd
	stdout chan string // its lines
	stderr *bytes.Buffer
	exited chan struct{}
}

// self is the file of the test program, which is also the program itself.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	return startCommand(t, self(t), args...)
}

func startCommand(t *testing.T, name string, args ...string) *program {
	t.Helper()
	return begin(t, exec.Command(name, args...))
}

// begin starts a command, which is killed when the test ends.
func begin(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{cmd: cmd, stdout: make(chan string, 10000), stderr: new(bytes.Buffer), exited: make(chan struct{})}
	p.cmd.Stderr = p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			p.stdout <- s.Text()
		}
		close(p.stdout)
		p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.exited
	})
	return p
}

// line waits for a line on standard output that begins with one of the prefixes.
func (p *program) line(t *testing.T, prefixes ...string) string {
	t.Helper()
	return p.find(t, fmt.Sprintf("begins with %q", prefixes), func(line string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(line, prefix) })
	})
}

// says waits for a line that has a text in it.
func (p *program) says(t *testing.T, text string) string {
	t.Helper()
	return p.find(t, fmt.Sprintf("has %q in it", text), func(line string) bool { return strings.Contains(line, text) })
}

func (p *program) find(t *testing.T, what string, fits func(line string) bool) string {
	t.Helper()
	timeout := time.After(patient)
	for {
		select {
		case line, ok := <-p.stdout:
			if !ok {
				<-p.exited
				t.Fatalf("it ended without a line that %s; stderr: %s", what, p.stderr)
			}
			if fits(line) {
				return line
			}
		case <-timeout:
			t.Fatalf("no line that %s; stderr: %s", what, p.stderr)
		}
	}
}

// end waits until the process is gone and returns its exit code, -1 if a signal ended it.
func (p *program) end(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("still there after %v; stderr: %s", within, p.stderr)
		return 0
	}
}

// refused checks that the process ends by itself with a code for an error and one line that contains want.
func (p *program) refused(t *testing.T, want string) {
	t.Helper()
	code := p.end(t, patient)
	line := p.stderr.String()
	if code != exitFailed && code != exitWrongInput {
		t.Errorf("exit code %d", code)
	}
	if !strings.HasPrefix(line, "shoal: ") || strings.Count(line, "\n") != 1 || !strings.Contains(line, want) {
		t.Errorf("stderr is %q, want one line with %q", line, want)
	}
}

func runTestnet(t *testing.T, cfg testnet.Config) *shoal.Report {
	t.Helper()
	cfg.Timeout = patient
	r, err := testnet.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestProcessesEndWithOneHash(t *testing.T) {
	run := smallRun(12)
	one := runTestnet(t, testnet.Config{RunFile: run, Peers: 1})
	if one.Steps != 12 || len(one.Loss) != 12 || len(one.StateHash) != 64 {
		t.Fatalf("%d steps, %d losses, hash %q", one.Steps, len(one.Loss), one.StateHash)
	}
	ddp := *run
	ddp.Mesh.Strategy = "ddp"
	for _, tc := range []struct {
		name string
		cfg  testnet.Config
	}{
		{"two peers", testnet.Config{RunFile: run, Peers: 2}},
		{"three peers with weights", testnet.Config{RunFile: run, Peers: 3, Weights: []int{5, 1, 1}}},
		{"ddp", testnet.Config{RunFile: &ddp, Peers: 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := runTestnet(t, tc.cfg)
			if r.StateHash != one.StateHash {
				t.Errorf("state hash %s, with one peer %s", r.StateHash, one.StateHash)
			}
			var samples int64
			for i := range r.Peers {
				samples += r.Peers[i].Samples
			}
			if want := int64(12 * 16); samples != want || len(r.Peers) != tc.cfg.Peers {
				t.Errorf("%d peers computed %d samples, want %d and %d", len(r.Peers), samples, tc.cfg.Peers, want)
			}
			for i := range r.Loss {
				if math.Float64bits(r.Loss[i]) != math.Float64bits(one.Loss[i]) {
					t.Errorf("loss of step %d is %v, with one peer %v", i+1, r.Loss[i], one.Loss[i])
				}
			}
		})
	}
}

func TestByHand(t *testing.T) {
	file, report := writeRun(t, smallRun(4)), filepath.Join(t.TempDir(), "report")
	up := startProgram(t, "up", file, "--peers", "2", "--listen", "127.0.0.1:0", "--report", report)
	link := up.line(t, "shoal:")
	up.line(t, "1 of 2 peers, waiting")
	join := startProgram(t, "join", link, "--listen", "127.0.0.1:0", "--json")
	up.line(t, "step 4/4")
	up.line(t, "evaluating")
	hash := strings.Fields(up.line(t, "state hash"))[2]
	if code := up.end(t, patient); code != exitOK || up.stderr.Len() > 0 {
		t.Errorf("up: exit code %d, stderr %q", code, up.stderr)
	}
	if code := join.end(t, patient); code != exitOK {
		t.Errorf("join: exit code %d, stderr %q", code, join.stderr)
	}
	var text strings.Builder
	for line := range join.stdout {
		text.WriteString(line)
	}
	var got shoal.Report
	if err := json.Unmarshal([]byte(text.String()), &got); err != nil || got.StateHash != hash {
		t.Errorf("join printed hash %q (%v), up %q", got.StateHash, err, hash)
	}
	for _, name := range []string{"report.json", "report.html", "loss.svg"} {
		if _, err := os.Stat(filepath.Join(report, name)); err != nil {
			t.Error(err)
		}
	}
}

// A long run whose steps are counted, so that a test can interfere once training goes on.
func startLong(t *testing.T, cfg testnet.Config) (pids []int, result chan error, cancel context.CancelCauseFunc) {
	t.Helper()
	var mu sync.Mutex
	training := make(chan struct{})
	var once sync.Once
	cfg.RunFile = smallRun(1_000_000)
	cfg.OnStart = func(_, pid int) {
		mu.Lock()
		pids = append(pids, pid)
		mu.Unlock()
	}
	cfg.Progress = func(p shoal.Progress) {
		if p.Step == 2 {
			once.Do(func() { close(training) })
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	result = make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		_, err := testnet.Run(ctx, cfg)
		result <- err
		close(ended)
	}()
	t.Cleanup(func() {
		cancel(nil)
		<-ended
	})
	select {
	case <-training:
	case err := <-result:
		t.Fatalf("it ended before training began: %v", err)
	case <-time.After(patient):
		t.Fatal("training does not begin")
	}
	mu.Lock()
	defer mu.Unlock()
	return pids, result, cancel
}

func within(t *testing.T, limit time.Duration, result chan error) error {
	t.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(limit):
		t.Fatalf("still running after %v", limit)
		return nil
	}
}

func checkGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left behind (%v)", pid, err)
		}
	}
}

func TestKilledPeerEndsTestnet(t *testing.T) {
	pids, result, _ := startLong(t, testnet.Config{Peers: 3})
	syscall.Kill(pids[1], syscall.SIGKILL)
	err := within(t, 10*time.Second, result)
	want := fmt.Sprintf("peer 2 (pid %d)", pids[1])
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one that names %s", err, want)
	}
	checkGone(t, pids)
}

func TestCancelledTestnetLeavesNothing(t *testing.T) {
	pids, result, cancel := startLong(t, testnet.Config{Peers: 3})
	cancel(errInterrupted)
	if err := within(t, 5*time.Second, result); !errors.Is(err, errInterrupted) {
		t.Errorf("error %v, want the cause of the end", err)
	}
	checkGone(t, pids)
}

func TestTestnetTimeout(t *testing.T) {
	_, err := testnet.Run(t.Context(), testnet.Config{RunFile: smallRun(1_000_000), Peers: 2, Timeout: 2 * time.Second})
	if !errors.Is(err, testnet.ErrTimeout) {
		t.Errorf("error %v, want ErrTimeout", err)
	}
}

func TestCtrlCEndsTestnet(t *testing.T) {
	p := startProgram(t, "testnet", "--run", writeRun(t, smallRun(1_000_000)), "--peers", "2", "--report", t.TempDir())
	p.line(t, "step ")
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.cmd.Process.Pid))
	p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.end(t, 5*time.Second); code != exitInterrupted {
		t.Errorf("exit code %d, stderr %q", code, p.stderr)
	}
	if err != nil {
		return // no such list on this system
	}
	for _, pid := range strings.Fields(string(children)) {
		n, _ := strconv.Atoi(pid)
		checkGone(t, []int{n})
	}
}

func TestWrongLinks(t *testing.T) {
	file := writeRun(t, smallRun(4))
	up := startProgram(t, "up", file, "--peers", "2", "--listen", "127.0.0.1:0")
	good, err := peer.ParseLink(up.line(t, "shoal:"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change func(*peer.Link)
		want   string
	}{
		{"link of another run", func(l *peer.Link) { l.Run = strings.Repeat("0", len(l.Run)) }, "run"},
		{"wrong secret", func(l *peer.Link) { l.Secret = peer.NewSecret() }, "secret"},
		{"nobody there", func(l *peer.Link) { l.Addrs = []string{"/ip4/127.0.0.1/tcp/1"} }, "refused): is the run over, or a firewall in between?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			link := good
			tc.change(&link)
			startProgram(t, "join", link.String(), "--listen", "127.0.0.1:0").refused(t, tc.want)
		})
	}
}

func TestBadNetworkSettings(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	corrupt := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(corrupt, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := writeRun(t, smallRun(4))
	for _, tc := range []struct {
		name, flag, value, want string
	}{
		{"port in use", "--listen", taken.Addr().String(), taken.Addr().String()[len("127.0.0.1:"):]},
		{"no address", "--listen", "nowhere", "nowhere"},
		{"corrupt identity", "--identity", corrupt, corrupt},
		{"unknown kernel", "--kernel", "abacus", "abacus"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			startProgram(t, "up", file, tc.flag, tc.value).refused(t, tc.want)
		})
	}
}
