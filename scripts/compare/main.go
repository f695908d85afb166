// Command compare trains the same run in each way to share it out, checks that all end with the same model, and writes
// what they cost into docs/strategies.md and its plot. `make compare` runs it, from the module's root.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run() error {
	program := flag.String("program", "build/shoal", "the `file` of the program whose processes are the peers")
	folder := flag.String("docs", "docs", "`folder` of strategies.md")
	peers := flag.Int("peers", 4, "peers of the comparison")
	steps := flag.Int("steps", 30, "steps of the comparison")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := &runner{program: *program, log: os.Stdout}
	reports, err := r.strategies(ctx, *peers, *steps)
	if err != nil {
		return err
	}
	memory, err := r.memory(ctx)
	if err != nil {
		return err
	}
	return write(*folder, reports, memory)
}
