//go:build !js

package report

import (
	"fmt"
	"slices"
	"strings"

	"shoal/fsdp"
)

// A timing is the page's picture of where the time of a step goes: for each peer a bar of an average step, and a lane of
// one step, with what the peer did above what travelled meanwhile.
type timing struct {
	Bars      []timeBar
	BarTicks  []tick
	Lanes     []timeLane
	LaneTicks []tick
}

// A timeBar is a peer's average step.
type timeBar struct {
	*Peer
	Step   float64 // milliseconds
	Pieces []timePiece
}

// A timePiece is a part of a bar, in thousandths of the longest bar.
type timePiece struct {
	TimePart
	Share     float64 // of the peer's step
	At, Width float64
}

// A timeLane is what a peer did in one step, as SVG paths in a picture of 1000 by 16.
type timeLane struct {
	*Peer
	Paths []lanePath
}

// A lanePath is all that a lane has in one colour and row.
type lanePath struct{ Class, D string }

// timing is nil if no peer has told of its time.
func (r *Report) timing() *timing {
	t := new(timing)
	longest := 0.0
	for i := range r.Peers {
		longest = max(longest, r.Peers[i].StepMS().Sum())
	}
	if !drawn(longest) {
		return nil
	}
	for i := range r.Peers {
		t.Bars = append(t.Bars, r.Peers[i].timeBar(longest))
	}
	t.BarTicks = timeTicks(longest)
	t.lanes(r.Peers)
	return t
}

// drawn says whether an axis can be so many milliseconds long.
func drawn(ms float64) bool { return ms > 1/drawable && ms < drawable }

// drawn says whether a lane can show a span.
func (s *Span) drawn() bool { return s.StartMS >= 0 && s.EndMS >= s.StartMS && drawn(s.EndMS) }

func (p *Peer) timeBar(longest float64) timeBar {
	step := p.StepMS()
	b := timeBar{Peer: p, Step: step.Sum()}
	at := 0.0
	for _, part := range step.Parts() {
		piece := timePiece{TimePart: part, At: at, Width: 1000 * max(0, part.MS) / longest}
		if b.Step > 0 {
			piece.Share = part.MS / b.Step
		}
		b.Pieces = append(b.Pieces, piece)
		at += piece.Width
	}
	return b
}

// lanes draws the peers' timelines on one axis, if there are any.
func (t *timing) lanes(peers []Peer) {
	end := 0.0
	for i := range peers {
		for _, s := range peers[i].Timeline {
			if s.drawn() {
				end = max(end, s.EndMS)
			}
		}
	}
	if end == 0 {
		return
	}
	t.LaneTicks = timeTicks(end)
	for i := range peers {
		t.Lanes = append(t.Lanes, peers[i].timeLane(end))
	}
}

func (p *Peer) timeLane(end float64) timeLane {
	l := timeLane{Peer: p}
	for _, row := range laneRows {
		var d strings.Builder
		for _, s := range p.Timeline {
			if row.has(s.Kind) && s.drawn() {
				width := 1000 * (s.EndMS - s.StartMS) / end
				fmt.Fprintf(&d, "M%.1f %dh%.1fv%dh-%.1fz", 1000*s.StartMS/end, row.top, width, row.height, width)
			}
		}
		if d.Len() > 0 {
			l.Paths = append(l.Paths, lanePath{row.class, d.String()})
		}
	}
	return l
}

// A laneRow is where a lane shows some kinds of spans, and in which colour.
type laneRow struct {
	class       string
	top, height int
	kinds       []fsdp.EventKind
}

// laneRows are what a lane shows: on top what the peer did, where a gap is idle, below what travelled.
var laneRows = []laneRow{
	{"compute", 0, 10, []fsdp.EventKind{fsdp.TraceForward, fsdp.TraceBackward}},
	{"parameters", 0, 10, []fsdp.EventKind{fsdp.TracePack, fsdp.TraceWait, fsdp.TraceUnpack}},
	{"reduce", 0, 10, []fsdp.EventKind{fsdp.TraceGive, fsdp.TraceSum}},
	{"commit", 0, 10, []fsdp.EventKind{fsdp.TraceCommit}},
	{"update", 0, 10, []fsdp.EventKind{fsdp.TraceUpdate}},
	{"parameters", 11, 2, []fsdp.EventKind{fsdp.TraceGather, fsdp.TraceFill}},
	{"reduce", 14, 2, []fsdp.EventKind{fsdp.TraceReduce, fsdp.TraceBackup}},
}

func (r *laneRow) has(kind string) bool {
	return slices.Contains(r.kinds, fsdp.EventKind(kind))
}

// timeTicks are labels of an axis of so many milliseconds from 0.
func timeTicks(end float64) []tick {
	var list []tick
	for _, at := range ticks(0, end, 5) {
		if at <= end {
			list = append(list, tick{100 * at / end, tickLabel(at) + " ms"})
		}
	}
	return list
}
