package main

import (
	"context"
	"errors"
	"os"
	"time"

	"shoal"
	"shoal/testnet"
)

// child takes part in a run as testnet's child: it waits where testnet wants it to, and ends when stdin does, which is
// when testnet closes it or is gone.
func (a *app) child(ctx context.Context, n *nodeFlags, cfg shoal.Config) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := testnet.NewChild(a.stdout, n.pauses)
	if err != nil {
		return wrongInput{err}
	}
	defer c.Close()
	finished := make(chan struct{})
	defer close(finished)
	go func() { // ends with stdin or with the process
		c.Serve(a.stdin)
		cancel(errInterrupted)
		select {
		case <-finished:
		case <-time.After(patience):
			os.Exit(exitInterrupted)
		}
	}()
	c.Watch(&cfg)
	end, err := observe(&cfg, n.metrics)
	if err != nil {
		return err
	}
	defer end()
	r, err := shoal.Run(ctx, cfg)
	if r != nil {
		return errors.Join(err, c.Report(r))
	}
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return errInterrupted
	}
	c.Failed(err)
	return err
}
