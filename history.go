package shoal

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"shoal/fsdp"
	"shoal/internal/report"
	"shoal/swarm"
)

// history is what has happened in a run up to now, for the report. A peer that joins late gets it from the others.
type history struct {
	mu sync.Mutex
	past
	undone bool            // the run has gone back, and this peer has yet to hear of its past from others
	ids    []string        // the block of lists of members
	texts  strings.Builder // the block of what is in them, and of reasons
}

// past is a history as it travels, in JSON. Losses has one element for each committed step.
type past struct {
	Losses     report.Losses   `json:"losses"`
	StepHashes []fsdp.StepHash `json:"step_hashes"`
	Views      []report.View   `json:"views"`
	Samples    int64           `json:"samples"` // of all committed steps
}

// committed adds a step. losses and hashes are those up to it, shared with the engine.
func (h *history) committed(o *fsdp.Outcome, losses []float64, hashes []fsdp.StepHash) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.Step != len(h.Losses) || len(losses) != o.Step+1 {
		return
	}
	h.Losses, h.StepHashes = losses, hashes
	h.Samples += o.Samples
}

// viewed adds a view whose first step is step.
func (h *history) viewed(v *swarm.View, step int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.Views); n > 0 && h.Views[n-1].Number >= v.Number {
		return
	}
	row := report.View{Number: v.Number, Reason: v.Reason, Step: step, Members: make([]string, len(v.Members))}
	for i, p := range v.Members {
		row.Members[i] = p.Peer
	}
	h.Views = append(h.Views, row)
	h.share(len(h.Views) - 1)
}

// share has a view take from those shortly before it what they have too, and keeps the rest in blocks: a long run has many views
// of few peers, and each small thing that stays holds on to all of the page that it lies in.
func (h *history) share(i int) {
	const near, block = 8, 256
	v := &h.Views[i]
	var known []string
	for _, before := range h.Views[max(0, i-near):i] {
		known = append(append(known, before.Members...), before.Reason)
	}
	keep := func(s string) string {
		if at := slices.Index(known, s); at >= 0 {
			return known[at]
		}
		return h.text(s)
	}
	v.Reason = keep(v.Reason)
	if i > 0 && slices.Equal(v.Members, h.Views[i-1].Members) {
		v.Members = h.Views[i-1].Members
		return
	}
	if cap(h.ids)-len(h.ids) < len(v.Members) {
		h.ids = make([]string, 0, max(block, len(v.Members)))
	}
	begin := len(h.ids)
	for _, id := range v.Members {
		h.ids = append(h.ids, keep(id))
	}
	v.Members = h.ids[begin:len(h.ids):len(h.ids)]
}

// text is s at the end of a block.
func (h *history) text(s string) string {
	const block = 8 << 10
	if h.texts.Cap()-h.texts.Len() < len(s) {
		h.texts = strings.Builder{}
		h.texts.Grow(max(block, len(s)))
	}
	begin := h.texts.Len()
	h.texts.WriteString(s)
	return h.texts.String()[begin:]
}

// set replaces what is known.
func (h *history) set(p past) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.past, h.ids, h.texts, h.undone = p, nil, strings.Builder{}, false
	for i := range h.Views {
		h.share(i)
	}
}

// undo says that the run has gone back behind what is known here: nothing is told to others until it is set again.
func (h *history) undo() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.undone = true
}

// unknown says that nothing is known of the first steps.
func (h *history) unknown(steps int) {
	p := past{Losses: make([]float64, steps)}
	for i := range p.Losses {
		p.Losses[i] = math.NaN()
	}
	h.set(p)
}

// copy is a snapshot.
func (h *history) copy() past {
	h.mu.Lock()
	defer h.mu.Unlock()
	return past{Losses: slices.Clone(h.Losses), StepHashes: slices.Clone(h.StepHashes), Views: slices.Clone(h.Views), Samples: h.Samples}
}

// encode is the history for others; nil if this peer can't tell it.
func (h *history) encode() []byte {
	h.mu.Lock()
	undone := h.undone
	h.mu.Unlock()
	if undone {
		return nil
	}
	b, err := json.Marshal(h.copy())
	if err != nil {
		return nil // plain fields only: can't happen
	}
	return b
}

const (
	historyTries = 5
	historyPause = 200 * time.Millisecond
)

// fetchHistory asks another member for what happened before step, this member's first, and keeps it. last is the outcome
// of the step before: a member that is asked may not have applied it yet.
func (m *member) fetchHistory(ctx context.Context, step int, last *fsdp.Outcome) error {
	var err error
	for range historyTries {
		var p past
		if p, err = m.askHistory(ctx); err == nil && len(p.Losses) == step-1 && last.Kind == fsdp.EntryCommit && last.Step == step-1 {
			p.Losses, p.Samples = append(p.Losses, last.Loss), p.Samples+last.Samples
		}
		if err == nil && len(p.Losses) == step {
			m.history.set(p)
			return nil
		}
		if err == nil {
			err = fmt.Errorf("it has %d steps of %d", len(p.Losses), step)
		}
		timer := time.NewTimer(historyPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("what happened in the run before: %w", err)
}

func (m *member) askHistory(ctx context.Context) (p past, err error) {
	b, err := m.node.History(ctx)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	return p, err
}
