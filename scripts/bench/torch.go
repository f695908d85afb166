package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// torch is the process with the other side, which torch_side.py is. One goroutine at a time may use it.
type torch struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// about is what the other side says of itself.
type about struct {
	Python, Torch, NumPy string
	Threads              int
	Capability           string   // the instruction set of PyTorch's own kernels
	Config               []string // lines of torch.__config__.show()
	Libraries            []library
}

// library is one that computes on several threads, as threadpoolctl sees it.
type library struct {
	API          string `json:"internal_api"`
	Version      string
	Architecture string
	Layer        string `json:"threading_layer"`
	Threads      int    `json:"num_threads"`
}

// compares says why products can't be compared with OpenBLAS, which NumPy brings along.
func (a *about) compares() error {
	if !slices.ContainsFunc(a.Libraries, func(l library) bool { return l.API == "openblas" }) {
		return fmt.Errorf("numpy %s has no OpenBLAS, with which products are compared: %+v", a.NumPy, a.Libraries)
	}
	return nil
}

// startTorch starts the process with so many threads. It ends with ctx or close.
func startTorch(ctx context.Context, python string, threads int) (*torch, error) {
	t := &torch{cmd: exec.CommandContext(ctx, python, "scripts/bench/torch_side.py")}
	env, err := environment(os.Environ(), threads)
	if err != nil {
		return nil, err
	}
	t.cmd.Env, t.cmd.Stderr = env, os.Stderr
	if t.in, err = t.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.out = json.NewDecoder(out)
	return t, t.cmd.Start()
}

// environment is env without what would slow the libraries down, with as many threads for each of them, and with the
// compiler's files in the build folder.
func environment(env []string, threads int) ([]string, error) {
	cache, err := filepath.Abs("build/torchinductor")
	if err != nil {
		return nil, err
	}
	env = slices.DeleteFunc(env, func(s string) bool {
		return strings.HasPrefix(s, "OPENBLAS_CORETYPE=") || strings.HasPrefix(s, "OPENBLAS_L2_SIZE=")
	})
	for _, name := range []string{"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"} {
		env = append(env, name+"="+strconv.Itoa(threads))
	}
	return append(env, "TORCHINDUCTOR_CACHE_DIR="+cache, "PYTHONDONTWRITEBYTECODE=1"), nil
}

// close has the process end, and waits for it.
func (t *torch) close() error {
	return errors.Join(t.in.Close(), t.cmd.Wait())
}

// request is a line for the other side; what isn't needed stays empty.
type request struct {
	Ask string `json:"ask"`

	Op    string `json:"op,omitempty"`
	Shape string `json:"shape,omitempty"`

	Model       string         `json:"model,omitempty"`
	Config      map[string]int `json:"config,omitempty"`
	Batch       int            `json:"batch,omitempty"`
	AdamW       map[string]any `json:"adamw,omitempty"`
	WeightDecay float64        `json:"weight_decay,omitempty"`

	ID           int     `json:"id"`
	Milliseconds float64 `json:"milliseconds,omitempty"`
}

// made are the ways in which the other side can do what it was asked for.
type made struct {
	Ways []struct {
		ID   int
		Name string
	}
	Parameters int
	Missing    string // why a way is not there
}

// ask sends a request and reads its answer.
func (t *torch) ask(r request, answer any) error {
	if err := json.NewEncoder(t.in).Encode(r); err != nil {
		return fmt.Errorf("torch_side.py: %w", err)
	}
	var line json.RawMessage
	if err := t.out.Decode(&line); err != nil {
		return fmt.Errorf("torch_side.py has ended: %w", err)
	}
	var failed struct{ Error string }
	if err := json.Unmarshal(line, &failed); err != nil {
		return fmt.Errorf("torch_side.py: %w", err)
	}
	if failed.Error != "" {
		return fmt.Errorf("torch_side.py: %s", failed.Error)
	}
	return json.Unmarshal(line, answer)
}

// make has the other side prepare something.
func (t *torch) make(r request) (made, []*side, error) {
	var m made
	if err := t.ask(r, &m); err != nil {
		return m, nil, err
	}
	var sides []*side
	for _, w := range m.Ways {
		sides = append(sides, &side{name: w.Name, turn: func(d time.Duration) (float64, error) {
			var took struct{ Seconds float64 }
			err := t.ask(request{Ask: "turn", ID: w.ID, Milliseconds: float64(d) / float64(time.Millisecond)}, &took)
			return took.Seconds, err
		}})
	}
	return m, sides, nil
}
