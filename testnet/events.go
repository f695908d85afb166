package testnet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"

	"shoal"
	"shoal/swarm"
)

// event is what a child tells: one of the fields.
type event struct {
	Self   string        `json:"self,omitempty"`
	Link   string        `json:"link,omitempty"`
	Wait   *waitEvent    `json:"wait,omitempty"`
	Step   *stepEvent    `json:"step,omitempty"`
	Report *shoal.Report `json:"report,omitempty"`
	Notice string        `json:"notice,omitempty"`
	Blame  *blameEvent   `json:"blame,omitempty"`
	At     *atEvent      `json:"at,omitempty"`
	View   *Standing     `json:"view,omitempty"`
}

// atEvent says that the child waits at a point.
type atEvent struct {
	Point string `json:"point"` // as the parent named it
	Step  int    `json:"step"`  // from 1
	Phase string `json:"phase"`
}

// blameEvent says which peer ended the run, as others saw it.
type blameEvent struct {
	Peer string `json:"peer"` // its id
	What string `json:"what"` // what became of it: "was lost"
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
	Wall    int64         `json:"wall_ns"` // when it was told, in Unix time
}

// Events writes a child's events. Its methods may be called from any goroutine. Where the parent can't be told, it is
// gone, which the child learns by the end of its standard input.
type Events struct {
	mu  sync.Mutex
	out *json.Encoder
}

// NewEvents writes to w.
func NewEvents(w io.Writer) *Events { return &Events{out: json.NewEncoder(w)} }

// Self tells the child's peer id.
func (e *Events) Self(peerID string) { _ = e.tell(event{Self: peerID}) }

// Failed tells who ended the run, if err says so.
func (e *Events) Failed(err error) {
	var stopped *swarm.StoppedError
	if !errors.As(err, &stopped) || stopped.Peer == "" {
		return
	}
	what := "was lost: " + stopped.Reason
	if _, rest, ok := strings.Cut(stopped.Reason, fmt.Sprintf(" (rank %d) ", stopped.Rank)); ok && !stopped.Local {
		what = rest
	}
	_ = e.tell(event{Blame: &blameEvent{stopped.Peer, what}})
}

// Link tells the link by which others can join.
func (e *Events) Link(link string) { _ = e.tell(event{Link: link}) }

// Wait tells how many peers are there.
func (e *Events) Wait(have, want int) { _ = e.tell(event{Wait: &waitEvent{have, want}}) }

// Progress tells of a step.
func (e *Events) Progress(p shoal.Progress) {
	s := stepEvent{Phase: p.Phase, Step: p.Step, Steps: p.Steps, Samples: p.Samples, Elapsed: p.Elapsed, Peers: p.Peers,
		Wall: time.Now().UnixNano()}
	if !math.IsNaN(p.Loss) && !math.IsInf(p.Loss, 0) {
		s.Loss = &p.Loss
	}
	_ = e.tell(event{Step: &s})
}

// Notice tells what a person should see.
func (e *Events) Notice(text string) { _ = e.tell(event{Notice: text}) }

// Standing tells what this peer is and knows at the moment.
func (e *Events) Standing(s Standing) { _ = e.tell(event{View: &s}) }

// at tells that this peer waits at a point.
func (e *Events) at(point pausePoint, step int, phase string) {
	_ = e.tell(event{At: &atEvent{point.String(), step, phase}})
}

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
