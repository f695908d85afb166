//go:build unix

package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shoal"
	"shoal/internal/browsertest"
	"shoal/internal/buildwasm"
	"shoal/internal/page"
	"shoal/peer"
	"shoal/testnet"
	"shoal/wasm/web"
)

// needBrowser skips a test where there is no Chromium, unless SHOAL_BROWSER is set, as CI does.
func needBrowser(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the browser's peer, and starts browsers")
	}
	browsertest.NeedChromium(t)
}

// builtPeer has the browser's peer built once for all tests: the one inside this program may be of another source. TestMain
// removes it.
var builtPeer struct {
	once sync.Once
	dir  string
	err  error
}

func dist(t *testing.T) string {
	t.Helper()
	b := &builtPeer
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "shoal-test-dist-"); b.err == nil {
			_, _, b.err = buildwasm.Build(context.Background(), b.dir, buildwasm.Gzip(gzip.BestSpeed))
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.dir
}

// tabsRun is large enough that computing takes longer than talking about it, also in a tab.
func tabsRun(steps int) *shoal.RunFile {
	r := smallRun(steps)
	r.Model.Patch, r.Model.Dim, r.Model.Depth, r.Model.Heads = 4, 64, 4, 4
	r.Train.Batch, r.Train.Microbatch = 64, 4
	return r
}

// gptRun is a run of a small language model.
func gptRun(steps int) *shoal.RunFile {
	r := smallRun(steps)
	r.SetModel("gpt")
	r.SetSource("text")
	r.Data.Path, r.Data.Eval = "../../examples/harbour.txt", 0
	r.Model.Vocab, r.Model.Context, r.Model.Dim, r.Model.Depth, r.Model.Heads = 256, 64, 64, 4, 4
	r.Train.Batch, r.Train.Microbatch = 64, 4
	return r
}

// checkTabs wants the tabs of a report to have done their part: with -long, on a machine with nothing else to do, 5% of the
// samples each.
func checkTabs(t *testing.T, r *shoal.Report, tabs int) {
	t.Helper()
	var all int64
	for _, p := range r.Peers {
		all += p.Samples
	}
	found, least := 0, 0.0
	if *long {
		least = 0.05
	}
	for _, p := range r.Peers {
		t.Logf("rank %d: %s, %s, owns %d parameters, %.1f%% of the samples", p.Rank, p.Kind, p.Backend, p.ParametersOwned, 100*float64(p.Samples)/float64(all))
		if p.Kind != "browser" {
			continue
		}
		found++
		if !strings.HasPrefix(p.Backend, "wasm/") || p.ParametersOwned == 0 || p.Samples == 0 || float64(p.Samples) < least*float64(all) {
			t.Errorf("a tab computes with %s, owns %d parameters, and did %d of %d samples, want at least %.0f%%", p.Backend, p.ParametersOwned, p.Samples, all, 100*least)
		}
	}
	if found != tabs {
		t.Errorf("%d tabs, want %d", found, tabs)
	}
}

// Daemons and tabs in any mixture end with the same bits as daemons alone.
func TestTabsEndWithOneHash(t *testing.T) {
	needBrowser(t)
	for _, m := range []struct {
		name string
		run  *shoal.RunFile
	}{{"vit", tabsRun(60)}, {"gpt", gptRun(60)}} {
		want := runTestnet(t, testnet.Config{RunFile: m.run, Peers: 3}).StateHash
		for i, n := range []struct{ daemons, tabs int }{{2, 2}, {1, 3}} {
			if !*long && (i == 0) != (m.name == "vit") {
				continue
			}
			t.Run(m.name, func(t *testing.T) {
				r := runTestnet(t, testnet.Config{RunFile: m.run, Peers: n.daemons, Browsers: n.tabs, Dist: dist(t)})
				if r.StateHash != want {
					t.Errorf("%d daemons and %d tabs: state hash %s, daemons alone %s", n.daemons, n.tabs, r.StateHash, want)
				}
				t.Logf("%d daemons and %d tabs: %.1f s", n.daemons, n.tabs, r.WallSeconds)
				checkTabs(t, r, n.tabs)
			})
		}
	}
}

