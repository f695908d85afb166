package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"shoal"
)

func (a *app) sampleCommand() *cobra.Command {
	s := shoal.Sampling{}
	cmd := &cobra.Command{
		Use:   "sample DIR",
		Short: "Continue a text with a trained language model",
		Long: "Continue a text with the language model of bytes that `up --out DIR`,\n" +
			"`join --out DIR` or `testnet --out DIR` wrote. The same seed gives the same text.",
		Example: "  shoal sample model/ --prompt 'To be' --tokens 200",
		Args:    takes(1, "the folder of a trained model"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := shoal.OpenTrained(args[0])
			if err != nil {
				return wrongInput{err}
			}
			defer t.Close()
			if err := t.Sample(cmd.Context(), a.stdout, s); err != nil {
				return err
			}
			fmt.Fprintln(a.stdout)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Prompt, "prompt", "", "text to continue (default: the beginning of a line)")
	f.IntVar(&s.Tokens, "tokens", 200, "bytes to add")
	f.Float64Var(&s.Temperature, "temperature", 0.8, "0 takes the likeliest byte, more is bolder")
	f.IntVar(&s.TopK, "top-k", 0, "choose among so many of the likeliest bytes (default: all)")
	f.Uint64Var(&s.Seed, "seed", 1, "another seed, another text")
	return cmd
}

func (a *app) evalCommand() *cobra.Command {
	var cfg shoal.Config
	var other bool
	cmd := &cobra.Command{
		Use:   "eval DIR",
		Short: "Repeat the evaluation of a trained model on held-out samples",
		Example: "  shoal eval model/ --data text:FILE\n" +
			"  shoal eval model/ --data text:ANOTHER --other-data",
		Args: takes(1, "the folder of a trained model"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := shoal.OpenTrained(args[0])
			if err != nil {
				return wrongInput{err}
			}
			defer t.Close()
			t.OtherData = other
			e, err := t.Evaluate(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			if e.OtherData != "" {
				fmt.Fprintf(a.stdout, "other data  than the run learned from: %s\n", e.OtherData)
			}
			fmt.Fprintf(a.stdout, "accuracy    %.2f%% of %d held-out labels, loss %.4f\n", 100*e.Accuracy, e.Labels, e.Loss)
			return nil
		},
	}
	cmd.Flags().StringVar(&cfg.Files, "data", "", "`where` this machine has the run's files, if it learned from files: mnist:DIR, text:FILE or tokens:FILE")
	cmd.Flags().BoolVar(&other, "other-data", false, "evaluate also if --data has other contents than the run learned from")
	cmd.Flags().IntVar(&cfg.Cores, "cores", 0, "cores to compute with (default: all)")
	cmd.Flags().StringVar(&cfg.Kernel, "kernel", "", kernelUsage)
	return cmd
}
