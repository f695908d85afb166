package shoal

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"shoal/fsdp"
	"shoal/internal/report"
	"shoal/internal/sysinfo"
	"shoal/kernel"
)

// progress turns outcomes into the caller's Progress. When the last step is done, what follows it has begun.
func (m *member) progress() func(*fsdp.Outcome, []float64, []fsdp.StepHash) {
	p := Progress{Phase: Training, Steps: m.task.run.Train.Steps}
	p.Samples = m.history.copy().Samples
	start := time.Now()
	tell := func(phase Phase) {
		if m.cfg.Progress != nil {
			p.Phase, p.Elapsed, p.Peers = phase, time.Since(start), len(m.view.Load().Members)
			m.cfg.Progress(p)
		}
	}
	if m.out != nil {
		m.out.began = func() { tell(Saving) }
	}
	retries := 0
	return func(o *fsdp.Outcome, losses []float64, hashes []fsdp.StepHash) {
		if o.Kind == fsdp.EntryRetry {
			retries++
		}
		if o.Kind != fsdp.EntryCommit {
			return
		}
		if o.Skipped {
			m.cfg.Log.Warn("step without an update: its gradient is not finite", "step", o.Step+1, "in a row", o.Bad)
		}
		m.history.committed(o, losses, hashes)
		p.Step, p.Loss = o.Step+1, o.Loss
		p.Samples += o.Samples
		m.live.committed(p.Step, p.Samples, p.Loss, retries)
		m.fetchAhead(p.Step)
		tell(Training)
		if p.Step == p.Steps && m.task.eval != nil {
			tell(Evaluating)
		}
	}
}

// begins is the step with which this run begins or goes on.
func (m *member) begins() int {
	if m.task.resume == nil {
		return 0
	}
	return m.task.resume.Position.Step
}

// stats is this member's row of the report, as everybody gets it.
func (m *member) stats(res *fsdp.Result) []byte {
	meter, wire := m.device.Meter(), m.node.Stats()
	chunksSent, chunksReceived := m.chunkBytes()
	b, err := json.Marshal(report.Peer{
		Rank: m.view.Load().Rank, PeerID: m.host.Self(), Kind: kind, Backend: m.device.Name(),
		ParametersOwned: int64(res.Owned), ParameterBytes: res.ParameterBytes, GradientBytes: res.GradientBytes,
		OptimizerBytes: res.OptimizerBytes, BackupBytes: meter.Live(kernel.Backups),
		GatheredPeakBytes: meter.Peak(kernel.Gathered), GradientPeakBytes: meter.Peak(kernel.GradientWork) + res.GradientBytes,
		ActivationPeakBytes: meter.Peak(kernel.Activations), RSSPeakBytes: sysinfo.PeakRSS(),
		BytesSent: wire.BytesSent + wire.ControlSent + chunksSent, BytesReceived: wire.BytesReceived + wire.ControlReceived + chunksReceived,
		ControlSent: wire.ControlSent, ControlReceived: wire.ControlReceived,
		PayloadRawBytes: wire.PayloadRaw, PayloadWireBytes: wire.PayloadWire,
		Samples: res.Samples, StepsComputed: res.Computed, Retries: res.Retries,
		FirstMS: report.InMillis(res.First), Steps: res.Steps, TimeMS: report.NewTimes(res.Times), Timeline: report.NewTimeline(res.Timeline),
	})
	if err != nil {
		return nil
	}
	return b
}

// report is the run's report, from what every member has.
func (m *member) report(res *fsdp.Result) (*Report, error) {
	r := &Report{
		Version: report.Version, Name: m.task.run.Name, RunID: m.runID, Strategy: m.task.run.Mesh.Strategy,
		Reduce: m.task.run.Precision.Reduce, Steps: len(res.Losses), Loss: report.Losses(res.Losses), StateHash: res.StateHash, StepHashes: map[string]string{},
		KernelFingerprint: m.fingerprint, WallSeconds: res.Wall.Seconds(), ResumedStep: m.begins(),
		TimelineStep: fsdp.TimelineStep(m.task.run.Train.Steps) + 1,
	}
	if r.LossUnit = report.PerLabel; m.task.run.Model.Type == "gpt" {
		r.LossUnit = report.PerToken
	}
	for i := range m.view.Load().Members {
		var row report.Peer
		if i >= len(res.MemberRows) || json.Unmarshal(res.MemberRows[i], &row) != nil || row.Rank != i {
			return nil, fmt.Errorf("the log has no row of rank %d for the report (another version of shoal?)", i)
		}
		r.Peers = append(r.Peers, row)
		r.ModelParameters += row.ParametersOwned
	}
	if res.Wall > 0 {
		r.SamplesPerSecond = float64(max(0, res.RunSamples-res.Missed)) / res.Wall.Seconds()
	}
	for _, h := range res.StepHashes {
		r.StepHashes[strconv.Itoa(h.Step)] = h.Hash.String()
	}
	if res.EvalCount > 0 {
		r.Eval = &report.Eval{Accuracy: float64(res.Correct) / float64(res.EvalCount), Loss: report.Number(res.EvalLoss)}
	}
	r.Views = m.history.copy().Views
	r.Plan = m.planned(r)
	return r, nil
}
