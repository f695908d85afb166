package testnet

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"shoal/internal/data"
	"shoal/internal/report"
	"shoal/internal/runfile"
)

// needs is the first step that can't be committed without dealing with the loss of the victim, from 1.
func (h *happening) needs() int {
	if slices.Contains(afterCommit, h.phase) {
		return h.step + 1
	}
	return h.step
}

// answer is the time from a fault to the first commit on a survivor that the victim had no part in; of a join, from the
// start of the process to its own first commit. False if there was none.
func answer(h *happening, peers []*peerState) (time.Duration, bool) {
	first := int64(math.MaxInt64)
	for _, p := range peers {
		if (p == h.victim) != (h.Kind == Join) {
			continue
		}
		later, _ := slices.BinarySearchFunc(p.commits, h.at+1, func(c commit, at int64) int { return cmp.Compare(c.wall, at) })
		for _, c := range p.commits[later:] {
			if h.Kind == Join || c.step >= h.needs() {
				first = min(first, c.wall)
				break
			}
		}
	}
	return time.Duration(first - h.at), first < math.MaxInt64
}

// results says what came of the faults that happened. want is how many samples a step (from 1) must have.
func (n *network) results(first, last int, want func(step int) int64) []report.Fault {
	list := slices.DeleteFunc(slices.Clone(n.happenings), func(h *happening) bool { return !h.fired })
	slices.SortStableFunc(list, func(a, b *happening) int { return cmp.Compare(a.at, b.at) })
	rows := make([]report.Fault, len(list))
	for i, h := range list {
		rows[i] = report.Fault{Kind: h.Kind, Peer: h.victim.peer, Role: h.Role, Phase: h.phase, Step: h.step,
			NextCommitMS: report.Number(math.NaN())}
		if took, ok := answer(h, n.peers); ok {
			rows[i].NextCommitMS = report.Number(math.Round(float64(took)/1e4) / 100)
		}
	}
	if len(rows) > 0 {
		count(rows, list, n.peers, first, last, want)
	}
	return rows
}

// count adds to each fault what was lost or doubled from it to the next one. What was wrong before the first is counted
// there, too. Steps that the run went back behind were lost, though they were committed again.
func count(rows []report.Fault, list []*happening, peers []*peerState, first, last int, want func(step int) int64) {
	steps := tally(peers)
	at := list[0].at
	for step := first; step <= last; step++ {
		s, ok := steps[step]
		if ok {
			at = s.at
		}
		i := max(0, before(list, at)-1)
		if ok && s.undone > 0 {
			r := &rows[max(0, before(list, s.back)-1)]
			r.StepsLost += s.undone
			r.SamplesLost += int64(s.undone) * want(step)
		}
		switch r := &rows[i]; {
		case !ok:
			r.StepsLost++
			r.SamplesLost += want(step)
		case s.known:
			r.SamplesLost += max(0, want(step)-s.least)
			r.SamplesDoubled += max(0, s.most-want(step))
		}
	}
}

// before is how many of the faults happened before a time.
func before(list []*happening, at int64) int {
	i, _ := slices.BinarySearchFunc(list, at, func(h *happening, at int64) int { return cmp.Compare(h.at, at) })
	return i
}

// summed is what all peers say of one step.
type summed struct {
	at          int64 // when the first one knew of it
	known       bool  // anybody knows how many samples it had
	least, most int64
	undone      int   // how often the run went back behind it
	back        int64 // when it did so last
}

// tally puts together what the peers say of each step. A peer's samples of a step are what its count grew by; where a peer
// came in later, or has gone back to a checkpoint, its first step only says that the step was committed.
func tally(peers []*peerState) map[int]*summed {
	steps := map[int]*summed{}
	for _, p := range peers {
		mine, undone := map[int]int64{}, map[int]int{}
		var prev commit
		for i, c := range p.commits {
			s := steps[c.step]
			if s == nil {
				s = &summed{at: c.wall}
				steps[c.step] = s
			}
			s.at = min(s.at, c.wall)
			if i > 0 && c.step <= prev.step && c.samples <= prev.samples { // those since the checkpoint are counted from 0
				for step := c.step; step <= prev.step; step++ {
					if old := steps[step]; old != nil {
						undone[step]++
						old.undone, old.back = max(old.undone, undone[step]), max(old.back, c.wall)
						delete(mine, step)
					}
				}
				prev = c
				continue
			}
			if next := c.step == prev.step+1 || i > 0 && c.step <= prev.step; next && c.samples >= prev.samples {
				mine[c.step] += c.samples - prev.samples
			}
			prev = c
		}
		for step, samples := range mine {
			s := steps[step]
			if !s.known {
				s.known, s.least, s.most = true, samples, samples
			}
			s.least, s.most = min(s.least, samples), max(s.most, samples)
		}
	}
	return steps
}

// batches says how many samples each step (from 1) of a run has.
func batches(ctx context.Context, r *runfile.Run) (func(step int) int64, error) {
	n := r.Data.Samples
	if r.Data.Files() {
		files, err := data.OpenLocal(ctx, r.Data.Source, r.Data.Path)
		if err != nil {
			return nil, fmt.Errorf("testnet: %w", err)
		}
		defer files.Close()
		train, _, err := data.Open(ctx, files.Manifest(), files, data.Shape{Image: r.Model.Image, Classes: r.Model.Classes,
			Context: r.Model.Context, Vocab: r.Model.Vocab, Width: r.Data.Width, Eval: r.Data.Eval})
		if err != nil {
			return nil, fmt.Errorf("testnet: %w", err)
		}
		n = train.Len()
	}
	return func(step int) int64 {
		epoch := data.StepsPerEpoch(n, r.Train.Batch)
		if epoch == 0 {
			return 0
		}
		return int64(min(r.Train.Batch, n-(step-1)%epoch*r.Train.Batch))
	}, nil
}

// medianStep is the median time from one commit to the next, on the peer that saw most of them.
func medianStep(peers []*peerState) time.Duration {
	var most []commit
	for _, p := range peers {
		if len(p.commits) > len(most) {
			most = p.commits
		}
	}
	if len(most) < 2 {
		return 0
	}
	gaps := make([]int64, 0, len(most)-1)
	for i := range most[1:] {
		gaps = append(gaps, most[i+1].wall-most[i].wall)
	}
	slices.Sort(gaps)
	return time.Duration(gaps[len(gaps)/2])
}

// series are values over the faults of a soak.
type series struct{ x, y []float64 }

func (s *series) add(x, y float64) { s.x, s.y = append(s.x, x), append(s.y, y) }

// slope is how much the second half of a series grows per 100 of x, relative to its mean: the line of least squares. 0 if
// there is too little of it.
func (s *series) slope() float64 {
	x, y := s.x[len(s.x)/2:], s.y[len(s.y)/2:]
	var mx, my, xy, xx float64
	for i := range x {
		mx += x[i] / float64(len(x))
		my += y[i] / float64(len(x))
	}
	for i := range x {
		xy += (x[i] - mx) * (y[i] - my)
		xx += (x[i] - mx) * (x[i] - mx)
	}
	if xx == 0 || my == 0 {
		return 0
	}
	return 100 * xy / xx / my
}
