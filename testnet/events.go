package testnet

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"shoal"
)

// event is what a child tells: one of the fields.
type event struct {
	Link   string        `json:"link,omitempty"`
	Wait   *waitEvent    `json:"wait,omitempty"`
	Step   *stepEvent    `json:"step,omitempty"`
	Report *shoal.Report `json:"report,omitempty"`
	Notice string        `json:"notice,omitempty"`
}

type waitEvent struct {
	Have int `json:"have"`
	Want int `json:"want"`
}

// stepEvent is a shoal.Progress; JSON has no NaN, so a loss that is not finite is absent.
type stepEvent struct {
	Phase   shoal.Phase   `json:"phase"`
	Step    int           `json:"step"`
	Steps   int           `json:"steps"`
	Loss    *float64      `json:"loss,omitempty"`
	Samples int64         `json:"samples"`
	Elapsed time.Duration `json:"elapsed_ns"`
	Peers   int           `json:"peers"`
}

// Events writes a child's events. Its methods may be called from any goroutine. Where the parent can't be told, it is
// gone, which the child learns by the end of its standard input.
type Events struct {
	mu  sync.Mutex
	out *json.Encoder
}

// NewEvents writes to w.
func NewEvents(w io.Writer) *Events { return &Events{out: json.NewEncoder(w)} }

// Link tells the link by which others can join.
func (e *Events) Link(link string) { _ = e.tell(event{Link: link}) }

// Wait tells how many peers are there.
func (e *Events) Wait(have, want int) { _ = e.tell(event{Wait: &waitEvent{have, want}}) }

// Progress tells of a step.
func (e *Events) Progress(p shoal.Progress) {
	s := stepEvent{Phase: p.Phase, Step: p.Step, Steps: p.Steps, Samples: p.Samples, Elapsed: p.Elapsed, Peers: p.Peers}
	if !math.IsNaN(p.Loss) && !math.IsInf(p.Loss, 0) {
		s.Loss = &p.Loss
	}
	_ = e.tell(event{Step: &s})
}

// Notice tells what a person should see.
func (e *Events) Notice(text string) { _ = e.tell(event{Notice: text}) }

// Report tells the result.
func (e *Events) Report(r *shoal.Report) error { return e.tell(event{Report: r}) }

func (e *Events) tell(ev event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.out.Encode(ev); err != nil {
		return fmt.Errorf("testnet: tell the parent: %w", err)
	}
	return nil
}

func (s *stepEvent) progress() shoal.Progress {
	p := shoal.Progress{Phase: s.Phase, Step: s.Step, Steps: s.Steps, Loss: math.NaN(), Samples: s.Samples, Elapsed: s.Elapsed, Peers: s.Peers}
	if s.Loss != nil {
		p.Loss = *s.Loss
	}
	return p
}
