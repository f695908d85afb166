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

// past is a history, or a part of one as it travels, in JSON. Losses has one element for each committed step.
type past struct {
	Losses     report.Losses   `json:"losses"`
	StepHashes []fsdp.StepHash `json:"step_hashes"`
	Views      []report.View   `json:"views"`
	Samples    int64           `json:"samples"` // of all committed steps, also of those behind the part
}

// known is what somebody who asks for a part has already: so many steps, and the views up to one.
type known struct {
	Steps int    `json:"steps"`
	View  uint64 `json:"view"`
}

// A part has at most so many steps and views, so that telling a newcomer of a long run takes no more memory than telling
// one of a short run.
const (
	partSteps = 4096
	partViews = 256
)

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
	var texts []string
	for _, before := range h.Views[max(0, i-near):i] {
		texts = append(append(texts, before.Members...), before.Reason)
	}
	keep := func(s string) string {
		if at := slices.Index(texts, s); at >= 0 {
			return texts[at]
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

// encode is the part of the history that follows what somebody knows; nil if this peer can't tell it.
func (h *history) encode(ask []byte) []byte {
	var k known
	if json.Unmarshal(ask, &k) != nil {
		return nil
	}
	p, ok := h.part(k)
	if !ok {
		return nil
	}
	b, err := json.Marshal(p)
	if err != nil {
		return nil // plain fields only: can't happen
	}
	return b
}

func (h *history) part(k known) (p past, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.undone || k.Steps < 0 || k.Steps > len(h.Losses) {
		return past{}, false
	}
	end := min(len(h.Losses), k.Steps+partSteps)
	p.Losses, p.Samples = h.Losses[k.Steps:end:end], h.Samples
	for _, s := range h.StepHashes {
		if (s.Step > k.Steps || k.Steps == 0) && s.Step <= end {
			p.StepHashes = append(p.StepHashes, s)
		}
	}
	for _, v := range h.Views {
		if v.Number > k.View && len(p.Views) < partViews {
			p.Views = append(p.Views, v)
		}
	}
	return p, true
}

const (
	historyTries = 5
	historyPause = 200 * time.Millisecond
)

// fetchHistory asks other members for what happened before this member's first step and view, and keeps it. last is the
// outcome of the step before: a member that is asked may not have applied it yet.
func (m *member) fetchHistory(ctx context.Context, first known, last *fsdp.Outcome) error {
	var err error
	for range historyTries {
		var p past
		tell := func(ask []byte) ([]byte, error) { return m.node.History(ctx, ask) }
		if p, err = collect(tell, first); err == nil && len(p.Losses) == first.Steps-1 && last.Kind == fsdp.EntryCommit && last.Step == first.Steps-1 {
			p.Losses, p.Samples = append(p.Losses, last.Loss), p.Samples+last.Samples
		}
		if err == nil && len(p.Losses) == first.Steps {
			m.history.set(p)
			return nil
		}
		if err == nil {
			err = fmt.Errorf("it has %d steps of %d", len(p.Losses), first.Steps)
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

// collect puts together what others tell, part by part. There can be at most so much.
func collect(tell func(ask []byte) ([]byte, error), most known) (p past, err error) {
	for {
		ask, err := json.Marshal(p.known())
		if err != nil {
			return past{}, err
		}
		b, err := tell(ask)
		if err != nil {
			return past{}, err
		}
		var next past
		if err := json.Unmarshal(b, &next); err != nil {
			return past{}, err
		}
		if more, err := p.add(&next, most); err != nil || !more {
			return p, err
		}
	}
}

func (p *past) known() known {
	k := known{Steps: len(p.Losses)}
	if n := len(p.Views); n > 0 {
		k.View = p.Views[n-1].Number
	}
	return k
}

// add puts a part behind p. False if there is nothing in it: it was the last.
func (p *past) add(next *past, most known) (more bool, err error) {
	view := p.known().View
	for _, v := range next.Views {
		if v.Number <= view || v.Number > most.View {
			return false, fmt.Errorf("view %d is told of behind view %d, with view %d to come", v.Number, view, most.View)
		}
		view = v.Number
	}
	if n := len(p.Losses) + len(next.Losses); n > most.Steps || len(next.StepHashes) > len(next.Losses)+1 {
		return false, fmt.Errorf("%d steps are told of and %d hashes, %d steps have been", n, len(next.StepHashes), most.Steps)
	}
	p.Losses, p.StepHashes, p.Views = append(p.Losses, next.Losses...), append(p.StepHashes, next.StepHashes...), append(p.Views, next.Views...)
	p.Samples = next.Samples
	return len(next.Losses)+len(next.Views) > 0, nil
}
