package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"shoal"
	"shoal/internal/report"
	"shoal/testnet"
)

// The steps that are timed where --steps doesn't say, and the most peers where --peers doesn't.
const (
	timedSteps = 30
	timedPeers = 4
)

func (a *app) benchStepCommand() *cobra.Command {
	var file string
	var steps int
	var asJSON bool
	var cfg testnet.Config
	cmd := &cobra.Command{
		Use:   "step",
		Short: "Measure where the time of a training step goes",
		Long: "Train a run file for a few steps, with peers that are processes on this machine,\n" +
			"and tell what each of them did in an average step: compute, wait for and prepare\n" +
			"parameters, give gradients and wait for their sums, wait for the step's commit,\n" +
			"update, and the rest. One step more is trained before them. Use it while the\n" +
			"machine does nothing else.",
		Example: "  shoal bench step --run run.yaml\n" +
			"  shoal bench step --run run.yaml --peers 2 --steps 100\n" +
			"  shoal bench step --run examples/text.yaml --data text:FILE --json > step.json",
		Args: takes(0, ""),
	}
	f := cmd.Flags()
	f.StringVar(&file, "run", "", "run `file` (default: the one that shoal init prints)")
	f.IntVar(&cfg.Peers, "peers", 0, fmt.Sprintf("number of processes (default: one for each core, at most %d)", timedPeers))
	f.IntVar(&cfg.Cores, "cores", 0, "`number` of cores that all peers together compute with (default: all)")
	f.IntVar(&steps, "steps", timedSteps, "`number` of steps that are timed, in place of train.steps of the run file")
	f.StringVar(&cfg.Kernel, "kernel", "", kernelUsage)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	o := &overrides{cmd: cmd}
	overrideData(o)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if cfg.RunFile, err = a.testnetRunFile(file, o); err != nil {
			return err
		}
		if steps < 1 {
			return &shoal.ConfigError{Field: "steps", Err: fmt.Errorf("%d is not allowed here, use 1 or more", steps)}
		}
		onlySteps(cfg.RunFile, steps)
		if !f.Changed("peers") {
			cfg.Peers = timedPeersOn(cfg.Cores)
		}
		if err := cfg.Validate(); err != nil {
			return err
		}
		return a.benchStep(cmd.Context(), cfg, asJSON)
	}
	return cmd
}

// onlySteps leaves nothing of a run but so many steps after the first one.
func onlySteps(r *shoal.RunFile, steps int) {
	r.Train.Steps, r.Train.Warmup = 1+steps, min(r.Train.Warmup, 1+steps)
	r.Data.Eval, r.Checkpoint.Every = 0, 0
}

// timedPeersOn is how many peers there are on so many cores: more would only make them wait for one another.
func timedPeersOn(cores int) int {
	if cores == 0 {
		cores = runtime.GOMAXPROCS(0)
	}
	return max(1, min(cores, timedPeers))
}

func (a *app) benchStep(ctx context.Context, cfg testnet.Config, asJSON bool) error {
	if a.verbose {
		cfg.Verbose = a.stderr
	}
	d := newDisplay(a.stderr)
	defer d.Close()
	cfg.OnWait, cfg.Progress, cfg.OnNotice = d.Wait, d.Progress, d.Notice
	r, err := testnet.Run(ctx, cfg)
	d.Close()
	if err != nil {
		return err
	}
	s := newStepTimes(r)
	if asJSON {
		e := json.NewEncoder(a.stdout)
		e.SetIndent("", "  ")
		return e.Encode(s)
	}
	return s.print(a.stdout)
}

// stepTimes is what `shoal bench step` has measured. Its JSON is an interface.
type stepTimes struct {
	Name             string         `json:"name"`    // of the run file
	Steps            int            `json:"steps"`   // that were timed
	StepMS           float64        `json:"step_ms"` // of an average one
	SamplesPerSecond float64        `json:"samples_per_second"`
	Peers            []stepPeerTime `json:"peers"` // by rank
}

type stepPeerTime struct {
	Rank    int          `json:"rank"`
	Backend string       `json:"backend"`
	Samples int64        `json:"samples"` // of all steps, the one before them included
	TimeMS  report.Times `json:"time_ms"` // an average step's
}

func newStepTimes(r *shoal.Report) *stepTimes {
	s := &stepTimes{Name: r.Name, Steps: r.Steps - 1, StepMS: 1000 * r.StepSeconds()}
	samples := int64(0)
	for i := range r.Peers {
		p := &r.Peers[i]
		s.Peers = append(s.Peers, stepPeerTime{p.Rank, p.Backend, p.Samples, p.StepMS()})
		samples += p.Samples
	}
	if s.StepMS > 0 {
		s.SamplesPerSecond = 1000 * float64(samples) / float64(r.Steps) / s.StepMS
	}
	return s
}

// print is a table of at most 80 columns.
func (s *stepTimes) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s of %s: %.1f ms a step, %.0f samples/s\n\n", s.Name, counted(s.Steps, "step"), counted(len(s.Peers), "peer"),
		s.StepMS, s.SamplesPerSecond)
	fmt.Fprintf(&b, "Milliseconds of an average step, and percent of it:\n\nrank")
	for _, part := range (report.Times{}).Parts() {
		fmt.Fprintf(&b, "%11s", part.Name)
	}
	fmt.Fprintf(&b, "%9s\n", "step")
	for _, p := range s.Peers {
		sum := p.TimeMS.Sum()
		fmt.Fprintf(&b, "%4d", p.Rank)
		for _, part := range p.TimeMS.Parts() {
			fmt.Fprintf(&b, "%6s %3.0f%%", tenths(part.MS), 100*part.MS/max(sum, 1e-9))
		}
		fmt.Fprintf(&b, "%9s\n", tenths(sum))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// tenths shows milliseconds in five columns, very many of them as seconds.
func tenths(ms float64) string {
	switch {
	case ms < 999.95:
		return fmt.Sprintf("%.1f", ms)
	case ms < 99_999.5:
		return fmt.Sprintf("%.0f", ms)
	}
	return fmt.Sprintf("%.0fs", ms/1000)
}
