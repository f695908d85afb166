package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"shoal/scripts/internal/torch"
)

// way is one of PyTorch's ways to train on several processes, and what we are to reach beside it.
type way struct {
	key, name   string
	root, block float64 // bytes that its collectives move for each parameter of the root unit, and of a block
	speed       float64 // how many times as fast we are to be
	raw         float64 // the most of its bytes that ours may be; 0 for no target
	packed      float64
	memory      float64
}

// ways: parameters are gathered once, those of blocks twice where they are resharded; gradients are reduced and scattered, for
// DDP gathered, too.
var ways = []way{
	{key: "ddp", name: "DDP", root: 8, block: 8, speed: 1.5, raw: 1, memory: 1},
	{key: "fsdp", name: "FSDP2, float32", root: 8, block: 12, speed: 1.5, raw: 0.68, packed: 0.47, memory: 1},
	{key: "fsdp keep", name: "FSDP2, float32, not resharded", root: 8, block: 8, speed: 1.5},
	{key: "fsdp bf16", name: "FSDP2, bf16/float32", root: 6, block: 8, speed: 1.5, raw: 1, packed: 0.70, memory: 1},
	{key: "fsdp bf16 keep", name: "FSDP2, bf16/float32, not resharded", root: 6, block: 6, speed: 1.5},
}

// least is how many bytes each of n processes must send in a step, with parameters of which so many are in blocks.
func (w way) least(parameters, inBlocks int64, n int) float64 {
	return (w.block*float64(inBlocks) + w.root*float64(parameters-inBlocks)) * float64(n-1) / float64(n)
}

// group is a process group of PyTorch's: processes that live until all turns are over, and do nothing between them.
type group struct {
	processes []*torch.Process
	kill      context.CancelFunc
	folder    string // of the file by which they find one another
}

type begin struct {
	Ask    string         `json:"ask"`
	Rank   int            `json:"rank"`
	World  int            `json:"world"`
	File   string         `json:"file"`
	Way    string         `json:"way"`
	Model  string         `json:"model"`
	Config map[string]int `json:"config"`
	Batch  int            `json:"batch"` // of one process
}

type begun struct {
	Parameters    int64
	Memory        int64 // before the model
	Python, Torch string
	Threads       int
}

type steps struct {
	Ask   string `json:"ask"`
	Count int    `json:"count"`
}

type took struct {
	Seconds float64 // of all of them
	CPU     float64 // of this process in them
	Memory  int64   // the most so far
}

// theirs starts the processes of a way. r gets to know what they say of themselves.
func (p part) theirs(ctx context.Context, c *config, w way, r *result) (contender, error) {
	n, threads := p.processes, max(1, c.cores/p.processes)
	g, err := start(ctx, c.python, n, threads)
	if err != nil {
		return contender{}, err
	}
	said, err := ask[begun](g, func(rank int) any {
		return begin{Ask: "begin", Rank: rank, World: n, File: filepath.Join(g.folder, "meet"), Way: w.key, Model: p.model.kind,
			Config: p.model.config, Batch: r.Batch / n}
	})
	if err != nil {
		return contender{}, errors.Join(err, g.close())
	}
	r.BareBase = said[0].Memory
	r.Theirs = fmt.Sprintf("Python %s, PyTorch %s", said[0].Python, said[0].Torch)
	if said[0].Parameters != r.Parameters {
		return contender{}, errors.Join(fmt.Errorf("PyTorch's model has %d parameters, ours %d", said[0].Parameters, r.Parameters), g.close())
	}
	s := &side{Name: w.name, Processes: n, Threads: said[0].Threads}
	return contender{side: s, close: g.close, turn: func(_ context.Context, count int) (turn, error) { return g.turn(count) }}, nil
}

// start starts n processes.
func start(ctx context.Context, python string, n, threads int) (*group, error) {
	dir, err := os.MkdirTemp("", "shoal-benchmesh-")
	if err != nil {
		return nil, err
	}
	g := &group{folder: dir}
	ctx, g.kill = context.WithCancel(ctx)
	for range n {
		p, err := torch.Start(ctx, python, "scripts/benchmesh/torch_rank.py", threads)
		if err != nil {
			return nil, errors.Join(err, g.close())
		}
		g.processes = append(g.processes, p)
	}
	return g, nil
}

// ask asks all processes at once, since each of them waits for the others. If one fails, all are ended.
func ask[A any](g *group, question func(rank int) any) ([]A, error) {
	answers, errs := make([]A, len(g.processes)), make([]error, len(g.processes))
	var all sync.WaitGroup
	for rank, p := range g.processes {
		all.Go(func() {
			if errs[rank] = p.Ask(question(rank), &answers[rank]); errs[rank] != nil {
				g.kill()
			}
		})
	}
	all.Wait()
	return answers, errors.Join(errs...)
}

func (g *group) turn(count int) (turn, error) {
	before, err := loopback()
	if err != nil {
		return turn{}, err
	}
	answers, err := ask[took](g, func(int) any { return steps{"steps", count} })
	if err != nil {
		return turn{}, err
	}
	after, err := loopback()
	t := turn{seconds: answers[0].Seconds / float64(count), bytes: float64(after-before) / float64(count*len(answers))}
	for _, a := range answers {
		t.cpu, t.memory = t.cpu+a.CPU/float64(count), max(t.memory, a.Memory)
	}
	return t, err
}

// close ends the processes: all at once, since each of them may wait for the others.
func (g *group) close() error {
	errs := make([]error, len(g.processes))
	var all sync.WaitGroup
	for i, p := range g.processes {
		all.Go(func() { errs[i] = p.Close() })
	}
	all.Wait()
	g.kill()
	return errors.Join(append(errs, os.RemoveAll(g.folder))...)
}
