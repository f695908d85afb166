package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"shoal/internal/live"
)

// answerTime is how long a process of this machine may take to say how its run goes.
const answerTime = 5 * time.Second

// chosen says which process of this machine is meant.
type chosen struct{ pid int }

func (c *chosen) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&c.pid, "pid", 0, "the process with this `id`, if several are in a run")
	cmd.Args = func(cmd *cobra.Command, args []string) error { return takes(min(len(args), 1), "")(cmd, args) }
}

// find has the processes that are meant: at least one.
func (c *chosen) find(args []string) ([]live.Process, error) {
	list, err := live.List()
	if err != nil {
		return nil, err
	}
	return live.Pick(list, c.pid, strings.Join(args, ""))
}

func (a *app) statusCommand() *cobra.Command {
	var c chosen
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status [RUN-ID]",
		Short: "Show how the run goes that a process of this machine is in",
		Long: "Show the run that one of your processes on this machine is in: members, who\n" +
			"owns and backs up what, how many simultaneous deaths are survivable now, what\n" +
			"it waits for, and the last faults. If several processes are in a run, they are\n" +
			"listed: choose one by --pid or the first characters of the run's id.",
		Example: "  shoal status\n" +
			"  shoal status 5f0c\n" +
			"  shoal status --pid 4242 --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := c.find(args)
			if err != nil {
				return err
			}
			if len(list) > 1 {
				return a.listed(list, asJSON)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), answerTime)
			defer cancel()
			st, err := list[0].Status(ctx)
			if err != nil {
				return err
			}
			if !asJSON {
				return unlessGone(st.Write(a.stdout))
			}
			text, err := json.MarshalIndent(st, "", "  ")
			if err == nil {
				_, err = a.stdout.Write(append(text, '\n'))
			}
			return unlessGone(err)
		},
	}
	c.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object; docs/status.md has its fields")
	return cmd
}

// listed shows several processes, of which the user must choose one.
func (a *app) listed(list []live.Process, asJSON bool) error {
	if asJSON {
		return severalError(list)
	}
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "pid\trun\tname\tsince")
	for _, p := range list {
		fmt.Fprintf(w, "%d\t%.16s\t%.40s\t%s\n", p.PID, p.RunID, p.Name, p.Started.Local().Format(time.DateTime))
	}
	w.Flush()
	fmt.Fprintf(&b, "\n%d processes are in a run: `shoal status --pid %d` shows one of them\n", len(list), list[0].PID)
	_, err := a.stdout.Write(b.Bytes())
	return unlessGone(err)
}

// severalError asks to choose.
func severalError(list []live.Process) error {
	const most = 8
	var pids []string
	for _, p := range list[:min(len(list), most)] {
		pids = append(pids, fmt.Sprint(p.PID))
	}
	if len(list) > most {
		pids = append(pids, "...")
	}
	return wrongInput{fmt.Errorf("%d processes are in a run, choose one by --pid: %s", len(list), strings.Join(pids, ", "))}
}
