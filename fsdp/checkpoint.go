package fsdp

import (
	"fmt"
	"slices"
	"strings"

	"shoal/kernel"
)

// A checkpoint is made between two steps: every member gives what it owns to its Saver (a backup where the owner keeps no
// files, see View.NoFiles) and says so in its next Ready; the
// entry that ends that attempt tells everybody whether the checkpoint is whole (Saved). A member that goes on from one has
// a Resume. Where checkpoints are kept is the Saver's affair.

// Position is where a run stands between two steps: what a member needs to go on, beside the parameters and the state of
// AdamW.
type Position struct {
	_         struct{} `cbor:",toarray"`
	Step      int      `json:"step"`       // committed steps, which is also the number of the next one
	Updates   int      `json:"updates"`    // of the parameters
	Bad       int      `json:"bad"`        // steps in a row, up to here, without an update
	Exponents []int16  `json:"exponents"`  // of the next step's sums, in the order of the tensors' names
	StateHash string   `json:"state_hash"` // of the parameters
}

// SavedFile is a file of a checkpoint.
type SavedFile struct {
	_      struct{} `cbor:",toarray"`
	Name   string
	Bytes  int64
	SHA256 [32]byte
}

// savedPart is what a member says of its part of a checkpoint when it is ready.
type savedPart struct {
	_      struct{} `cbor:",toarray"`
	Files  []SavedFile
	Failed string // why there are none, in words
}

// Saved is a checkpoint whose parts are with all owners, or the reason why there is none.
type Saved struct {
	_        struct{} `cbor:",toarray"`
	Position Position
	Files    []SavedFile // of all members
	Manifest string      // hash of the checkpoint's manifest, see Decider.Manifest
	Failed   string      // why it was abandoned, in words; there is no manifest then
}

// State is a kind of numbers that a checkpoint has for each element.
type State uint8

const (
	Params State = iota // float32 master parameters
	AdamM               // AdamW's mean gradient; not for frozen parameters
	AdamV               // AdamW's mean squared gradient; not for frozen parameters
)

// Piece is a part of a tensor: N elements from First on.
type Piece struct {
	Name     string
	First, N int
	Frozen   bool
}

// UnitPart is what a member saves of a unit.
type UnitPart struct {
	Unit   int // from 0
	Pieces []Piece
	dev    kernel.Device
	chunk  []byte
	at     [][3]kernel.Buffer // by piece and State: where the numbers are
}

// Part is what a member saves of a checkpoint. It is valid during Saver.Save only.
type Part struct {
	Step, Rank int
	Units      []UnitPart // those of which it saves something

	History    bool       // it saves what follows, too: one member does
	Losses     []float64  // of all steps so far
	StepHashes []StepHash // recorded so far
}

// Saver keeps this member's parts of checkpoints. The engine's goroutine calls it, between two steps.
type Saver interface {
	// Save writes a part, so that it lasts, and returns its files. An error abandons this checkpoint for all.
	Save(p *Part) ([]SavedFile, error)
	// Finish makes a checkpoint whole, or forgets the part of one that was abandoned. What it can't do it tells by itself:
	// training goes on.
	Finish(s *Saved)
}

// Resume is a checkpoint to go on from.
type Resume struct {
	Position
	// Read fills dst with a tensor's numbers from element first on.
	Read func(s State, name string, first int, dst []float32) error

	Losses     []float64  // of the steps before, for the Result
	StepHashes []StepHash // the same
}

// check says whether p fits a run of h on a model of n tensors.
func (p *Position) check(h *Hyper, n int) error {
	switch {
	case len(p.Exponents) != n:
		return fmt.Errorf("fsdp: the checkpoint has exponents of %d tensors, the model has %d", len(p.Exponents), n)
	case p.Step < 1 || p.Step > h.Steps || p.Updates < 0 || p.Updates > p.Step || p.Bad < 0 || p.Bad > p.Step-p.Updates:
		return fmt.Errorf("fsdp: the checkpoint is of step %d with %d updates, the run has %d steps", p.Step, p.Updates, h.Steps)
	case p.StateHash == "":
		return fmt.Errorf("fsdp: the checkpoint has no state hash")
	}
	return nil
}

// saveDue says whether a checkpoint is to be made of the state that the engine has now.
func (e *Engine) saveDue() bool {
	return e.cfg.SaveEvery > 0 && e.step > 0 && e.step%e.cfg.SaveEvery == 0
}

// save gives the own part to the Saver. The next Ready says how that went.
func (e *Engine) save() {
	e.saved = &savedPart{}
	if !e.place.keeps(e.rank) {
		return
	}
	first := 0
	for !e.place.keeps(first) {
		first++
	}
	if e.rank == first {
		for k := range e.place.Owner {
			if e.place.saver(k) < 0 {
				e.saved.Failed = fmt.Sprintf("nobody with files has %s", e.layout.name(k))
				return
			}
		}
	}
	if e.cfg.Saver == nil {
		if e.rank == first || e.place.owned() > 0 {
			e.saved.Failed = "it has no folder for checkpoints"
		}
		return
	}
	e.at(PhaseCheckpoint, -1)
	defer e.did(e.doing(TraceSave, 0))
	p := &Part{Step: e.step, Rank: e.rank, History: e.rank == first, Losses: e.res.Losses, StepHashes: e.res.StepHashes}
	largest := 0
	for i, u := range e.units {
		part := e.unitPart(i, u)
		for _, piece := range part.Pieces {
			largest = max(largest, piece.N)
		}
		if len(part.Pieces) > 0 {
			p.Units = append(p.Units, part)
		}
	}
	chunk := make([]byte, 4*min(largest, saveChunk))
	e.dev.Meter().Add(kernel.Gathered, int64(len(chunk)))
	defer e.dev.Meter().Add(kernel.Gathered, -int64(len(chunk)))
	for i := range p.Units {
		p.Units[i].chunk = chunk
	}
	files, err := e.cfg.Saver.Save(p)
	if err != nil {
		e.saved.Failed = short(err.Error())
	} else {
		e.saved.Files = files
	}
}

