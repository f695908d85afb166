// Command bench compares package kernel's products and ops, and whole training steps, with OpenBLAS and PyTorch, in turn and
// in one run, and writes the tables of docs/bench.md. `make bench` runs it, from the module's root, after it has made the
// Python environment. It fails if a target is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"time"

	"shoal/kernel/kernelbench"
	"shoal/scripts/internal/page"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	file := flag.String("page", "docs/bench.md", "the `file` that gets the tables, or - for none")
	python := flag.String("python", "build/venv-bench/bin/python", "the `program` that has what requirements.txt names")
	rounds := flag.Int("rounds", 7, "how often each one's turn comes")
	slice := flag.Duration("slice", 30*time.Millisecond, "`time` of a turn")
	only := flag.String("only", "", "`text` that what is measured must contain, as in \"GELU\" or \"ViT 12 x 64\"; the page stays as it is")
	flag.Parse()
	if *rounds < 1 || *slice <= 0 {
		return fmt.Errorf("-rounds %d and -slice %v: want at least 1, and more than 0", *rounds, *slice)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o := &outcome{rounds: *rounds, slice: *slice, only: *only}
	for n := 1; n <= min(2, runtime.NumCPU()); n++ {
		if err := o.measure(ctx, *python, n); err != nil {
			return err
		}
	}
	text, missed := tables(o)
	os.Stdout.Write(text)
	if *file == "-" || *only != "" {
		return missed
	}
	return errors.Join(page.Write(*file, "make bench", text), missed)
}

// outcome is what was measured.
type outcome struct {
	only          string // what the matches' names and shapes contain
	rounds        int
	slice         time.Duration
	backend       string    // ours
	about         about     // theirs
	peak          []float64 // by round: operations a second of one core
	copied        []float64 // by round: seconds of kernelbench.Copy
	products, ops []*opMatch
	steps         []*stepMatch
}

// measure runs the matches with so many threads on both sides, of which the ops have one.
func (o *outcome) measure(ctx context.Context, python string, n int) (err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	t, err := startTorch(ctx, python, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	b, err := kernelbench.Open(kernelbench.Config{Threads: n})
	if err != nil {
		return err
	}
	defer b.Close()

	var all []*match
	if n == 1 {
		if all, err = o.prepareOps(b, t); err != nil {
			return err
		}
	}
	for _, s := range steps(n) {
		if !s.contains(o.only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "preparing %s %s with %s\n", s.name, s.shape, threads(n))
		err := s.prepare(t)
		if s.trainer != nil {
			defer s.trainer.Close()
		}
		if err != nil {
			return err
		}
		o.steps, all = append(o.steps, s), append(all, &s.match)
	}
	for i := range o.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d with %s\n", i+1, o.rounds, threads(n))
		if err := o.round(ctx, b, n, all); err != nil {
			return err
		}
	}
	return nil
}

func (o *outcome) prepareOps(b *kernelbench.Bench, t *torch) (all []*match, err error) {
	if err := t.Ask(request{Ask: "about"}, &o.about); err != nil {
		return nil, err
	}
	if err := o.about.compares(); err != nil {
		return nil, err
	}
	other := func(m *opMatch) bool { return !m.contains(o.only) }
	o.backend, o.products, o.ops = b.Name(), slices.DeleteFunc(products(), other), slices.DeleteFunc(ops(), other)
	for _, m := range slices.Concat(o.products, o.ops) {
		if err := m.prepare(b, t); err != nil {
			return nil, err
		}
		all = append(all, &m.match)
	}
	return all, nil
}

func (o *outcome) round(ctx context.Context, b *kernelbench.Bench, n int, all []*match) error {
	if n == 1 {
		s, err := b.Seconds(kernelbench.Copy(), o.slice)
		if err != nil {
			return err
		}
		o.peak, o.copied = append(o.peak, b.Peak(o.slice)), append(o.copied, s)
	}
	for _, m := range all {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := m.round(o.slice); err != nil {
			return err
		}
	}
	return nil
}
