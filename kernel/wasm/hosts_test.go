//go:build !js && !noasm

package wasm_test

import (
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"shoal/internal/browsertest"
	"shoal/kernel"
	"shoal/kernel/cpu"
	"shoal/kernel/wasm"
)

// TestHosts runs the tests of this package that need a host for js/wasm, each kind of device where it is found: in Node, in a
// page that is isolated, and in one that isn't. Wrong calls are tried once in each. The tag noasm makes no difference here, so once is enough.
func TestHosts(t *testing.T) {
	folder := browsertest.Build(t, "shoal/kernel/wasm", true)
	isolated := func(t *testing.T, args ...string) string { return inChromium(t, folder, false, args) }
	plain := func(t *testing.T, args ...string) string { return inChromium(t, folder, true, args) }
	node := func(t *testing.T, args ...string) string { return inNode(t, folder, true, args) }
	old := func(t *testing.T, args ...string) string { return inNode(t, folder, false, args) }
	want := fingerprint(t)
	const right = "^(ops|memory|fingerprint)$"
	for _, c := range []struct {
		name, run string
		in        func(t *testing.T, args ...string) string
	}{
		{"chromium, one worker", "^TestSuite$/^one$", isolated},
		{"chromium, two workers", "^TestSuite$/^two$/" + right, isolated},
		{"chromium, not isolated", "^TestSuite$/^plain$/" + right, plain},
		{"node, one worker", "^TestSuite$/^one$", node},
		{"node, exact", "^TestSuite$/^(exact|unshared_exact)$/" + right, node},
		{"node without relaxed SIMD", "^TestSuite$/^old$/" + right, old},
	} {
		t.Run(c.name, func(t *testing.T) {
			output := c.in(t, "-test.run="+c.run)
			if n := strings.Count(output, "it is "+want); n == 0 || n != strings.Count(output, "it is ") {
				t.Errorf("the CPU's fingerprint is %s; the output is\n%s", want, output)
			}
		})
	}
	t.Run("chromium, queue", func(t *testing.T) { isolated(t, "-test.skip=^TestSuite$") })
	t.Run("node, queue", func(t *testing.T) { node(t, "-test.skip=^TestSuite$") })
}

// fingerprint is that of this machine's CPU.
func fingerprint(t *testing.T) string {
	t.Helper()
	d, err := cpu.New(cpu.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	f, err := kernel.Fingerprint(d)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// inChromium runs tests in a page and returns what they print.
func inChromium(t *testing.T, folder string, plain bool, args []string) string {
	t.Helper()
	arguments := url.Values{"arg": append(args, "-test.v")}
	page := browsertest.Page{
		Files: map[string]fs.FS{"/": os.DirFS("testdata"), "/kernel/": wasm.Files, "/go/": os.DirFS(folder)},
		Path:  "/test.html?" + arguments.Encode(),
		Plain: plain,
	}
	var done struct {
		Code   int
		Output string
	}
	if err := json.Unmarshal(page.Run(t), &done); err != nil {
		t.Fatal(err)
	}
	if done.Code != 0 || !strings.Contains(done.Output, "\nPASS") {
		t.Fatalf("code %d:\n%s", done.Code, done.Output)
	}
	return done.Output
}

// inNode does so in Node.
func inNode(t *testing.T, folder string, relaxed bool, args []string) string {
	t.Helper()
	node := browsertest.NeedNode(t)
	all := append(relaxedFlag(t, node, relaxed), "--expose-gc", "testdata/node.mjs", folder, "-test.v")
	out, err := exec.Command(node, append(all, args...)...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\nPASS") {
		t.Fatalf("%v:\n%s", err, out)
	}
	return string(out)
}

// relaxedFlag turns relaxed SIMD on or off. Node has it since version 21; before, there is a flag for it.
func relaxedFlag(t *testing.T, node string, on bool) []string {
	t.Helper()
	out, err := exec.Command(node, "-p", "process.versions.node.split('.')[0]").Output()
	if err != nil {
		t.Fatal(err)
	}
	version, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	if version >= 21 {
		if !on {
			t.Skip("this Node always has relaxed SIMD")
		}
		return nil
	}
	if on {
		return []string{"--experimental-wasm-relaxed-simd"}
	}
	return nil
}
