package shoal

import (
	"math"
	"slices"

	"shoal/fsdp"
	"shoal/internal/place"
	"shoal/internal/report"
)

// forecastSteps is how many steps the mean of a step's bytes is taken over, at most: turns go round in fewer.
const forecastSteps = 128

// forecast is what the formulas of docs/memory.md and docs/traffic.md say of the members of a view that lasts from a run's
// first step to its end.
type forecast struct {
	rest     int64   // bytes that a member holds between steps: the most of any
	need     int64   // bytes that it needs at one moment, without activations: the most of any
	received float64 // bytes of tensors that it receives in a step: the mean of all
	run      float64 // the same in the run, with the retry of the first step and the evaluation
}

// equals are the members' views of a run that begins with n of them who offer the same.
func (t *task) equals(n int) []fsdp.View {
	at := place.Start(t.ranges(), slices.Repeat([]place.Peer{{Weight: 1, Keep: true}}, n), t.backups())
	return viewsOf(n, at)
}

// viewsOf is a view as each of its n members sees it.
func viewsOf(n int, at place.Map) (views []fsdp.View) {
	for r := range n {
		views = append(views, fsdp.View{Rank: r, Size: n, Owner: at.Owner, Backups: at.Backups})
	}
	return views
}

// seen is the training as the member with this view has it.
func (t *task) seen(v *fsdp.View) fsdp.Config {
	c := t.training()
	c.Backups, c.Start.View = t.backups(), v
	return c
}

func (t *task) forecast(views []fsdp.View) (f forecast) {
	var retried []int
	if fsdp.Format(t.run.Precision.Reduce).Exact() {
		retried = []int{0}
	}
	members, steps := float64(len(views)), t.run.Train.Steps
	for i := range views {
		c := t.seen(&views[i])
		rest, need := fsdp.Need(&c)
		f.rest, f.need = max(f.rest, rest), max(f.need, need)
		c.Hyper.Steps = min(steps, forecastSteps)
		whole := float64(fsdp.Received(&c, retried))
		c.Eval = nil
		step := float64(fsdp.Received(&c, nil)) / float64(c.Hyper.Steps)
		f.received += step / members
		f.run += (whole + step*float64(steps-c.Hyper.Steps)) / members
	}
	return f
}

// planned compares a run with what its formulas say, where they hold: in a run of one view.
func (m *member) planned(r *Report) *report.Plan {
	if len(r.Views) != 1 || r.ResumedStep > 0 || r.Steps == 0 {
		return nil
	}
	v := m.view.Load()
	f := m.task.forecast(viewsOf(len(v.Members), v.Place))
	rest, received := r.Measured()
	return &report.Plan{Rest: report.Compared{Planned: float64(f.rest), Measured: rest},
		Received: report.Compared{Planned: math.Round(f.run / float64(r.Steps)), Measured: math.Round(received)}}
}
