// Command faults kills and stops peers at every point of a step, in every role, and writes what came of it into
// docs/faults.md. `make faults` runs it, from the module's root.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"shoal/scripts/internal/page"
	"shoal/testnet"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func run() error {
	program := flag.String("program", "build/shoal", "the `file` of the program whose processes are the peers")
	file := flag.String("page", "docs/faults.md", "the `file` that gets the table, or - for none")
	only := flag.String("only", "", "`text` that the cells to try must contain, as in \"kill leader\"")
	verbose := flag.String("log", "", "`file` for what the peers log (default: none)")
	limit := flag.Duration("limit", 45*time.Minute, "give up after this `time`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, *limit, fmt.Errorf("stopped after %v", *limit))
	defer cancel()
	cells := slices.DeleteFunc(testnet.Cells(), func(c testnet.Cell) bool { return !strings.Contains(c.String(), *only) })
	if len(cells) == 0 {
		return fmt.Errorf("no cell contains %q", *only)
	}
	begin := time.Now()
	m := &testnet.Matrix{Program: *program, OnCell: func(o testnet.Outcome) {
		fmt.Printf("%6.0f s  %-28s next commit %5d ms  %s\n", time.Since(begin).Seconds(), o.Cell, o.Next.Milliseconds(), o.Problem)
	}}
	if *verbose != "" {
		f, err := os.Create(*verbose)
		if err != nil {
			return err
		}
		defer f.Close()
		m.Verbose = f
	}
	done, err := m.Run(ctx, cells)
	if err != nil {
		return err
	}
	bad := slices.ContainsFunc(done, func(o testnet.Outcome) bool { return o.Problem != "" })
	if *file != "-" {
		if err := page.Write(*file, "make faults", tables(cells, done)); err != nil {
			return err
		}
	}
	if bad {
		return fmt.Errorf("not all is as promised")
	}
	return nil
}
