// Package report is what a run tells when it is over: the Report, its JSON, a table for terminals, and a folder with a
// page and the loss curve. docs/report.md explains every field. Only Report and Table exist in the browser.
package report

import (
	"encoding/json"
	"math"

	"shoal/fsdp"
)

// Version is the version of the JSON. It grows when a field changes its meaning or goes away.
const Version = 1

// Report is a finished run. Its JSON is an interface.
type Report struct {
	Version           int               `json:"version"`
	Name              string            `json:"name"` // of the run file
	RunID             string            `json:"run_id"`
	Strategy          string            `json:"strategy"`
	Reduce            string            `json:"reduce"` // precision.reduce of the run file
	ModelParameters   int64             `json:"model_parameters"`
	Steps             int               `json:"steps"`
	ResumedStep       int               `json:"resumed_step"` // of the checkpoint that the run went on from; 0 if it began afresh
	Loss              Losses            `json:"loss"`         // mean loss of each step's global batch
	LossUnit          string            `json:"loss_unit"`    // PerToken or PerLabel
	Eval              *Eval             `json:"eval"`         // nil if nothing was held out
	StateHash         string            `json:"state_hash"`   // hex
	StepHashes        map[string]string `json:"step_hashes"`
	KernelFingerprint string            `json:"kernel_fingerprint"`
	WallSeconds       float64           `json:"wall_seconds"` // from the first step's start to the last one's end; the first of the peer that tells
	SamplesPerSecond  float64           `json:"samples_per_second"`
	TimelineStep      int               `json:"timeline_step"` // the step that the peers' timelines show, from 1
	Peers             []Peer            `json:"peers"`         // by rank
	Views             []View            `json:"views"`
	Plan              *Plan             `json:"plan"`   // nil where the formulas don't hold, since the views changed
	Faults            []Fault           `json:"faults"` // that testnet made, in the order in which they happened
	Soak              *Soak             `json:"soak"`   // nil if it was none
}

// Warning says in words what the hashes do not promise, if precision.reduce makes them depend on the peers.
func (r *Report) Warning() string { return fsdp.Format(r.Reduce).Warning() }

// Units of a loss.
const (
	PerToken = "nats per token" // of a language model, which predicts each token's successor
	PerLabel = "nats per label"
)

// Eval is how the trained model does on held-out samples.
type Eval struct {
	Accuracy float64 `json:"accuracy"` // 0 to 1
	Loss     Number  `json:"loss"`     // mean per label
}

// Peer is one member's part in the run. Bytes of memory are sums over live buffers.
type Peer struct {
	Rank                int     `json:"rank"`
	PeerID              string  `json:"peer_id"`
	Kind                string  `json:"kind"`
	Backend             string  `json:"backend"`
	ParametersOwned     int64   `json:"parameters_owned"`
	ParameterBytes      int64   `json:"parameter_bytes"`
	GradientBytes       int64   `json:"gradient_bytes"`
	OptimizerBytes      int64   `json:"optimizer_bytes"`
	BackupBytes         int64   `json:"backup_bytes"`
	GatheredPeakBytes   int64   `json:"gathered_peak_bytes"`
	GradientPeakBytes   int64   `json:"gradient_peak_bytes"`
	ActivationPeakBytes int64   `json:"activation_peak_bytes"`
	RSSPeakBytes        int64   `json:"rss_peak_bytes"`
	BytesSent           int64   `json:"bytes_sent"`
	BytesReceived       int64   `json:"bytes_received"`
	ControlSent         int64   `json:"control_bytes_sent"`
	ControlReceived     int64   `json:"control_bytes_received"`
	PayloadRawBytes     int64   `json:"payload_raw_bytes"`
	PayloadWireBytes    int64   `json:"payload_wire_bytes"`
	Samples             int64   `json:"samples"`
	StepsComputed       int     `json:"steps_computed"` // committed ones in which it computed any samples
	Retries             int     `json:"retries"`
	FirstMS             float64 `json:"first_ms"` // milliseconds of its first committed step
	Steps               int     `json:"steps"`    // committed ones that it took part in after that
	TimeMS              Times   `json:"time_ms"`  // of all of these
	Timeline            []Span  `json:"timeline"` // of the step TimelineStep
}

// View is one member list of the run.
type View struct {
	Number  uint64   `json:"number"`
	Step    int      `json:"step"`    // the first step that ran in it
	Members []string `json:"members"` // peer ids by rank
	Reason  string   `json:"reason"`
}

// Number is a float64 that JSON can hold when it is not finite: as null, which reads back as NaN.
type Number float64

func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

func (n *Number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}

// Losses are one loss per step. A step whose loss is not finite is null in JSON.
type Losses []float64

func (l Losses) MarshalJSON() ([]byte, error) {
	numbers := make([]Number, len(l))
	for i, v := range l {
		numbers[i] = Number(v)
	}
	return json.Marshal(numbers)
}

func (l *Losses) UnmarshalJSON(text []byte) error {
	var numbers []Number
	if err := json.Unmarshal(text, &numbers); err != nil {
		return err
	}
	*l = make(Losses, len(numbers))
	for i, v := range numbers {
		(*l)[i] = float64(v)
	}
	return nil
}

// JSON is the content of report.json. Lists are never null, so that readers need not check.
func (r Report) JSON() ([]byte, error) {
	r.Version = Version
	if r.Loss == nil {
		r.Loss = Losses{}
	}
	if r.StepHashes == nil {
		r.StepHashes = map[string]string{}
	}
	r.Peers = append([]Peer{}, r.Peers...)
	for i := range r.Peers {
		r.Peers[i].Timeline = append([]Span{}, r.Peers[i].Timeline...)
	}
	r.Views = append([]View{}, r.Views...)
	r.Faults = append([]Fault{}, r.Faults...)
	for i := range r.Views {
		r.Views[i].Members = append([]string{}, r.Views[i].Members...)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	return append(text, '\n'), err
}

// samples is the number of samples that all peers computed.
func (r *Report) samples() int64 {
	var n int64
	for i := range r.Peers {
		n += r.Peers[i].Samples
	}
	return n
}

// lastLoss is the last step's loss, NaN without one.
func (r *Report) lastLoss() float64 {
	if len(r.Loss) == 0 {
		return math.NaN()
	}
	return r.Loss[len(r.Loss)-1]
}