// A tab that is killed costs no step.
func TestTabKilled(t *testing.T) {
	needBrowser(t)
	run := smallRun(40)
	want := undisturbed(t, 40)
	r := runTestnet(t, testnet.Config{RunFile: run, Peers: 2, Browsers: 2, Dist: dist(t),
		Faults: faultsOf(t, "kill 3@step:10:backward", "kill 4@step:20:ready")})
	if r.StateHash != want {
		t.Errorf("state hash %s, undisturbed %s", r.StateHash, want)
	}
	if len(r.Faults) != 2 || len(r.Peers) != 2 {
		t.Errorf("%d faults, %d peers at the end, want 2 and 2", len(r.Faults), len(r.Peers))
	}
	for _, f := range r.Faults {
		t.Logf("killed at %s of step %d: the next commit after %.0f ms, %d steps lost, %d samples lost", f.Phase, f.Step, float64(f.NextCommitMS), f.StepsLost, f.SamplesLost)
		if f.StepsLost != 0 || f.SamplesLost != 0 {
			t.Errorf("the kill of peer %d cost %d steps and %d samples", f.Peer, f.StepsLost, f.SamplesLost)
		}
	}
}

// A tab whose machine sleeps for a minute joins again.
func TestTabStoppedForLong(t *testing.T) {
	needBrowser(t)
	needLong(t)
	up := startProgram(t, "up", writeRun(t, smallRun(1_000_000)), "--peers", "2", "--listen", "127.0.0.1:0", "--page", "none")
	link := up.line(t, "shoal:")
	startProgram(t, "join", link, "--listen", "127.0.0.1:0")
	up.line(t, "step ")
	tab := startTab(t, link)
	up.says(t, "3 peers now")
	tab.tabStep(t)
	group := -tab.cmd.Process.Pid
	if err := syscall.Kill(group, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awake := time.After(time.Minute)
	up.says(t, "2 peers now")
	<-awake
	if err := syscall.Kill(group, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	tab.says(t, "joining again as a newcomer")
	up.says(t, "3 peers now")
	tab.tabStep(t)
}

// startTab starts a headless browser whose tab joins by a link, by the program or by what is in front of it. It ends with its
// standard input.
func startTab(t *testing.T, link string, front ...string) (tab *program) {
	t.Helper()
	profile, err := os.MkdirTemp("", "shoal-test-tab-")
	if err != nil {
		t.Fatal(err)
	}
	in, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		hold.Close()
		if tab != nil {
			_ = syscall.Kill(-tab.cmd.Process.Pid, syscall.SIGKILL)
		}
		os.RemoveAll(profile) // the browser's processes go a moment later than the tab, and may still write
	})
	defer in.Close()
	line := append(front, self(t), "tab", link, "--dist", dist(t), "--memory", "256MiB", "--cores", "1", "--profile", profile)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stdin = in
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the browser's processes are in its group
	tab = begin(t, cmd)
	return tab
}

// tabStep waits until a tab says that it has committed a step, and returns its number.
func (p *program) tabStep(t *testing.T) int {
	t.Helper()
	line := p.line(t, `{"step"`)
	var e struct{ Step struct{ Step int } }
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return e.Step.Step
}

