package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"shoal/internal/live"
	"shoal/internal/status"
)

// recoverTime is how long a recovery may take: others are asked what they hold.
const recoverTime = time.Minute

func (a *app) recoverCommand() *cobra.Command {
	var c chosen
	var yes bool
	cmd := &cobra.Command{
		Use:   "recover [RUN-ID]",
		Short: "Have a stuck run go on without members that are gone for good",
		Long: "Have the run that a process of this machine is in go on, when more than half of\n" +
			"its voters are gone for good. Voters that are stopped, asleep or cut off resume\n" +
			"by themselves when they are back: then nothing is to be recovered. On the other\n" +
			"side of a partition nobody may do the same, or there are two runs.",
		Example: "  shoal recover\n" +
			"  shoal recover --pid 4242 --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := c.find(args)
			if err != nil {
				return err
			}
			if len(list) > 1 {
				return severalError(list)
			}
			return a.recover(cmd.Context(), &list[0], yes)
		},
	}
	c.add(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

// recover has one process recover its run, after the user has agreed.
func (a *app) recover(ctx context.Context, p *live.Process, yes bool) error {
	asking, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	st, err := p.Status(asking)
	if err != nil {
		return err
	}
	if st.Stuck == "" {
		return errors.New("the run is not stuck, there is nothing to recover: see `shoal status`")
	}
	if _, err := io.WriteString(a.stdout, plan(&st)); err != nil {
		return unlessGone(err)
	}
	if !yes {
		if err := a.confirm(ctx); err != nil {
			return err
		}
	}
	recovering, cancel := context.WithTimeout(ctx, recoverTime)
	defer cancel()
	if st, err = p.Recover(recovering); err != nil {
		return fmt.Errorf("not recovered: %w", err)
	}
	n := st.InView()
	_, err = fmt.Fprintf(a.stdout, "the run goes on with %s, in generation %d of its log\n", counted(n, "peer"), st.Generation)
	return unlessGone(err)
}

// plan says what a recovery will do.
func plan(st *status.Status) string {
	return fmt.Sprintf("The run %s is stuck after step %d of %d:\n  %s\n", oneLine(st.Name), st.Step, st.Steps, oneLine(st.Stuck)) +
		fmt.Sprintf("Recovering goes on from that step, or from the checkpoint if one is named above,\n"+
			"with the members that this peer reaches and as generation %d of the log. Whoever\n"+
			"is missing is left out, and joins as a newcomer if it comes back. Don't do it if\n"+
			"the others may still go on somewhere: voters that sleep or are cut off resume by\n"+
			"themselves.\n", st.Generation+1)
}

// confirm waits for the user's yes, which only a terminal gives.
func (a *app) confirm(ctx context.Context) error {
	if !person(a.stdin) {
		return wrongInput{errors.New("nobody can be asked here: say --yes to recover")}
	}
	fmt.Fprint(a.stdout, "Recover? [y/N] ")
	answer := make(chan string, 1)
	go func() { // ends with the line, or with the process
		line, _ := bufio.NewReader(io.LimitReader(a.stdin, 64)).ReadString('\n')
		answer <- line
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case line := <-answer:
		if agreed(line) {
			return nil
		}
		return errors.New("nothing was done")
	}
}

// person says whether somebody may type there.
func person(r io.Reader) bool {
	f, ok := r.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice != 0
}

func agreed(line string) bool {
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true
	}
	return false
}
