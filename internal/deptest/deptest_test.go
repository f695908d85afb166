package deptest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// goTool runs the go command in the module's root.
func goTool(t *testing.T, env []string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v go %s: %v\n%s", env, strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

// list is all packages of the module and all that they import.
func list(t *testing.T, env ...string) map[string]*pkg {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(
		goTool(t, env, "list", "-e", "-deps", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")))
	pkgs := map[string]*pkg{}
	for {
		p := new(pkg)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs[p.ImportPath] = p
	}
}

func TestImports(t *testing.T) {
	for _, env := range [][]string{{"GOOS=linux", "GOARCH=amd64"}, {"GOOS=js", "GOARCH=wasm"}} {
		pkgs := list(t, env...)
		for _, r := range rules {
			if !slices.ContainsFunc(sorted(pkgs), func(p string) bool { return matches(p, r.from) }) {
				t.Errorf("%v: the rule %q binds no package", env, r.why)
			}
		}
		for _, f := range faults(pkgs, rules) {
			t.Errorf("%v: %s", env, f)
		}
	}
}

func sorted(pkgs map[string]*pkg) []string {
	var names []string
	for n := range pkgs {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// The rules must find a fault if there is one.
func TestFaultsAreFound(t *testing.T) {
	pkgs := map[string]*pkg{}
	for path, imports := range map[string][]string{
		"shoal/a":   {"shoal/b", "fmt"},
		"shoal/b":   {"shoal/c/d"},
		"shoal/c/d": {"net"},
		"shoal/cc":  {"fmt"},
	} {
		pkgs[path] = &pkg{ImportPath: path, Imports: imports}
	}
	pkgs["shoal/cc"].XTestImports = []string{"shoal/c/d"}
	for _, tc := range []struct {
		name string
		rule rule
		want []string
	}{
		{"by way of others", rule{from: []string{"shoal/a"}, never: []string{"net"}, deep: true}, []string{"shoal/a -> shoal/b -> shoal/c/d -> net: "}},
		{"not by way of others", rule{from: []string{"shoal/a"}, never: []string{"net"}}, nil},
		{"below a path", rule{from: []string{"shoal/b"}, never: []string{"shoal/c/..."}}, []string{"shoal/b -> shoal/c/d: "}},
		{"in a test", rule{from: []string{"shoal/..."}, except: []string{"shoal/b"}, never: []string{"shoal/c/d"}}, []string{"shoal/cc -> shoal/c/d: "}},
		{"a like name is no match", rule{from: []string{"shoal/c/..."}, never: []string{"fmt"}}, nil},
	} {
		if got := faults(pkgs, []rule{tc.rule}); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// All but a few packages are part of the browser's peer.
func TestBuildsForBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the module")
	}
	var build []string
	for _, p := range strings.Fields(string(goTool(t, nil, "list", "./..."))) {
		if !matches(p, notForBrowser) {
			build = append(build, p)
		}
	}
	if !slices.Contains(build, "shoal") {
		t.Fatalf("package shoal is not among %v", build)
	}
	build = append(build, "shoal/wasm") // which is for nothing else
	goTool(t, []string{"GOOS=js", "GOARCH=wasm"}, append([]string{"build", "-o", os.DevNull}, build...)...)
}