// The peer runs without a page, in Node, trains, and leaves politely.
func TestTabInNode(t *testing.T) {
	needBrowser(t)
	node := browsertest.NeedNode(t)
	script := nodeFolder(t)
	up := startProgram(t, "up", writeRun(t, smallRun(1_000_000)), "--peers", "2", "--listen", "127.0.0.1:0", "--page", "none")
	link := up.line(t, "shoal:")
	p := startCommand(t, node, script, link, "--cores", "1", "--memory", "256MiB", "--json")
	p.says(t, `"state":"computing"`)
	p.cmd.Process.Signal(syscall.SIGINT)
	p.says(t, `"state":"left"`)
	if code := p.end(t, patient); code != exitInterrupted {
		t.Errorf("exit code %d, stderr %q", code, p.stderr)
	}
	up.line(t, "step ") // goes on
	bad := startCommand(t, node, script, "shoal:nonsense")
	if code := bad.end(t, patient); code != exitFailed || !strings.Contains(bad.stderr.String(), "not a usable link") {
		t.Errorf("with a bad link: exit code %d, stderr %q", code, bad.stderr)
	}
}

// nodeFolder is a folder with the script that runs the peer in Node, and all that it needs.
func nodeFolder(t *testing.T) (script string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"shoal-peer.mjs", "start.mjs"} {
		text, err := os.ReadFile(filepath.Join("../../wasm/web", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kernel, err := filepath.Abs("../../kernel/wasm")
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]string{"dist": dist(t), "kernel": kernel} {
		if err := os.Symlink(at, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "shoal-peer.mjs")
}

// A tab is in the run within seconds, stays in it when the daemon by whose link it came dies, and when that one comes back.
func TestTabOutlivesDaemon(t *testing.T) {
	needBrowser(t)
	dist(t) // before the clock runs
	up := startProgram(t, "up", writeRun(t, smallRun(1_000_000)), "--peers", "2", "--listen", "127.0.0.1:0", "--page", "none")
	link := up.line(t, "shoal:")
	join := startProgram(t, "join", link, "--listen", "127.0.0.1:0")
	_, through, _ := strings.Cut(join.says(t, "shoal join "), "shoal join ")
	up.line(t, "step ")
	opened := time.Now()
	tab := startTab(t, strings.TrimSpace(through))
	tab.tabStep(t)
	t.Logf("the first step with the tab was committed %.1f s after the browser was started", time.Since(opened).Seconds())
	join.cmd.Process.Kill()
	up.says(t, "2 peers now")
	at := tab.tabStep(t)
	again := startProgram(t, "join", link, "--listen", "127.0.0.1:0")
	again.line(t, "step ")
	up.says(t, "3 peers now")
	for next := tab.tabStep(t); next <= at+20; next = tab.tabStep(t) {
	}
}

// A tab whose network is cut for seconds joins again by itself.
func TestTabCut(t *testing.T) {
	needBrowser(t)
	l := newLAN(t, 3)
	up := l.start(0, "up", writeRun(t, smallRun(1_000_000)), "--peers", "2", "--page", "none")
	link := up.line(t, "shoal:")
	l.start(1, "join", link)
	up.line(t, "step ")
	tab := startTab(t, link, "ip", "netns", "exec", l.machines[2], "env")
	up.says(t, "3 peers now")
	tab.tabStep(t)
	l.unplug(2)
	back := time.After(5 * time.Second)
	up.says(t, "2 peers now")
	<-back
	l.plug(2)
	up.says(t, "3 peers now")
	tab.says(t, "joining again as a newcomer")
	tab.tabStep(t)
}

// Over thousands of steps, in which three tabs come and are killed, a peer's memory stays as it was in the first of them.
func TestTabMemory(t *testing.T) {
	needBrowser(t)
	needLong(t)
	const steps = 3000
	node := browsertest.NeedNode(t)
	file := writeRun(t, smallRun(steps))
	script := nodeFolder(t)
	want := undisturbed(t, steps)
	up := startProgram(t, "up", file, "--peers", "3", "--listen", "127.0.0.1:0", "--page", "none", "--slow", "20")
	link := up.line(t, "shoal:")
	second := startProgram(t, "join", link, "--listen", "127.0.0.1:0", "--slow", "20")
	p := startCommand(t, node, script, link, "--cores", "1", "--memory", "256MiB", "--json")
	// until gives the most that the peer uses, in bytes, of what it tells up to a step: at one moment of a step it is much, at another little.
	until := func(n int) (program, tensors int64) {
		t.Helper()
		p.find(t, fmt.Sprintf("is step %d or later", n), func(line string) bool {
			var m struct {
				Type            string
				Step            int
				Program, Memory int64
			}
			if json.Unmarshal([]byte(line), &m) != nil {
				return false
			}
			if m.Type == "usage" {
				program, tensors = max(program, m.Program), max(tensors, m.Memory)
			}
			return m.Type == "progress" && m.Step >= n
		})
		return program, tensors
	}
	until(100)
	program, tensors := until(steps / 3)
	for i := range 3 {
		tab := startTab(t, link)
		tab.tabStep(t)
		syscall.Kill(-tab.cmd.Process.Pid, syscall.SIGKILL)
		<-tab.exited
		until(steps/3 + (i+1)*steps/9)
	}
	program2, tensors2 := until(steps - 100)
	t.Logf("program %.1f MiB, later %.1f; tensors %.2f MiB, later %.2f", float64(program)/(1<<20), float64(program2)/(1<<20), float64(tensors)/(1<<20), float64(tensors2)/(1<<20))
	if program == 0 || tensors == 0 || program2 > program+program/4 || tensors2 > 2*tensors {
		t.Errorf("the program has %d bytes after %d, its tensors %d after %d", program2, program, tensors2, tensors)
	}
	ends(t, want, up, second)
}

// up serves the page, tells its addresses with the link behind the #, and tells of the run to whoever has the secret. A program
// without the browser's peer inside says what brings it.
func TestPage(t *testing.T) {
	file := writeRun(t, smallRun(1_000_000))
	up := startProgram(t, "up", file, "--listen", "127.0.0.1:0", "--page", "127.0.0.1:0")
	if !web.Built() {
		up.refused(t, "make wasm")
		quiet := startProgram(t, "up", file, "--listen", "127.0.0.1:0")
		quiet.says(t, "make wasm")
		quiet.line(t, "step ")
		return
	}
	link := up.line(t, "shoal:")
	_, address, _ := strings.Cut(up.says(t, "in a browser: "), "in a browser: ")
	url, fragment, _ := strings.Cut(address, "#")
	if fragment != link || !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("the page is at %s, the link is %s", address, link)
	}
	up.line(t, "step ")
	l, err := peer.ParseLink(link)
	if err != nil {
		t.Fatal(err)
	}
	get := func(path, authorization string) (int, []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", authorization)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, text
	}
	if code, text := get("", ""); code != http.StatusOK || !strings.HasPrefix(string(text), "<!doctype html>") {
		t.Errorf("the page: %d, %.100s", code, text)
	}
	if code, text := get("run.json", page.Authorization("another secret")); code != http.StatusUnauthorized || strings.Contains(string(text), l.Run) {
		t.Errorf("run.json with a wrong secret: %d, %.100s", code, text)
	}
	var about shoal.About
	code, text := get("run.json", page.Authorization(l.Secret))
	if err := json.Unmarshal(text, &about); err != nil || code != http.StatusOK {
		t.Fatalf("run.json: %d, %v, %.100s", code, err, text)
	}
	if r := about.Run; r.ID != l.Run || r.Steps != 1_000_000 || r.Parameters == 0 || r.Data != "digits" || about.Status.Step == 0 || len(about.Losses) == 0 || about.PeersSeen != 1 {
		t.Errorf("run.json has %+v, step %d, %d losses, %d peers seen", r, about.Status.Step, len(about.Losses), about.PeersSeen)
	}
	if j := about.Joining; j.ParameterBytes != 4*about.Run.Parameters/2 || j.DownloadBytes != 12*about.Run.Parameters || j.MemoryBytes < j.DownloadBytes {
		t.Errorf("joining: %+v of %d parameters", j, about.Run.Parameters)
	}
}
