package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"shoal"
	"shoal/internal/runfile"
	"shoal/testnet"
)

func (a *app) testnetCommand() *cobra.Command {
	var file, report, kernel, plan string
	var asJSON bool
	var cfg testnet.Config
	var faults faultFlags
	var soak int
	cmd := &cobra.Command{
		Use:   "testnet",
		Short: "Start several peers as processes on this machine, and train",
		Long: "Start several peers as separate processes on this machine; the first one starts\n" +
			"the run, the others join it by its link. Flags that name a key of the run file\n" +
			"override it. Faults happen to them on purpose where a flag says so: the victim\n" +
			"waits at the named point until it is hit, and the others go on.",
		Example: "  shoal testnet\n" +
			"  shoal testnet --peers 3 --weights 4,2,1 --steps 100\n" +
			"  shoal testnet --strategy ddp --report ddp-report\n" +
			"  shoal testnet --run run.yaml --json > report.json\n" +
			"  shoal testnet --peers 5 --kill 2@step:40:backward --kill leader@step:60:ready --join 1@step:80\n" +
			"  shoal testnet --slow 2=10 --stop 3@step:50:10 --leave 4@step:70\n" +
			"  shoal testnet --peers 2 --browsers 2 --kill 3@step:40\n" +
			"  shoal testnet --soak 200",
		Args: takes(0, ""),
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Peers, "peers", 4, "number of processes")
	f.IntVar(&cfg.Browsers, "browsers", 0, "number of tabs of headless browsers beside them; their numbers come after those of the processes")
	f.IntSliceVar(&cfg.Weights, "weights", nil, "memory that each peer offers, relative to the others, as in `4,2,1,1`")
	f.StringVar(&file, "run", "", "run `file` (default: the one that shoal init prints)")
	f.StringVar(&report, "report", "shoal-report", "`folder` for the report")
	f.StringVar(&cfg.Out, "out", "", "`folder` for the trained model: model.safetensors and config.json (default: none)")
	f.StringVar(&cfg.Checkpoint, "checkpoint", "", "`folder` for the checkpoints of all peers, every checkpoint.every steps (default: none)")
	f.BoolVar(&cfg.Resume, "resume", false, "go on from the newest checkpoint in the folder of --checkpoint")
	f.BoolVar(&asJSON, "json", false, "print the report as JSON on stdout, all else on stderr")
	f.DurationVar(&cfg.Timeout, "timeout", 0, "give up after this `time`, as in 90s or 10m (default: never)")
	f.StringVar(&kernel, "kernel", "", kernelUsage)
	f.StringVar(&plan, "plan", "", "`file` with what shoal plan --json printed for this run, for the report to compare (default: none)")
	faults.add(cmd)
	f.IntVar(&soak, "soak", 0, "as many kills, stops, leaves and joins as this `number`, one after the other by --seed, in a run of a tiny model")
	o := addOverrides(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(cfg.Weights) > 0 && !f.Changed("peers") {
			cfg.Peers = len(cfg.Weights) - cfg.Browsers
		}
		run, err := a.testnetRunFile(file, o)
		if err != nil {
			return err
		}
		cfg.RunFile, cfg.Kernel = run, kernel
		cfg.Faults = faults.list
		if cfg.Slow, err = faults.slows(); err != nil {
			return err
		}
		start := testnet.Run
		if f.Changed("soak") {
			for _, name := range []string{"run", "steps", "kill", "stop", "leave", "join", "checkpoint", "out", "browsers"} {
				if f.Changed(name) {
					return wrongInput{fmt.Errorf("--%s: a soak chooses this by itself", name)}
				}
			}
			if !f.Changed("peers") {
				cfg.Peers = testnet.SoakPeers
			}
			s := &testnet.Soak{Faults: soak}
			cfg.RunFile, start = s.RunFile(), s.Run
			if err := o.apply(cfg.RunFile); err != nil {
				return err
			}
			s.Seed = cfg.RunFile.Train.Seed
		}
		if err := cfg.Validate(); err != nil {
			return err
		}
		planned, err := readPlan(plan, cfg.RunFile, cfg.Peers+cfg.Browsers)
		if err != nil {
			return err
		}
		if a.verbose {
			cfg.Verbose = a.stderr
		}
		undo, err := makeFolder(report)
		if err != nil {
			return err
		}
		d := newDisplay(a.progressTo(asJSON))
		defer d.Close()
		cfg.OnWait, cfg.Progress, cfg.OnNotice = d.Wait, d.Progress, d.Notice
		r, err := start(cmd.Context(), cfg)
		d.Close()
		if r == nil {
			undo()
			return err
		}
		comparePlan(r, planned)
		return errors.Join(err, a.finish(r, report, asJSON))
	}
	return cmd
}

// testnetRunFile is the run file at path, or the default one, with what the flags override.
func (a *app) testnetRunFile(path string, o *overrides) (*shoal.RunFile, error) {
	run := new(shoal.RunFile)
	*run = runfile.Default()
	if path != "" {
		var err error
		if run, err = a.readRunFile(path); err != nil {
			return nil, err
		}
	}
	return run, o.apply(run)
}
