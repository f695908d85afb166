// Package kernelbench measures how fast a processor's kernels are, against what its cores and its memory can do.
package kernelbench

import (
	"context"
	"errors"
	"slices"
	"time"

	"shoal/kernel/cpu"
	"shoal/kernel/cpu/gemm"
)

// Result is what Run has measured. Rates are medians over the rounds.
type Result struct {
	Backend string  `json:"backend"` // as in "cpu/avx512"
	Threads int     `json:"threads"`
	Peak    float64 `json:"peak_gflops"` // of one core: fused multiply-adds on registers, 2 operations each
	Copy    float64 `json:"copy_gbs"`    // read and written by a copy, on so many threads
	Ops     []Row   `json:"ops"`
}

// Row is one op at one size. Of GFLOPS and GBS one is 0: what isn't the op's limit.
type Row struct {
	Op     string  `json:"op"`
	Shape  string  `json:"shape"`
	Micros float64 `json:"microseconds"`
	GFLOPS float64 `json:"gflops,omitempty"` // 10^9 operations a second; a fused multiply-add has 2
	GBS    float64 `json:"gbs,omitempty"`    // 10^9 bytes a second that are read or written
	Share  float64 `json:"share"`            // of Threads times Peak, or of Copy
}

// Config says what to measure, and for how long. The zero Config takes one thread and the best code path.
type Config struct {
	Threads int           // 0: 1
	Path    string        // code path, as in cpu.Config
	Rounds  int           // 0: 5
	Slice   time.Duration // of an op in a round; 0: 10 ms
}

func (c *Config) fill() {
	if c.Threads == 0 {
		c.Threads = 1
	}
	if c.Rounds == 0 {
		c.Rounds = 5
	}
	if c.Slice == 0 {
		c.Slice = 10 * time.Millisecond
	}
}

// Run measures every op, one after the other, in each of the rounds, so that a busy moment of the machine is not one
// op's bad luck. An error is that of cpu.New, of an op, or of ctx.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	cfg.fill()
	b, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	list := append([]Op{Copy()}, Ops()...)
	peaks, times := make([]float64, 0, cfg.Rounds), make([][]float64, len(list))
	for range cfg.Rounds {
		peaks = append(peaks, b.Peak(cfg.Slice))
		for i, o := range list {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			s, err := b.Seconds(o, cfg.Slice)
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], s)
		}
	}
	r := &Result{Backend: b.Name(), Threads: cfg.Threads, Peak: median(peaks) / 1e9}
	for i, o := range list {
		s := median(times[i])
		row := Row{Op: o.Name, Shape: o.Shape, Micros: s * 1e6, GFLOPS: o.FLOPs / s / 1e9, GBS: o.Bytes / s / 1e9}
		switch {
		case i == 0:
			r.Copy = row.GBS
			continue
		case o.FLOPs > 0:
			row.Share = row.GFLOPS / (r.Peak * float64(cfg.Threads))
		default:
			row.Share = row.GBS / r.Copy
		}
		r.Ops = append(r.Ops, row)
	}
	return r, nil
}

// Bench measures ops one by one, for whoever takes turns with something else. One goroutine at a time may use it.
type Bench struct {
	raw  *cpu.Device
	ops  device
	gemm *gemm.Kernel
}

// Open starts a device for cfg, of which Rounds and Slice are not used. An error is that of cpu.New.
func Open(cfg Config) (*Bench, error) {
	cfg.fill()
	raw, err := cpu.New(cpu.Config{Threads: cfg.Threads, Path: cfg.Path})
	if err != nil {
		return nil, err
	}
	k, err := gemm.Select(cfg.Path)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return &Bench{raw: raw, ops: device{Device: raw}, gemm: k}, nil
}

// Close frees the device.
func (b *Bench) Close() error { return b.raw.Close() }

// Name is the backend and its code path, as in "cpu/avx512".
func (b *Bench) Name() string { return b.raw.Name() }

// Peak measures for about d what one core can do at most, in operations a second; a fused multiply-add has 2.
func (b *Bench) Peak(d time.Duration) float64 { return b.gemm.Peak(d) }

// Seconds is how long a call of o takes, measured for about d. An error is the device's.
func (b *Bench) Seconds(o Op, d time.Duration) (float64, error) {
	s := seconds(o.setup(&b.ops), d)
	b.ops.free()
	return s, b.raw.Sync()
}

// seconds is how long a call takes, measured over as many as fill the slice, after two that warm up.
func seconds(call func(), slice time.Duration) float64 {
	call()
	start := time.Now()
	call()
	n := 1 + int(slice/max(time.Since(start), time.Microsecond))
	start = time.Now()
	for range n {
		call()
	}
	return time.Since(start).Seconds() / float64(n)
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}
