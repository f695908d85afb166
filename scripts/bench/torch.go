package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	torchside "shoal/scripts/internal/torch"
)

// torch is the process with the other side, which torch_side.py is. One goroutine at a time may use it.
type torch struct{ *torchside.Process }

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

// startTorch starts the process with so many threads. It ends with ctx or Close.
func startTorch(ctx context.Context, python string, threads int) (*torch, error) {
	p, err := torchside.Start(ctx, python, "scripts/bench/torch_side.py", threads)
	return &torch{p}, err
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

// make has the other side prepare something.
func (t *torch) make(r request) (made, []*side, error) {
	var m made
	if err := t.Ask(r, &m); err != nil {
		return m, nil, err
	}
	var sides []*side
	for _, w := range m.Ways {
		sides = append(sides, &side{name: w.Name, turn: func(d time.Duration) (float64, error) {
			var took struct{ Seconds float64 }
			err := t.Ask(request{Ask: "turn", ID: w.ID, Milliseconds: float64(d) / float64(time.Millisecond)}, &took)
			return took.Seconds, err
		}})
	}
	return m, sides, nil
}