// short keeps what goes into the log short.
func short(s string) string { return s[:min(len(s), 500)] }

func (e *Engine) unitPart(i int, u *unit) UnitPart {
	part := UnitPart{Unit: i, dev: e.dev}
	add := func(h *holding, s Span, off, n, at int) {
		part.Pieces = append(part.Pieces, Piece{Name: s.Param.Name, First: off - s.Off, N: n, Frozen: s.Frozen})
		b := [3]kernel.Buffer{h.p.Slice(at, n)}
		if !s.Frozen {
			b[AdamM], b[AdamV] = h.m.Slice(at, n), h.v.Slice(at, n)
		}
		part.at = append(part.at, b)
	}
	u.own.each(&u.UnitLayout, func(s Span, off, n, at int) { add(u.own, s, off, n, at) })
	for _, r := range e.place.runs(i, func(k int) bool { return e.place.Owner[k] != e.rank && e.place.saver(k) == e.rank }) {
		u.within(r.off, r.off+r.n, func(s Span, off, n int) {
			for done := 0; done < n; {
				at, have := u.backup.find(off + done)
				have = min(have, n-done)
				add(u.backup, s, off+done, have, at)
				done += have
			}
		})
	}
	return part
}

// saveChunk is the number of elements that are brought to the host at once to be saved: little beside any training, and
// enough for a disk.
const saveChunk = 1 << 16

// Values calls f with the numbers of piece i, as float32 in little endian, a chunk at a time from element first of the
// tensor on; data is valid during the call only.
func (p *UnitPart) Values(i int, s State, f func(first int, data []byte) error) error {
	piece, from := p.Pieces[i], p.at[i][s]
	for done := 0; done < piece.N; done += saveChunk {
		n := min(saveChunk, piece.N-done)
		if err := p.dev.Download(p.chunk[:4*n], from.Slice(done, n)); err != nil {
			return err
		}
		if err := f(piece.First+done, p.chunk[:4*n]); err != nil {
			return err
		}
	}
	return nil
}

// byName orders what is in the order of the layout's tensors by their names: a checkpoint doesn't depend on how a model is
// wrapped. fromName is its inverse.
func (l *Layout) byName(exps []int16) []int16 {
	out := make([]int16, 0, len(exps))
	for _, t := range l.names() {
		out = append(out, exps[t])
	}
	return out
}

func (l *Layout) fromName(exps []int16) []int16 {
	out := make([]int16, len(exps))
	for i, t := range l.names() {
		out[t] = exps[i]
	}
	return out
}

// names lists the tensors by name.
func (l *Layout) names() []int {
	order := make([]int, len(l.Tensors))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(l.Tensors[a], l.Tensors[b]) })
	return order
}

// saved is what becomes of the checkpoint at p that the members were asked for, if they were.
func (d *Decider) saved(p Position, members []ready) *Saved {
	s := &Saved{Position: p}
	asked := false
	for r := range members {
		part := members[r].Saved
		switch {
		case part == nil:
			part = &savedPart{Failed: "it saved nothing"}
		default:
			asked = true
		}
		if part.Failed != "" && s.Failed == "" {
			s.Failed = fmt.Sprintf("rank %d: %s", r, short(part.Failed))
		}
		s.Files = append(s.Files, part.Files...)
	}
	if !asked {
		return nil
	}
	s.Position.Exponents = d.Layout.byName(p.Exponents)
	if s.Failed == "" && d.Manifest != nil {
		var err error
		if s.Manifest, err = d.Manifest(s); err != nil {
			s.Failed = short(err.Error())
		}
	}
	if s.Failed != "" {
		s.Files, s.Manifest = nil, ""
	}
	return s
}

// loadState fills in what a resumed run has of AdamW's state.
func (e *Engine) loadState(u *unit, h *holding) (err error) {
	chunk := make([]float32, min(h.trained, saveChunk))
	for s, to := range map[State]kernel.Buffer{AdamM: h.m, AdamV: h.v} {
		h.each(&u.UnitLayout, func(sp Span, off, n, at int) {
			if sp.Frozen {
				return
			}
			for done := 0; done < n && err == nil; done += len(chunk) {
				c := chunk[:min(len(chunk), n-done)]
				err = e.cfg.Resume.Read(s, sp.Param.Name, off-sp.Off+done, c)
				e.dev.Upload(to.Slice(at+done, len(c)), kernel.Bytes(c))
			}
		})
	}
	return err
}
