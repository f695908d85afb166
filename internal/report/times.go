package report

import (
	"math"
	"time"

	"shoal/fsdp"
)

// Times are milliseconds that a peer spent, which together are the time that passed.
type Times struct {
	Compute    float64 `json:"compute"`
	Parameters float64 `json:"parameters"`
	Reduce     float64 `json:"reduce"`
	Commit     float64 `json:"commit"`
	Update     float64 `json:"update"`
	Idle       float64 `json:"idle"`
}

// A TimePart is one of a peer's Times.
type TimePart struct {
	Name string
	MS   float64
}

// Span is something that a peer did in one step.
type Span struct {
	Kind    string  `json:"kind"`
	Unit    int     `json:"unit"`
	StartMS float64 `json:"start_ms"` // since the commit of the step before
	EndMS   float64 `json:"end_ms"`
}

// NewTimes are the engine's times.
func NewTimes(t fsdp.Times) Times {
	return Times{Compute: InMillis(t.Compute), Parameters: InMillis(t.Parameters), Reduce: InMillis(t.Reduce),
		Commit: InMillis(t.Commit), Update: InMillis(t.Update), Idle: InMillis(t.Idle)}
}

// NewTimeline are the engine's events of one step.
func NewTimeline(events []fsdp.Event) []Span {
	spans := make([]Span, len(events))
	for i, e := range events {
		spans[i] = Span{string(e.Kind), e.Unit, InMillis(e.Start), InMillis(e.End)}
	}
	return spans
}

// InMillis is d in milliseconds, to the microsecond.
func InMillis(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e3 }

// Parts are the times in the order in which they are shown.
func (t Times) Parts() []TimePart {
	return []TimePart{{"compute", t.Compute}, {"parameters", t.Parameters}, {"reduce", t.Reduce}, {"commit", t.Commit},
		{"update", t.Update}, {"idle", t.Idle}}
}

// Sum is all of them.
func (t Times) Sum() float64 {
	return t.Compute + t.Parameters + t.Reduce + t.Commit + t.Update + t.Idle
}

// StepMS are a peer's milliseconds in an average one of its steps; zero if it had none.
func (p *Peer) StepMS() Times {
	if p.Steps < 1 {
		return Times{}
	}
	n, t := float64(p.Steps), p.TimeMS
	return Times{t.Compute / n, t.Parameters / n, t.Reduce / n, t.Commit / n, t.Update / n, t.Idle / n}
}

// StepSeconds is how long an average step after the first one took, the mean of all peers. The first one is no example: some peers
// wait in it for others that start, and it is tried twice, the first time to learn the exponents. It is the run's step if there was
// no other.
func (r *Report) StepSeconds() float64 {
	ms := 0.0
	for i := range r.Peers {
		p := &r.Peers[i]
		if p.Steps == 0 {
			return r.WallSeconds / float64(r.committed())
		}
		ms += p.StepMS().Sum() / float64(len(r.Peers))
	}
	return ms / 1e3
}
