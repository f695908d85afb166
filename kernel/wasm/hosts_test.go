//go:build !js

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

// TestHosts runs the tests of device_js_test.go, each kind of device where it is found: in Node, in a page that is isolated,
// and in one that isn't. Wrong calls are tried once in each.
func TestHosts(t *testing.T) {
	folder := browsertest.Build(t, "shoal/kernel/wasm", true)
	want := fingerprint(t)
	const right = "^(ops|memory|fingerprint)$"
	for _, c := range []struct{ name, run, where string }{
		{"chromium, one worker", "^TestSuite$/^one$", "isolated"},
		{"chromium, two workers", "^TestSuite$/^two$/" + right, "isolated"},
		{"chromium, not isolated", "^TestSuite$/^plain$/" + right, "plain"},
		{"node, one worker", "^TestSuite$/^one$", "node"},
		{"node, others", "^TestSuite$/^(two|exact|unshared|unshared_exact)$/" + right, "node"},
		{"node without relaxed SIMD", "^TestSuite$/^old$/" + right, "old node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var output string
			switch c.where {
			case "node", "old node":
				output = inNode(t, folder, c.run, c.where == "node")
			default:
				output = inChromium(t, folder, c.run, c.where == "plain")
			}
			if n := strings.Count(output, "it is "+want); n == 0 || n != strings.Count(output, "it is ") {
				t.Errorf("the CPU's fingerprint is %s; the output is\n%s", want, output)
			}
		})
	}
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
func inChromium(t *testing.T, folder, run string, plain bool) string {
	t.Helper()
	arguments := url.Values{"arg": {"-test.v", "-test.run=" + run}}
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
func inNode(t *testing.T, folder, run string, relaxed bool) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("SHOAL_BROWSER") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	args := append(relaxedFlag(t, node, relaxed), "testdata/node.mjs", folder, "-test.v", "-test.run="+run)
	out, err := exec.Command(node, args...).CombinedOutput()
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
