package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"shoal"
	"shoal/internal/report"
)

func (a *app) planCommand() *cobra.Command {
	var cfg shoal.PlanConfig
	var memory byteSize
	var link bitRate
	var asJSON bool
	var o *overrides
	cmd := &cobra.Command{
		Use:   "plan RUN.yaml",
		Short: "Predict what a run needs, and how fast it will be",
		Long: "Predict what a run with so many equal peers needs, before anyone joins: memory and\n" +
			"bytes by formulas, the time of a step by computing a peer's part on this machine\n" +
			"for some seconds. Use it while the machine does nothing else.",
		Example: "  shoal plan run.yaml --peers 4 --link 100Mbit --latency 20ms\n" +
			"  shoal plan run.yaml --peers 8 --memory 2GiB --cores 2\n" +
			"  shoal plan run.yaml --peers 2 --here 2 --cores 1     # both on this machine\n" +
			"  shoal plan run.yaml --peers 4 --json > plan.json     # up --plan compares",
		Args: takes(1, "a run file (`shoal init` prints one)"),
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Peers, "peers", 1, "`number` of equal peers")
	f.IntVar(&cfg.Here, "here", 1, "`number` of them that share this machine, as in a testnet")
	f.Var(&link, "link", "bits per second that each peer can send and receive, as in 100Mbit, 1Gbit or 10MB (default: the network is left out)")
	f.DurationVar(&cfg.Latency, "latency", 0, "`time` that a message is on its way, as in 20ms")
	f.Var(&memory, "memory", "memory that each peer offers, as in 512MiB or 4GiB (default: this machine's, shared by those here)")
	f.IntVar(&cfg.Cores, "cores", 0, "cores that each peer computes with (default: all)")
	f.StringVar(&cfg.Kernel, "kernel", "", kernelUsage)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	o = &overrides{cmd: cmd}
	overrideData(o)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		for name, n := range map[string]int{"peers": cfg.Peers, "here": cfg.Here} {
			if n <= 0 { // 0 is 1 for a program
				return wrongInput{fmt.Errorf("--%s: %d is not allowed here, use 1 or more", name, n)}
			}
		}
		if cfg.RunFile, err = a.readRunFile(args[0]); err != nil {
			return err
		}
		if err := o.apply(cfg.RunFile); err != nil {
			return err
		}
		cfg.Memory, cfg.Link = int64(memory), float64(link)
		p, err := shoal.MakePlan(cmd.Context(), cfg)
		if err != nil {
			return err
		}
		if asJSON {
			e := json.NewEncoder(a.stdout)
			e.SetIndent("", "  ")
			return e.Encode(p)
		}
		return printPlan(a.stdout, p)
	}
	return cmd
}

// printPlan is a table of at most 80 columns.
func printPlan(w io.Writer, p *shoal.Plan) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n%s, %s, %s\n\n", p.Name, p.Model, p.Strategy, counted(p.Backups, "backup"), counted(p.Peers, "peer"))
	row := func(name, value, note string) {
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("%-23s %14s  %s", name, value, note), " "))
	}
	row("parameters", report.Count(p.ModelParameters), "")
	row("memory between steps", report.Bytes(p.RestBytes), "of each peer, tensors alone")
	row("memory in a step", report.Bytes(p.PeakBytes), "of equal peers; offer at least "+report.Bytes(max(p.NeedBytes, p.PeakBytes)))
	fits := "this is enough"
	if !p.Fits {
		fits = "THIS IS TOO LITTLE"
	}
	row("memory that is offered", report.Bytes(p.LimitBytes), fits)
	row("received in a step", report.Bytes(p.StepTraffic), "by each peer, as much sent; unpacked")
	row("received in the run", report.Bytes(p.RunTraffic), "with retry and evaluation")
	row("packed to", fmt.Sprintf("%.0f%%", 100*p.Packed), "wire.packing: "+p.Packing)
	row("microbatches", fmt.Sprintf("%d of %d", p.Share, p.Microbatches), "of a step, the most that a peer computes")
	row("computing", seconds(p.ComputeSeconds), fmt.Sprintf("%s, %s, %s here", p.Backend, counted(p.Cores, "core"), counted(p.Here, "peer")))
	if p.NetworkSeconds == nil {
		row("network", "left out", "say how fast it is with --link")
	} else {
		link := bitRate(p.LinkBits)
		row("network", seconds(*p.NetworkSeconds), fmt.Sprintf("packed bytes at %s a second", link.String()))
	}
	row("step", seconds(p.StepSeconds), "")
	row("samples", fmt.Sprintf("%.3g", p.SamplesPerSecond), "a second, of all peers")
	_, err := io.WriteString(w, b.String())
	return unlessGone(err)
}

// seconds is a time for people.
func seconds(s float64) string {
	switch {
	case s < 0.01:
		return fmt.Sprintf("%.2f ms", 1000*s)
	case s < 1:
		return fmt.Sprintf("%.0f ms", 1000*s)
	}
	return fmt.Sprintf("%.2f s", s)
}

// readPlan reads a plan that `shoal plan --json` has printed for this run and so many peers. There is none in "".
func readPlan(file string, run *shoal.RunFile, peers int) (*shoal.Plan, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, wrongInput{fmt.Errorf("--plan: %w", err)}
	}
	p := new(shoal.Plan)
	if json.Unmarshal(text, p) != nil {
		return nil, wrongInput{fmt.Errorf("--plan: %s is no plan, make one with shoal plan --json", file)}
	}
	if err := p.Check(run, peers); err != nil {
		return nil, wrongInput{fmt.Errorf("--plan: %s: %w", file, err)}
	}
	return p, nil
}

// comparePlan has a run's report tell what came of the plan, if there is one.
func comparePlan(r *shoal.Report, p *shoal.Plan) {
	if p != nil {
		r.Planned(float64(p.RestBytes), math.Round(float64(p.RunTraffic)/float64(r.Steps)), p.StepSeconds)
	}
}
