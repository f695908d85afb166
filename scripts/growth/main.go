// Command growth trains runs with more and more peers, and of larger and larger models, and writes how their cost grows into
// docs/growth.md and its plot. `make growth` runs it, from the module's root.
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
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

func run() error {
	program := flag.String("program", "build/shoal", "the `file` of the program whose processes are the peers")
	folder := flag.String("docs", "docs", "`folder` of growth.md")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := &runner{program: *program, log: os.Stdout}
	byPeers, err := r.all(ctx, peerRuns())
	if err != nil {
		return err
	}
	bySize, err := r.all(ctx, sizeRuns())
	if err != nil {
		return err
	}
	if err := write(*folder, byPeers, bySize); err != nil {
		return err
	}
	return check(byPeers, bySize)
}
