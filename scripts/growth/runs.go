package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"shoal"
	"shoal/internal/report"
	"shoal/internal/runfile"
	"shoal/internal/sysinfo"
	"shoal/testnet"
)

// A setting is one run that is measured.
type setting struct {
	peers int
	run   *shoal.RunFile
}

// peerRuns are the default run's model with more and more peers. There are four microbatches for each of sixteen, so that
// few get none for being a little slower.
func peerRuns() (list []setting) {
	for _, n := range []int{1, 2, 4, 8, 16} {
		r := bare(50)
		r.Train.Microbatch = 1
		list = append(list, setting{n, r})
	}
	return list
}

// sizeRuns are models of about 1, 4 and 16 million parameters, with four peers.
func sizeRuns() (list []setting) {
	for i, width := range []int{128, 256, 512} {
		r := bare([]int{60, 30, 10}[i])
		r.Model.Dim, r.Model.Depth = width, 5
		r.Train.Batch, r.Train.Microbatch = 32, 2
		list = append(list, setting{4, r})
	}
	return list
}

// bare is the default run of fewer steps, without packing and evaluation, so that bytes are those of training.
func bare(steps int) *shoal.RunFile {
	r := runfile.Default()
	r.Train.Steps, r.Train.Warmup = steps, min(steps, r.Train.Warmup)
	r.Data.Eval = 0
	r.Wire.Packing = "off"
	return &r
}

// A point is what was measured of a setting. Bytes are a peer's, in a step where they travel.
type point struct {
	peers      int
	parameters float64
	rate       float64 // samples per second of all peers
	cpu        float64 // seconds of all peers' processors for a sample
	rest, most float64 // memory at rest, and at most in a step: of the peer that holds most
	resident   float64 // peak of a process, as the system counts it
	received   float64 // the mean of all peers
	computed   float64 // the part of all peers' steps in which they computed
	formula    float64 // what docs/traffic.md says of received: who computes nothing fetches nothing and gives no gradient
	control    float64 // of received: the log, its views, and heartbeats
	backend    string
}

// runner starts runs as processes of one program.
type runner struct {
	program string
	log     io.Writer
}

func (r *runner) all(ctx context.Context, settings []setting) (points []point, err error) {
	for _, s := range settings {
		p, err := r.measure(ctx, s)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(r.log, "%s, %.0f parameters: %.0f samples/s, %.2f ms of CPU a sample, received a step %s, formula %s, control %s\n", peers(p.peers),
			p.parameters, p.rate, 1000*p.cpu, report.Bytes(int64(p.received)), report.Bytes(int64(p.formula)), report.Bytes(int64(p.control)))
		points = append(points, p)
	}
	return points, nil
}

// measure trains a setting twice, once for a single step only: what that takes of the processors is the start's.
func (r *runner) measure(ctx context.Context, s setting) (point, error) {
	short := *s.run
	short.Train.Steps, short.Train.Warmup = 1, 1
	_, start, err := r.train(ctx, setting{s.peers, &short})
	if err != nil {
		return point{}, err
	}
	got, all, err := r.train(ctx, s)
	if err != nil {
		return point{}, err
	}
	p, err := newPoint(got)
	samples := s.run.Train.Batch * (s.run.Train.Steps - 1)
	p.cpu = (all - start).Seconds() / float64(samples)
	return p, err
}

// train has peers with a core each, and returns a run's report and what its processes took of the processors.
func (r *runner) train(ctx context.Context, s setting) (*shoal.Report, time.Duration, error) {
	before := sysinfo.ChildrenCPU()
	got, err := testnet.Run(ctx, testnet.Config{RunFile: s.run, Peers: s.peers, Cores: s.peers, Program: r.program})
	if err != nil {
		return nil, 0, fmt.Errorf("%s, width %d: %w", peers(s.peers), s.run.Model.Dim, err)
	}
	return got, sysinfo.ChildrenCPU() - before, nil
}

// sumBytes is what an element of a sum takes on its way to a backup: the runs' sums are in fixed32, and they have one backup.
const sumBytes = 4

// newPoint is what a report says.
func newPoint(r *shoal.Report) (p point, err error) {
	if r.Plan == nil || len(r.Views) != 1 {
		return p, fmt.Errorf("a run of %s had %d views: this machine is too busy", peers(len(r.Peers)), len(r.Views))
	}
	p = point{peers: len(r.Peers), parameters: float64(r.ModelParameters), rate: r.SamplesPerSecond, received: r.Plan.Received.Measured,
		backend: r.Peers[0].Backend}
	for i := range r.Peers {
		q := &r.Peers[i]
		rest := float64(q.ParameterBytes + q.GradientBytes + q.OptimizerBytes + q.BackupBytes)
		p.rest = max(p.rest, rest)
		p.most = max(p.most, rest+float64(q.GatheredPeakBytes+q.GradientPeakBytes-q.GradientBytes+q.ActivationPeakBytes))
		p.resident = max(p.resident, float64(q.RSSPeakBytes))
		p.control += float64(q.ControlReceived) / float64(len(r.Peers)*r.Steps)
		p.computed += float64(q.StepsComputed) / float64(len(r.Peers)*r.Steps)
	}
	backups := 0.0 // their part of a peer's bytes, which does not depend on who computes
	if p.peers > 1 {
		backups = sumBytes * p.parameters / float64(p.peers)
	}
	p.formula = backups + p.computed*(r.Plan.Received.Planned-backups)
	return p, nil
}

func peers(n int) string {
	if n == 1 {
		return "1 peer"
	}
	return fmt.Sprintf("%d peers", n)
}
