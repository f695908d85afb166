package report

// Plan is what was known before the run, beside what came of it.
type Plan struct {
	Rest     Compared  `json:"rest_bytes"`     // that a peer holds between steps, the most of any
	Received Compared  `json:"received_bytes"` // that a peer receives per step before packing, the mean of all
	Step     *Compared `json:"step_seconds"`   // StepSeconds; nil if nobody planned it
}

// Compared is one figure of a plan.
type Compared struct {
	Planned  float64 `json:"planned"`
	Measured float64 `json:"measured"`
}

// Off is how much more was measured than planned, as a share of what was planned.
func (c Compared) Off() float64 {
	if c.Measured == c.Planned { // also 0, of one peer alone
		return 0
	}
	return c.Measured/c.Planned - 1
}

// Measured is what Plan compares: the most bytes that any peer held between steps, and how many bytes a peer received per
// step, the mean of all, as if nothing had been packed. The bytes that all save are those that all send less.
func (r *Report) Measured() (rest, received float64) {
	for i := range r.Peers {
		p := &r.Peers[i]
		rest = max(rest, float64(p.rest()))
		received += float64(p.BytesReceived + p.PayloadRawBytes - p.PayloadWireBytes)
	}
	return rest, received / float64(len(r.Peers)) / float64(r.committed())
}

// Planned compares what happened with a plan that was made before the run: bytes that a peer holds between steps and that it
// receives per step, and the seconds of a step. Without a Plan it does nothing.
func (r *Report) Planned(rest, received, step float64) {
	if p := r.Plan; p != nil {
		p.Rest.Planned, p.Received.Planned = rest, received
		p.Step = &Compared{Planned: step, Measured: r.StepSeconds()}
	}
}

// committed is how many steps the run's times and bytes are those of.
func (r *Report) committed() int { return r.Steps - r.ResumedStep }
