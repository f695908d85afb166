package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"shoal"
	"shoal/internal/report"
)

func (a *app) checkpointCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "List, verify or export the checkpoints in a folder",
		Example: "  shoal checkpoint list kept/\n" +
			"  shoal checkpoint verify kept/\n" +
			"  shoal checkpoint export kept/ --out model/",
		Args: cobra.ArbitraryArgs,
		RunE: onlyCommands,
	}
	cmd.AddCommand(a.checkpointList(), a.checkpointVerify(), a.checkpointExport())
	return cmd
}

const aCheckpointFolder = "the folder of --checkpoint"

func (a *app) checkpointList() *cobra.Command {
	return &cobra.Command{
		Use:     "list DIR",
		Example: "  shoal checkpoint list kept/",
		Short:   "List the checkpoints in a folder, oldest first",
		Args:    takes(1, aCheckpointFolder),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := checkpoints(args[0])
			if err != nil {
				return err
			}
			var b bytes.Buffer
			w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "step\trun\tsize\tpath")
			for _, c := range list {
				size := report.Bytes(c.Bytes)
				if c.Err != nil {
					size = oneLine(c.Err.Error())
				}
				fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", c.Step, c.Name, size, c.Path)
			}
			w.Flush()
			_, err = a.stdout.Write(b.Bytes())
			return err
		},
	}
}

// checkpoints are those in dir, at least one.
func checkpoints(dir string) ([]shoal.Checkpoint, error) {
	list, err := shoal.Checkpoints(dir)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("there is no checkpoint in %s", dir)
	}
	if err != nil {
		return nil, wrongInput{err}
	}
	return list, nil
}

func (a *app) checkpointVerify() *cobra.Command {
	return &cobra.Command{
		Use:     "verify DIR",
		Example: "  shoal checkpoint verify kept/",
		Short:   "Compare every file of every checkpoint with its hash",
		Args:    takes(1, aCheckpointFolder),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := checkpoints(args[0])
			if err != nil {
				return err
			}
			bad := 0
			for i := range list {
				said := "ok"
				if err := list[i].Verify(cmd.Context()); err != nil {
					said = oneLine(err.Error())
					bad++
				}
				if _, err := fmt.Fprintf(a.stdout, "step %d: %s\n", list[i].Step, said); err != nil {
					return err
				}
			}
			if bad > 0 {
				return fmt.Errorf("%d of %d checkpoints can't be used", bad, len(list))
			}
			return nil
		},
	}
}

func (a *app) checkpointExport() *cobra.Command {
	var out, step string
	cmd := &cobra.Command{
		Use:     "export DIR --out FOLDER",
		Example: "  shoal checkpoint export kept/ --out model/ --step 200",
		Short:   "Write a checkpoint's model as model.safetensors and config.json",
		Long: "Write a checkpoint's model as model.safetensors and config.json, as `up --out`\n" +
			"does at the end of a run: `sample` and `eval` take it.",
		Args: takes(1, aCheckpointFolder),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return wrongInput{errors.New("--out: give a folder for the model")}
			}
			list, err := checkpoints(args[0])
			if err != nil {
				return err
			}
			if step != "" {
				n, err := strconv.Atoi(step)
				if err != nil {
					return wrongInput{fmt.Errorf("--step: %.100q is not allowed here, use a whole number", step)}
				}
				if list = only(list, n); len(list) == 0 {
					return wrongInput{fmt.Errorf("--step: there is no checkpoint of step %d in %s", n, args[0])}
				}
			}
			c := list[len(list)-1]
			if err := c.Export(cmd.Context(), out); err != nil {
				return fmt.Errorf("the checkpoint of step %d was not exported: %w", c.Step, err)
			}
			_, err = fmt.Fprintf(a.stdout, "step %d of %s written to %s\n", c.Step, c.Name, out)
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "`folder` for the model")
	cmd.Flags().StringVar(&step, "step", "", "which checkpoint, by its step (default: the newest)")
	return cmd
}

// only are the checkpoints of a step.
func only(list []shoal.Checkpoint, step int) (of []shoal.Checkpoint) {
	for _, c := range list {
		if c.Step == step {
			of = append(of, c)
		}
	}
	return of
}
