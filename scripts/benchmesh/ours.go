package main

import (
	"context"
	"fmt"
	"runtime"

	"shoal"
	"shoal/internal/runfile"
	"shoal/scripts/internal/page"
	"shoal/testnet"
)

// ours are peers: processes of the program, which are started for each turn.
type ours struct {
	*config
	run    *shoal.RunFile
	result *result
	hash   string // of the state after the steps of a turn, the same for any number of peers
}

// spent is what a whole run took: bytes over the loopback, and seconds of processor time.
type spent struct {
	bytes int64
	cpu   float64
}

func (s spent) less(t spent) spent { return spent{s.bytes - t.bytes, s.cpu - t.cpu} }

// train trains with n peers for so many steps after the first one.
func (o *ours) train(ctx context.Context, run shoal.RunFile, n, steps int) (*shoal.Report, spent, error) {
	run.Train.Steps = 1 + steps
	before, err := soFar()
	if err != nil {
		return nil, spent{}, err
	}
	r, err := testnet.Run(ctx, testnet.Config{RunFile: &run, Peers: n, Cores: o.cores, Program: o.program})
	if err != nil {
		return nil, spent{}, err
	}
	after, err := soFar()
	return r, after.less(before), err
}

// soFar is what has gone over the loopback, and what processes have used that were started here and have ended.
func soFar() (spent, error) {
	bytes, err := loopback()
	return spent{bytes, endedCPU()}, err
}

// contender prepares n peers: what the beginning and the first step cost is left out of what a step sends.
func (o *ours) contender(ctx context.Context, n int) (contender, error) {
	first, begin, err := o.train(ctx, *o.run, n, 0)
	if err != nil {
		return contender{}, err
	}
	o.result.Parameters = first.ModelParameters
	o.result.Where = fmt.Sprintf("%s: %s built with %s", page.Machine(), first.Peers[0].Backend, runtime.Version())
	name := "1 peer"
	if n > 1 {
		name = fmt.Sprintf("%d peers", n)
	}
	s := &side{Name: name, Processes: n, Threads: max(1, o.cores/n)}
	return contender{side: s, turn: func(ctx context.Context, steps int) (turn, error) {
		r, all, err := o.train(ctx, *o.run, n, steps)
		if err != nil {
			return turn{}, err
		}
		if o.hash == "" {
			o.hash = r.StateHash
		}
		if r.StateHash != o.hash {
			return turn{}, fmt.Errorf("it ends with the state hash %s, another turn with %s", r.StateHash, o.hash)
		}
		used := all.less(begin)
		return turn{r.StepSeconds(), used.cpu / float64(steps), float64(used.bytes) / float64(steps*n), peakMemory(r)}, nil
	}}, nil
}

// packed is how many bytes a peer sends in a step where everything is packed.
func (o *ours) packed(ctx context.Context, n, steps int) (float64, error) {
	run := *o.run
	run.Wire.Packing = "on"
	_, begin, err := o.train(ctx, run, n, 0)
	if err != nil {
		return 0, err
	}
	_, all, err := o.train(ctx, run, n, steps)
	return float64(all.less(begin).bytes) / float64(steps*n), err
}

// bare is the most memory of a peer that trains next to nothing.
func (o *ours) bare(ctx context.Context) (int64, error) {
	run := runfile.Default()
	run.Model.Dim, run.Model.Depth, run.Data.Eval, run.Train.Batch, run.Train.Warmup = 4, 1, 0, 8, 0
	r, _, err := o.train(ctx, run, 1, 1)
	if err != nil {
		return 0, err
	}
	return peakMemory(r), nil
}

func peakMemory(r *shoal.Report) (most int64) {
	for i := range r.Peers {
		most = max(most, r.Peers[i].RSSPeakBytes)
	}
	return most
}
