package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"shoal"
	"shoal/kernel/kernelbench"
)

func (a *app) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast this machine is",
		Long:  "Measure how fast this machine is: use it while nothing else runs.",
		Example: "  shoal bench kernels\n" +
			"  shoal bench step --run run.yaml\n" +
			"  shoal bench wire",
		Args: cobra.ArbitraryArgs,
		RunE: onlyCommands,
	}
	cmd.AddCommand(a.benchKernelsCommand(), a.benchStepCommand(), a.benchWireCommand())
	return cmd
}

func (a *app) benchKernelsCommand() *cobra.Command {
	var cfg kernelbench.Config
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "kernels",
		Short: "Measure each operation against this core's peak",
		Long: "Measure each operation of a training step, at the sizes of small models. Products\n" +
			"are compared with the fused multiply-adds that this core can do on registers,\n" +
			"the others with a copy of so many bytes. Use it while the machine does nothing\n" +
			"else.",
		Example: "  shoal bench kernels\n" +
			"  shoal bench kernels --cores 2 --kernel avx2\n" +
			"  shoal bench kernels --json > kernels.json",
		Args: takes(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := (&shoal.Config{Cores: cfg.Threads, Kernel: cfg.Path}).Check(); err != nil {
				return err
			}
			return a.benchKernels(cmd.Context(), cfg, asJSON)
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Threads, "cores", 1, "`number` of cores that compute")
	f.StringVar(&cfg.Path, "kernel", "", kernelUsage)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) benchKernels(ctx context.Context, cfg kernelbench.Config, asJSON bool) error {
	r, err := kernelbench.Run(ctx, cfg)
	if err != nil {
		return err
	}
	if asJSON {
		e := json.NewEncoder(a.stdout)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return printKernels(a.stdout, r)
}

// printKernels is a table, of at most 80 columns, of what the ops reach.
func printKernels(w io.Writer, r *kernelbench.Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s: a core's peak %.0f GFLOP/s, a copy %.0f GB/s\n\n", r.Backend, counted(r.Threads, "core"), r.Peak, r.Copy)
	fmt.Fprintf(&b, "%-19s %-19s %11s %11s %14s\n", "op", "shape", "us a call", "GFLOP/s", "share of peak")
	copied := false
	for _, o := range r.Ops {
		if o.GFLOPS == 0 && !copied {
			copied = true
			fmt.Fprintf(&b, "\n%-19s %-19s %11s %11s %14s\n", "op", "shape", "us a call", "GB/s", "share of copy")
		}
		fmt.Fprintf(&b, "%-19s %-19s %11.1f %11.1f %13.0f%%\n", o.Op, o.Shape, o.Micros, o.GFLOPS+o.GBS, 100*o.Share)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
