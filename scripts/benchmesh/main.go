// Command benchmesh compares training by several peers with one peer, and with PyTorch's distributed training on as many
// processes, in turn, and writes the tables of docs/bench.md. `make bench-mesh` runs it, from the module's root, after it
// has made the Python environment and the program. It fails if a target is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"

	"shoal/scripts/internal/page"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "benchmesh:", err)
		os.Exit(1)
	}
}

func run() error {
	file := flag.String("page", "docs/bench.md", "the `file` that gets the tables, or - for none")
	kept := flag.String("results", "build/bench-mesh.json", "the `file` that keeps what was measured, part by part")
	only := flag.String("only", "", "`text` that the parts to measure contain, as in \"GPT\" or \"4 processes\"; the others stay as in -results")
	var c config
	flag.StringVar(&c.program, "program", "build/shoal", "the `file` of the program whose processes are the peers")
	flag.StringVar(&c.python, "python", "build/venv-bench/bin/python", "the `program` that has what scripts/bench/requirements.txt names")
	flag.IntVar(&c.rounds, "rounds", 5, "how often each one's turn comes")
	flag.IntVar(&c.cores, "cores", min(2, runtime.NumCPU()), "cores that all processes of a side together compute with")
	flag.Parse()
	if c.rounds < 1 || c.cores < 1 {
		return fmt.Errorf("-rounds %d and -cores %d: want at least 1 of each", c.rounds, c.cores)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if inside, err := ownNetwork(ctx); !inside {
		return err
	}
	results, err := load(*kept)
	if err != nil {
		return err
	}
	if err := c.measure(ctx, *only, results, *kept); err != nil {
		return err
	}
	text, missed := tables(results)
	os.Stdout.Write(text)
	if *file == "-" {
		return missed
	}
	return errors.Join(page.Write(*file, "make bench-mesh", text), missed)
}

// config is how it is measured.
type config struct {
	program, python string
	rounds, cores   int
}

// measure measures the parts whose names contain only, and keeps each in the file as soon as it is there.
func (c *config) measure(ctx context.Context, only string, results map[string]*result, file string) error {
	for _, p := range parts() {
		if !p.contains(only) {
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring", p.name())
		r, err := p.measure(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name(), err)
		}
		results[p.name()] = r
		if err := save(file, results); err != nil {
			return err
		}
	}
	return nil
}
