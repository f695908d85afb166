package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"shoal/internal/tab"
)

// tabCommand is testnet's: a peer in a tab, as its child.
func (a *app) tabCommand() *cobra.Command {
	var c tab.Config
	var memory byteSize
	var dist string
	cmd := &cobra.Command{
		Use:     "tab LINK",
		Short:   "Run under testnet: a headless browser whose tab joins a run",
		Example: "  shoal tab LINK --memory 512MiB",
		Hidden:  true,
		Args:    takes(1, "a link"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Child.Link, c.Child.Memory = args[0], int64(memory)
			c.In, c.Out, c.Err, c.Verbose = a.stdin, a.stdout, a.stderr, a.verbose
			if dist != "" {
				c.Dist = os.DirFS(dist)
			}
			err := tab.Run(cmd.Context(), c)
			if errors.Is(context.Cause(cmd.Context()), errInterrupted) {
				return errInterrupted
			}
			return err
		},
	}
	f := cmd.Flags()
	f.Var(&memory, "memory", "memory to offer")
	f.IntVar(&c.Child.Cores, "cores", 0, "cores to compute with")
	f.StringArrayVar(&c.Child.Points, "pause", nil, "wait at this `point` until the parent acts")
	f.Float64Var(&c.Child.Slow, "slow", 0, "compute this `many` times slower")
	f.StringVar(&dist, "dist", "", "`folder` with the built peer (default: inside this program)")
	f.StringVar(&c.Profile, "profile", "", "`folder` for the browser's profile (default: one that goes with it)")
	return cmd
}
