//go:build !js

package browsertest

import (
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// GoTest is a test binary for js/wasm that runs in a dedicated Worker of a page, or in Node.
type GoTest struct {
	Dir  string            // from Build
	Args []string          // as of a test binary: "-test.run=TestX", "-test.v"
	Env  map[string]string // its environment
	Page Page              // Files, Handle and Path are not used
}

//go:embed gotest
var gotest embed.FS

// Run runs it in a browser and shows what it prints. The test fails if it does.
func (g GoTest) Run(t testing.TB) {
	t.Helper()
	files, err := fs.Sub(gotest, "gotest")
	if err != nil {
		t.Fatal(err)
	}
	p := g.Page
	p.Files = map[string]fs.FS{"/": os.DirFS(g.Dir), "/gotest/": files}
	p.Handle = map[string]http.Handler{"/gotest/setup.json": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"args": g.Args, "env": g.Env})
	})}
	p.Path = "/gotest/gotest.html"
	p.Run(t)
}

// RunNode runs it in Node, whose own arguments are node. The test is skipped where there is no Node, unless SHOAL_BROWSER
// is set.
func (g GoTest) RunNode(t testing.TB, node ...string) {
	t.Helper()
	path := NeedNode(t)
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	runner := filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec_node.js")
	cmd := exec.Command(path, append(append(node, runner, filepath.Join(g.Dir, "main.wasm")), g.Args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // Go's runtime in js has room for 8 KiB of arguments and environment
	for k, v := range g.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("node: %v", err)
	}
}
